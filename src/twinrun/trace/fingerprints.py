"""Fingerprints: xxh3_64 over the bytes of tensors, batches, samples, optimizers, RNG states.

A fingerprint sees a swap of two values, the sign of a zero and any flipped bits (64 bits: two
different tensors share one with probability 5e-20). Taking one reads only: no random number is
drawn and no tensor is changed. What lies on a GPU is copied to the host; a training's steps are
fingerprinted where they lie, by `step_fingerprints`, which hands its own way of taking one to the
functions here.
"""

import ctypes
import functools
import struct
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import torch
import xxhash

from twinrun.batches import Opaque, leaves
from twinrun.optimizer_attributes import values_beside
from twinrun.plain_tensors import bare, flat_bytes, plain_tensors
from twinrun.trace.array_values import value_parts
from twinrun.trace.pending import Pending, together, value_of
from twinrun.trace.rng_states import numpy_state, python_state

Print: TypeAlias = int | Pending[int]
"""A fingerprint, or one that follows from numbers on a GPU."""
Taking: TypeAlias = Callable[[torch.Tensor | None], Print]
"""Takes the fingerprint of a tensor; of None, 0."""


def fingerprint(tensor: torch.Tensor | None) -> int:
    """Return the xxh3_64 of a tensor's bytes; of None (no gradient), 0.

    Sparse tensors count by their indices and values, nested ones by their parts and their shapes.
    """
    if tensor is None:
        return 0
    # A step of many small tensors takes hundreds of them: a NumPy array of each takes six times as
    # long as all of this.
    if type(tensor) in DENSE and _is_as_it_lies(tensor):
        return xxhash.xxh3_64_intdigest(_bytes_at(tensor.nbytes)(tensor.data_ptr()))
    tensor = bare(tensor)
    if not is_plain(tensor):
        return join([fingerprint(part) for part in plain_tensors(tensor)])
    # An array of an empty tensor would stand against its being resized, as it is to be filled.
    if not tensor.numel() or was_given_back(tensor):
        return xxhash.xxh3_64_intdigest(b"")
    try:
        # As `_bytes`, but in one call.
        elements = np.ascontiguousarray(tensor.numpy(force=True))
    except TypeError:  # bfloat16 and others that NumPy does not have
        elements = flat_bytes(tensor)
    return xxhash.xxh3_64_intdigest(elements.data)


def fingerprint_tree(batch: object) -> int:
    """Return one fingerprint of all that a batch holds, in order, with structure, types and shapes.

    An object that cannot be looked into counts by its class alone: see `fingerprint_batch`.
    """
    return fingerprint_batch(batch)[0]


def fingerprint_batch(batch: object) -> tuple[int, list[str]]:
    """Return `fingerprint_tree`, and the classes of the objects that it could not look into."""
    found, opaque = print_of_batch(batch, fingerprint)
    return value_of(found), opaque


def print_of_batch(batch: object, taken: Taking) -> tuple[Print, list[str]]:
    """Return what `fingerprint_batch` does, with tensors fingerprinted in another way."""
    texts, opaque = [], []
    for path, leaf in leaves(batch):
        texts.append(_line(f"{path!r}=", leaf, taken))
        if isinstance(leaf, Opaque):
            opaque.append(leaf.kind)
    return together(texts, lambda all_: xxhash.xxh3_64_intdigest("".join(all_).encode())), opaque


def _line(start: str, leaf: object, taken: Taking) -> str | Pending[str]:
    if not isinstance(leaf, torch.Tensor):
        return f"{start}{described(leaf)};"
    # The words first: a batch may be written to while its fingerprint is on its way.
    words = tensor_words(leaf)
    return together([taken(leaf)], lambda found: f"{start}{words}{found[0]};")


def described(leaf: object) -> str:
    """Write a leaf so that other values are other words."""
    if isinstance(leaf, np.generic):  # a repr of a long one is shortened
        leaf = np.asarray(leaf)
    if isinstance(leaf, torch.Tensor):
        return f"{tensor_words(leaf)}{fingerprint(leaf)}"
    if isinstance(leaf, np.ndarray):
        content = xxhash.xxh3_64()
        for part in value_parts(leaf):
            content.update(np.ascontiguousarray(part).tobytes())
        return f"array {leaf.dtype}{leaf.shape}{content.intdigest()}"
    if isinstance(leaf, float | complex) and leaf != leaf:  # all are written as `nan`
        words = struct.pack("<dd", leaf.real, leaf.imag).hex()
        return f"{type(leaf).__name__} {leaf!r}{words}"
    if isinstance(leaf, str):  # a class of strings may show itself by other words
        return f"{type(leaf).__name__} {str.__repr__(leaf)}"
    return f"{type(leaf).__name__} {leaf!r}"


def tensor_words(tensor: torch.Tensor) -> str:
    """Write what a tensor is, its values aside."""
    tensor = bare(tensor)
    if tensor.is_nested:  # its shape holds symbols that are counted up in each process
        return f"tensor {tensor.dtype}nested"
    # By rows and by columns the parts of a sparse matrix may be the same.
    layout = "" if tensor.layout is torch.strided else str(tensor.layout)
    return f"tensor {tensor.dtype}{tuple(tensor.shape)}{layout}"


def is_plain(tensor: torch.Tensor) -> bool:
    """Say whether a tensor's bytes are its values, in order."""
    return tensor.layout is torch.strided and not (tensor.is_nested or tensor.is_quantized)


def was_given_back(tensor: torch.Tensor) -> bool:
    """Say whether the storage of a tensor was resized to nothing: to read it is to crash."""
    # Of other classes a storage may be empty while the values lie elsewhere.
    if type(tensor) not in DENSE or not is_plain(tensor) or not tensor.numel():
        return False
    try:
        return not tensor.untyped_storage().nbytes()
    except RuntimeError:  # as in `_has_memory`
        return False


@functools.lru_cache(maxsize=1024)  # a type takes 30 us to make
def _bytes_at(size: int) -> Callable[[int], ctypes.Array[ctypes.c_char]]:
    """Return what makes a view of so many bytes at an address."""
    return (ctypes.c_char * size).from_address


DENSE = (torch.Tensor, torch.nn.Parameter)  # whose memory no class of a user's stands before


def _is_as_it_lies(tensor: torch.Tensor) -> bool:
    """Say whether a tensor's memory, read from its start, is its bytes in the order of elements."""
    return (
        tensor.is_cpu
        and tensor.layout is torch.strided
        and not (tensor.is_nested or tensor.is_quantized or tensor.is_conj() or tensor.is_neg())
        and tensor.is_contiguous()
        and tensor.numel() > 0
        and _has_memory(tensor)
    )


def _has_memory(tensor: torch.Tensor) -> bool:
    try:
        return tensor.data_ptr() != 0  # a storage that was given back has none
    except RuntimeError:  # kept from inside of torch.func.grad: it lies in another tensor
        return False


# Settings of an optimizer that say how it computes, not what: the state shows whether they matter.
OPTIMIZER_FORMS = ("foreach", "fused", "capturable", "differentiable")


def fingerprint_states(
    optimizers: Sequence[torch.optim.Optimizer],
    parameters: Sequence[torch.Tensor],
    taken: Taking = fingerprint,
) -> list[Print]:
    """Return a fingerprint of the optimizers' state of each parameter; 0 where there is none."""
    states: list[Print] = [0] * len(parameters)
    for optimizer in optimizers:
        # Not by `[]`: the state is a defaultdict, and reading would add an entry to it.
        get = optimizer.state.get
        for index, parameter in enumerate(parameters):
            if (values := get(parameter)) is not None:
                found = [_fingerprint_value(value, taken) for value in values.values()]
                # Several optimizers may hold one parameter.
                states[index] = joined([states[index], *found])
    return states


def fingerprints_beside(
    optimizers: Sequence[torch.optim.Optimizer],
    held: Sequence[torch.Tensor],
    taken: Taking = fingerprint,
) -> list[Print]:
    """Return a fingerprint of what each optimizer keeps in attributes, of those that keep any.

    Not of fractions: an optimizer may tell the time, and what they change shows by itself.
    """
    kept = [values_beside(optimizer, held) for optimizer in optimizers]
    return [
        print_of_batch({p: v for p, v in of.items() if not isinstance(v, float)}, taken)[0]
        for of in kept
        if of
    ]


def settings_of(optimizer: torch.optim.Optimizer) -> list[dict[str, object]]:
    """Return the settings of each group of parameters that say what an optimizer computes."""
    left_out = {"params", *OPTIMIZER_FORMS}
    return [
        {name: value for name, value in group.items() if name not in left_out}
        for group in optimizer.param_groups
    ]


def fingerprint_settings(groups: Sequence[Mapping[str, object]]) -> int:
    """Return one fingerprint of what `settings_of` gave."""
    return value_of(print_of_settings(groups, fingerprint))


def print_of_settings(groups: Sequence[Mapping[str, object]], taken: Taking) -> Print:
    """Return what `fingerprint_settings` does, with tensors fingerprinted in another way."""
    texts: list[str | Pending[str]] = []
    for group in groups:
        for name, value in group.items():
            # Most are numbers: walking them as a batch takes five times as long.
            parts = value if type(value) is tuple else (value,)
            if all(type(part) in (bool, int, float, str, type(None)) for part in parts):
                texts.append(f"{name}={value!r};")
            else:
                texts.append(_setting(name, print_of_batch(value, taken)[0]))
    return together(texts, lambda all_: xxhash.xxh3_64_intdigest("".join(all_).encode()))


def _setting(name: str, found: Print) -> str | Pending[str]:
    return together([found], lambda values: f"{name}={values[0]!r};")


def fingerprint_rng_states(cuda: bool) -> dict[str, int]:
    """Return a fingerprint of the state of each global random generator, by its name.

    Args:
        cuda: include the generators of the CUDA devices; asking for them starts CUDA.
    """
    found = {
        "python": xxhash.xxh3_64_intdigest(python_state()),
        "numpy": xxhash.xxh3_64_intdigest(numpy_state()),
        "torch": fingerprint(torch.get_rng_state()),
    }
    if cuda:
        states = enumerate(torch.cuda.get_rng_state_all())
        found |= {f"cuda:{index}": fingerprint(state) for index, state in states}
    return found


def join(values: Sequence[int]) -> int:
    """Return one fingerprint of several, in order."""
    return xxhash.xxh3_64_intdigest(array("Q", values))


def joined(values: Iterable[Print]) -> Print:
    """Return one fingerprint of several, in order; pending where one of them is."""
    found: list[Print] = [*values]
    return together(found, join)


def hexadecimal(value: int) -> str:
    """Write a fingerprint as 16 digits."""
    return f"{value:016x}"


def _fingerprint_value(value: object, taken: Taking) -> Print:
    if isinstance(value, torch.Tensor):
        return taken(value)
    return print_of_batch(value, taken)[0]
