"""Random number generators of the user's own, beside the global ones: reading and setting them."""

import copy
import pickle
import random
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import numpy as np
import torch
import xxhash
from pytorch_lightning.utilities.seed import isolate_rng

from twinrun.containers import attributes_of

GENERATORS = (
    np.random.Generator,
    np.random.RandomState,
    np.random.BitGenerator,
    random.Random,
    torch.Generator,
)


def state_of(value: object) -> object | None:
    """Return a copy of a generator's state; None for anything else, and for one without a state."""
    if isinstance(value, torch.Generator):
        return value.get_state()
    if isinstance(value, np.random.Generator):
        return copy.deepcopy(value.bit_generator.state)
    if isinstance(value, np.random.BitGenerator):
        return copy.deepcopy(value.state)
    if isinstance(value, np.random.RandomState):
        return value.get_state()
    if isinstance(value, random.Random):
        with suppress(NotImplementedError):  # random.SystemRandom asks the operating system
            return value.getstate()
    return None


def state_in_a_word(value: object) -> str | None:
    """Return a hash of a generator's state; None for one without a state."""
    state = state_of(value)
    if isinstance(state, torch.Tensor):
        state = state.numpy().tobytes()
    drawn_by = state, times_spawned(value)
    return None if state is None else xxhash.xxh3_64_hexdigest(pickle.dumps(drawn_by))


def times_spawned(value: object) -> int:
    """Return how many others a generator of NumPy's has begun, which it counts; 0 of others."""
    numpys = getattr(value, "bit_generator", value)
    is_numpys = isinstance(numpys, np.random.BitGenerator)
    return getattr(numpys.seed_seq, "n_children_spawned", 0) if is_numpys else 0


def global_generators() -> set[int]:
    """Return the identities of those of the process, of GPUs too once CUDA has begun."""
    of_torch = [torch.default_generator, *torch.cuda.default_generators]
    of_python = [random._inst, np.random.mtrand._rand]  # pyrefly: ignore[missing-attribute]
    return {id(generator) for generator in (*of_torch, *of_python)}


def set_state(value: object, state: object) -> None:
    """Set a generator to what `state_of` returned; anything else stays as it is."""
    if isinstance(value, torch.Generator) and isinstance(state, torch.Tensor):
        value.set_state(state)
    elif isinstance(value, np.random.Generator) and isinstance(state, dict):
        value.bit_generator.state = copy.deepcopy(state)
    elif isinstance(value, np.random.BitGenerator) and isinstance(state, dict):
        value.state = copy.deepcopy(state)
    elif isinstance(value, np.random.RandomState) and isinstance(state, tuple):
        value.set_state(state)
    elif isinstance(value, random.Random) and isinstance(state, tuple):
        value.setstate(state)


@contextmanager
def undrawn(owner: object) -> Iterator[None]:
    """Put generators back that reading an object may draw from.

    The global ones, and those that the object holds, itself or in an object that it holds.
    """
    states = [(found, state_of(found)) for found in _held(owner)]
    try:
        with isolate_rng(include_cuda=torch.cuda.is_initialized()):
            yield
    finally:
        for found, state in states:
            set_state(found, state)


def _held(owner: object) -> Iterator[object]:
    for value in attributes_of(owner).values():
        for found in (value, *attributes_of(value).values()):
            if isinstance(found, GENERATORS):
                yield found
