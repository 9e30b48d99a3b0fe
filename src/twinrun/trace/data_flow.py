"""What an operation reads and writes: regions of memory, followed from operation to operation.

A tensor is a region of a storage: views share it, and an operation in place changes it for all of
them. So data are followed by regions, not by tensors. Storages are numbered: an address will not
do, because freed memory is given out again. A number keeps nothing alive but the few bytes of the
storage's own record.

An operation on lists (`_foreach_mul`) computes element by element, and `cat` puts one tensor behind
the other: such elements are *lanes*, and a value stays in its own. Generators of random numbers
are memory, too: to draw is to read their state and to write it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch._ops import OpOverload
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._pytree import tree_leaves

MOST_BYTES = 2**22  # of a strided region that is compared with another one byte by byte

# Operations that write their first argument without reading it; those that draw do so, too.
_OVERWRITING = {"copy_", "fill_", "zero_", "_foreach_copy_", "_foreach_zero_"}
_DRAWING = {
    f"{name}_"
    for name in (
        *("bernoulli", "cauchy", "exponential", "geometric", "log_normal"),
        *("normal", "random", "uniform"),
    )
}
_JOINING = {"cat", "stack"}
# Written by a batch normalisation whose schema, older than such marks, does not say so: see
# `native_batch_norm` in native_functions.yaml.
_STATISTICS = ("running_mean", "running_var")
_LISTWISE = ("_foreach_", "_fused_")


class Region(NamedTuple):
    """The elements of a tensor in a storage, in bytes."""

    storage: int
    """Its number."""
    start: int
    """Where in the storage the first element begins."""
    itemsize: int
    """Bytes of an element."""
    shape: tuple[int, ...]
    """Without dimensions of stride 0, which hold one element many times."""
    strides: tuple[int, ...]
    """Strides of these dimensions; torch has no negative ones."""

    def end(self) -> int:
        """Return the byte after the last one."""
        steps = ((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))
        return self.start + sum(steps) + self.itemsize

    def size(self) -> int:
        """Return the number of bytes of all elements."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.itemsize

    def is_dense(self) -> bool:
        """Say whether the elements lie without a gap."""
        return self.size() == self.end() - self.start

    def overlaps(self, other: "Region") -> bool:
        """Say whether both hold a byte of the same storage; if both are large and strided, yes."""
        if self.storage != other.storage or min(self.end(), other.end()) <= max(
            self.start, other.start
        ):
            return False
        if (self.is_dense() and other.is_dense()) or max(self.size(), other.size()) > MOST_BYTES:
            return True
        return bool(np.intersect1d(_bytes(self), _bytes(other)).size)

    def covers(self, other: "Region") -> bool:
        """Say whether it holds every byte of the other; of large, strided ones only if equal."""
        if self == other:
            return True
        if self.storage != other.storage or not (
            self.start <= other.start and other.end() <= self.end()
        ):
            return False
        if self.is_dense() or max(self.size(), other.size()) > MOST_BYTES:
            return self.is_dense()
        return bool(np.isin(_bytes(other), _bytes(self)).all())


def _bytes(region: Region) -> np.ndarray:
    """Return the position of each byte of a region."""
    starts = np.array([region.start])
    for size, stride in zip(region.shape, region.strides, strict=True):
        starts = (starts[:, None] + stride * np.arange(size)).reshape(-1)
    return (starts[:, None] + np.arange(region.itemsize)).reshape(-1)


@dataclass(frozen=True, kw_only=True)
class Use:
    """A tensor, or a generator's state, as an operation reads or writes it."""

    regions: tuple[Region, ...]
    """The memory it covers: several regions for a sparse tensor, none for one without elements."""
    content: str
    """Its fingerprint, with type and shape."""
    lane: int | None = None
    """Its index in a list that is computed element by element; None for what all lanes share."""
    is_generator: bool = False
    """Whether it is a generator's state, not a tensor."""


@dataclass(frozen=True, kw_only=True)
class Flow:
    """What one operation reads and writes."""

    reads: Sequence[Use]
    """What it reads: its result can depend on nothing else."""
    writes: Sequence[Use]
    """Empty of a view, which makes no new content."""
    views: Sequence[Use]
    """What a view gives: other regions of memory that somebody else has written."""
    is_allocation: bool
    """Whether what it writes is memory that holds whatever was left there."""


class Memory:
    """Numbers the storages, and the generators, that operations use."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        # A weak reference frees the elements and keeps the storage's record, so that no other
        # storage gets its address. Generators are kept whole: they are small.
        self._held: list[StorageWeakRef | torch.Generator | torch.Tensor] = []

    def regions(self, tensor: torch.Tensor) -> tuple[Region, ...]:
        """Return where the elements of a tensor are."""
        found = (self._region(part) for part in _strided_parts(tensor) if part.numel())
        return tuple(region for region in found if region is not None)

    def generator(self, generator: torch.Generator) -> Region:
        """Return a region that stands for the state of a generator."""
        return Region(self._number(id(generator), generator), 0, 1, (), ())

    def storage(self, tensor: torch.Tensor) -> int | None:
        """Return the number of a strided tensor's storage; None for another one."""
        if tensor.layout is not torch.strided or tensor.is_nested:
            return None
        storage = tensor.untyped_storage()
        known = self._numbers.get(storage._cdata)
        return self._number(storage._cdata, StorageWeakRef(storage)) if known is None else known

    def _region(self, part: torch.Tensor) -> Region | None:
        number = self.storage(part)
        if number is None:  # a layout that shows no storage: the tensor itself is the memory
            return Region(self._number(id(part), part), 0, 1, (), ())
        item = part.element_size()
        kept = [
            (size, stride * item)
            for size, stride in zip(part.shape, part.stride(), strict=True)
            if stride and size > 1
        ]
        shape, strides = zip(*kept, strict=True) if kept else ((), ())
        return Region(number, int(part.storage_offset()) * item, item, shape, strides)

    def _number(self, key: int, held: StorageWeakRef | torch.Generator | torch.Tensor) -> int:
        if key not in self._numbers:
            self._numbers[key] = len(self._held)
            self._held.append(held)
        return self._numbers[key]


def _strided_parts(tensor: torch.Tensor) -> list[torch.Tensor]:
    """Return the tensors whose storages hold the elements."""
    if tensor.is_nested:
        return [tensor.values()] if tensor.layout is torch.jagged else list(tensor.unbind())
    if tensor.layout is torch.sparse_coo:
        # Not `indices()`, which refuses a tensor that is not coalesced.
        return [tensor._indices(), tensor._values()]
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    return [tensor]


def name_of(func: OpOverload) -> str:
    """Return the bare name of an operation, such as `add_`."""
    return func._schema.name.rpartition("::")[2]


def tensors_read(
    func: OpOverload, args: Sequence[object], kwargs: Mapping[str, object]
) -> Iterator[tuple[torch.Tensor, int | None]]:
    """Yield the tensors whose content an operation reads, each with its lane."""
    name = name_of(func)
    has_lanes = name.startswith(_LISTWISE) or name in _JOINING
    for position, (argument, value) in enumerate(_arguments(func, args, kwargs)):
        is_overwritten = position == 0 and name in _OVERWRITING | _DRAWING
        # An `out=` is written alone: what it held is lost.
        if argument.is_out or is_overwritten:
            continue
        is_list = has_lanes and isinstance(value, list | tuple)
        for lane, item in enumerate(value if is_list else [value]):
            for tensor in tensors_in(item):
                yield tensor, lane if is_list else None


def tensors_written(
    func: OpOverload, args: Sequence[object], kwargs: Mapping[str, object], result: object
) -> list[tuple[torch.Tensor, int | None]]:
    """Return the tensors that an operation gives or changes, once each, with their lanes."""
    name = name_of(func)
    if name in _JOINING and isinstance(result, torch.Tensor):
        return _joined(func, args, kwargs, result)
    is_listwise = name.startswith(_LISTWISE)
    changed = [
        value
        for argument, value in _arguments(func, args, kwargs)
        if (argument.alias_info is not None and argument.alias_info.is_write)
        or (argument.name in _STATISTICS and _updates_statistics(name))
    ]
    # A result of several lists, or of one.
    results = list(result) if isinstance(result, tuple) else [result]
    found: dict[int, tuple[torch.Tensor, int | None]] = {}
    for value in [*results, *changed]:
        is_list = is_listwise and isinstance(value, list | tuple)
        for lane, item in enumerate(value if is_list else [value]):
            for tensor in tensors_in(item):
                # An operation in place returns what it has written: once is enough.
                found.setdefault(id(tensor), (tensor, lane if is_list else None))
    return list(found.values())


def _updates_statistics(name: str) -> bool:
    return "batch_norm" in name and not name.endswith(("backward", "_functional", "_no_update"))


def _joined(
    func: OpOverload, args: Sequence[object], kwargs: Mapping[str, object], result: torch.Tensor
) -> list[tuple[torch.Tensor, int | None]]:
    """Return the pieces of a joined tensor, each in the lane of the one it was made from."""
    values = {argument.name: value for argument, value in _arguments(func, args, kwargs)}
    parts, dim = tensors_in(values["tensors"]), values["dim"]
    dim = dim if isinstance(dim, int) else 0  # its default is 0
    # NumPy's rule of old, which `cat` keeps: an empty vector fits beside anything.
    lengths = [
        1 if name_of(func) == "stack" else part.shape[dim] if part.ndim == result.ndim else 0
        for part in parts
    ]
    starts = np.cumsum([0, *lengths]).tolist()
    return [
        (result.narrow(dim, start, length), lane)
        for lane, (start, length) in enumerate(zip(starts, lengths, strict=False))
    ]


def _arguments(
    func: OpOverload, args: Sequence[object], kwargs: Mapping[str, object]
) -> Iterator[tuple[torch._C.Argument, object]]:
    """Yield what an operation was called with, beside what its schema says of it."""
    for position, argument in enumerate(func._schema.arguments):
        yield argument, args[position] if position < len(args) else kwargs.get(argument.name)


def is_view(func: OpOverload) -> bool:
    """Say whether an operation gives another view of what it was given, and writes nothing."""
    aliases = [returned.alias_info for returned in func._schema.returns]
    return any(alias is not None and not alias.is_write for alias in aliases)


def generator_of(func: OpOverload, leaves: Sequence[object]) -> torch.Generator | None:
    """Return the generator that an operation draws from; None if it draws nothing."""
    if torch.Tag.nondeterministic_seeded not in func.tags:
        return None
    for leaf in leaves:
        if isinstance(leaf, torch.Generator):
            return leaf
    devices = [leaf for leaf in leaves if isinstance(leaf, torch.device)]
    devices += [leaf.device for leaf in leaves if isinstance(leaf, torch.Tensor)]
    device = devices[0] if devices else torch.device("cpu")
    if device.type == "cuda":
        index = torch.cuda.current_device() if device.index is None else device.index
        return torch.cuda.default_generators[index]
    # ASSUME that of another device is not followed: its state cannot be asked for in one way.
    return torch.default_generator if device.type == "cpu" else None


def tensors_in(tree: object) -> list[torch.Tensor]:
    """Return the tensors in lists, tuples and dictionaries, in order."""
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]
