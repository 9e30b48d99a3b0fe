"""State that a training has and that no checkpoint holds: generators, and what callbacks keep.

A resumed training would begin with such a state as it was made, and draw the first epoch's order or
augmentations again, or go on without a moving average. Looked at are the attributes of the module
and its submodules, the data module, loaders, samplers, batch samplers and datasets (also those that
wrap another one), and the short lists, tuples and dictionaries in them; of callbacks the attributes
that change while the training runs and that no `state_dict` gives.
"""

import hashlib
import pickle
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

import numpy as np
import pytorch_lightning as pl
import torch

GENERATORS = (np.random.Generator, np.random.RandomState, random.Random, torch.Generator)
MOST_LOOKED_AT = 16  # of a list: of generators there are few, of samples millions
WRAPPED = ("dataset", "datasets", "sampler", "batch_sampler", "_loader")
MOST_WRAPPED = 10  # inside each other; a dataset that holds itself has no end
OURS = ("twinrun.", "pytorch_lightning.", "lightning.")  # keep what they need, or need none


def unsaved_generators(
    trainer: pl.Trainer, loaders: Sequence[object], saved: Sequence[torch.Generator]
) -> Iterator[str]:
    """Name the attributes that hold generators whose states no checkpoint holds.

    Args:
        trainer: of the training; it knows module and data module.
        loaders: of the training.
        saved: generators that the checkpoint holds.
    """
    known = {id(generator) for generator in saved}
    owners: list[object] = [*trainer.lightning_module.modules(), vars(trainer).get("datamodule")]
    owners += [part for loader in loaders for part in _parts(loader, MOST_WRAPPED)]
    for owner in owners:
        for name, value in _attributes(owner).items():
            for found in _inside(value):
                if isinstance(found, GENERATORS) and id(found) not in known:
                    kind = f"{type(found).__module__.partition('.')[0]}'s {type(found).__name__}"
                    yield f"{type(owner).__name__}.{name} is a random number generator ({kind})"


def _parts(owner: object, deeper: int) -> Iterator[object]:
    """Walk a loader, its samplers and datasets, and what these wrap."""
    if owner is None:
        return
    yield owner
    if not deeper:
        return
    attributes = _attributes(owner)
    for name in WRAPPED:
        value = attributes.get(name)
        for part in value if isinstance(value, list | tuple) else [value]:
            yield from _parts(part, deeper - 1)


def _attributes(owner: object) -> Mapping[str, object]:
    # Objects with slots, and those of compiled libraries, have none that could be seen.
    return vars(owner) if hasattr(owner, "__dict__") else {}


def _inside(value: object) -> Iterator[object]:
    yield value
    # One level, and short lists only: a dataset may hold millions of samples in them.
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list | tuple) and len(value) <= MOST_LOOKED_AT:
        yield from value


def states_of_callbacks(trainer: pl.Trainer) -> dict[str, str]:
    """Hash the attributes of callbacks that have no `state_dict`, by `Class.attribute`."""
    found = {}
    for index, callback in enumerate(vars(trainer)["callbacks"]):
        kind = type(callback)
        if kind.__module__.startswith(OURS) or kind.state_dict is not pl.Callback.state_dict:
            continue
        for name, value in vars(callback).items():
            if value is trainer or value is trainer.lightning_module:
                continue
            state = value.state_dict() if isinstance(value, torch.nn.Module) else value
            # Lightning gives each callback the module's `log`, with which all of it is pickled.
            if callable(state):
                continue
            # What cannot be pickled cannot be compared: a file, a connection.
            with suppress(Exception):
                text = pickle.dumps(state)
                found[f"{index} {kind.__name__}.{name}"] = hashlib.sha256(text).hexdigest()
    return found


def changed_callbacks(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    """Name the attributes of callbacks that have changed between two looks."""
    for key, state in after.items():
        if before.get(key) != state:
            name = key.partition(" ")[2]
            yield f"{name} changes while the training runs, and the callback has no state_dict"
