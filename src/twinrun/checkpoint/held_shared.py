"""Whether what data have made lies in them alone.

A copy stands for it only then: what a global, a row of the data or a view of them holds too is
another object than its copy, from the first look by `is` or the first change on. Python counts who
holds an object. So the references that lie in what data have made are counted, as the garbage
collector does it, and an object that has more of them is held by something else.
"""

import array
import datetime
import enum
import gc
import mmap
import pathlib
import sys
import types
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytorch_lightning as pl
import torch

from twinrun.checkpoint.held_memory import NOTHING_KNOWN, Known, Stretch, stretch_of
from twinrun.checkpoint.users_code import is_users
from twinrun.containers import is_really

_MOST = 1 << 20  # objects that are gone through
_ONE = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, enum.Enum)
"""What is one in a process, and known by its name."""
_LEFT_OUT = (pl.Trainer, torch.nn.Module, torch.Tensor)
_BUFFERS = (bytearray, array.array, mmap.mmap, memoryview)
_VALUES = {bool, int, str, bytes, type(None), type(pathlib.Path())}
_VALUES |= {torch.dtype, torch.device, torch.layout}
_VALUES |= {datetime.datetime, datetime.date, datetime.time, datetime.timedelta}
"""Of these nobody tells equal ones apart."""


class Root(NamedTuple):
    """A place in the data."""

    get: Callable[[], object]
    """Returns what lies there."""
    is_whole: bool
    """Whether it is an attribute, which a later group may hold too."""
    is_old: bool = False
    """Whether it is a container that is filled, not made: anything may hold it."""


def is_shared(*groups: tuple[Sequence[Root], Known], data: Iterable[object] = ()) -> bool:
    """Say whether something else holds an object, or memory, of what data have made.

    Args:
        groups: of what is copied together, places and what a resumed training has by itself, which
            is not looked into. Nothing but these places may hold what lies
            there: no variable of who asks. All of it can be held.
        data: what arrays may lie in whose memory a tensor has.

    Returns:
        True also where that cannot be told.
    """
    try:
        found, wholes = _Found(), set[int]()
        for roots, known in groups:
            found.begin(known, wholes)
            for root in roots:
                found.enter([root.get()], is_free=root.is_old)
                wholes |= {id(root.get())} if root.is_whole else set()
            found.go_on()
        return found.are_held_elsewhere(data)
    except Exception:  # of whatever class: an object's own code raises, or it is nested too deep
        return True


def beside(trainer: pl.Trainer, owners: Mapping[int, object]) -> list[object]:
    """Return what an array may lie in whose memory a tensor of the data has.

    Args:
        trainer: of the training.
        owners: the data, by identity.
    """
    # Not those of Twinrun, which know all files.
    callbacks = [each for each in vars(trainer)["callbacks"] if is_users(type(each).__module__)]
    theirs = [*owners.values(), trainer.lightning_module, *callbacks]
    names = {kind.__module__ for each in theirs for kind in type(each).__mro__}
    files = [sys.modules[name] for name in sorted(names & sys.modules.keys())]
    return [*theirs, *files, vars(trainer.lightning_module)]


class _SharedError(Exception):
    """Something else holds it."""


class _Found:
    """What lies in what data have made."""

    def __init__(self) -> None:
        self._known = NOTHING_KNOWN
        self._apart = set[int]()  # what lies in an earlier group
        self._nodes: dict[int, Any] = {}
        self._free = set[int]()
        self._gone_into = 0  # so many of these
        self._inside = Counter[int]()  # references by their identity
        self._bases = set[int]()  # of tensors that are views
        self._of_memory: dict[int, list[int]] = {}  # tensors by their storage, both by identity
        self._of_arrays: list[tuple[int, int]] = []  # addresses, from where to where

    def begin(self, known: Known, wholes: Iterable[int]) -> None:
        """Come to what is copied together, and may hold only what is whole of what was before."""
        self._known, self._apart = known, {*self._nodes} - {*wholes}

    def enter(self, items: Iterable[Any], references: int = 1, *, is_free: bool = False) -> None:
        """Take in objects, each with its references; others that are free may have any."""
        for item in items:
            if id(item) in self._apart:
                raise _SharedError
            if id(item) in self._nodes or not (id(item) in self._known.names or _is_value(item)):
                self._nodes.setdefault(id(item), item)
                self._inside[id(item)] += references
                self._free |= {id(item)} if is_free else set()

    def go_on(self) -> None:
        """Take in what lies in them."""
        while self._gone_into < len(self._nodes) <= _MOST:
            turn, self._gone_into = self._gone_into, len(self._nodes)
            for node in [*self._nodes.values()][turn:]:
                if is_really(node, torch.Tensor):
                    self._enter_memory(node)
                elif is_really(node, np.ndarray):
                    if node.base is not None and not self._is_known(stretch_of(node)):
                        if node.size:
                            self._of_arrays.append(np.lib.array_utils.byte_bounds(node))
                        self.enter([node.base])
                else:
                    self.enter(gc.get_referents(node))

    def _enter_memory(self, tensor: torch.Tensor) -> None:
        if (stretch := stretch_of(tensor)) is None:
            raise _SharedError
        if self._is_known(stretch):
            return  # it is a part of that again
        storage = tensor.untyped_storage()
        if not storage.resizable():  # an array has had it
            self._of_arrays.append((stretch.first, stretch.end))
        self._of_memory.setdefault(storage._cdata, []).append(id(tensor))
        if tensor._is_view():
            self.enter([base := tensor._base], references=0)
            self._bases.add(id(base))

    def _is_known(self, stretch: Stretch | None) -> bool:
        has_any = stretch is not None and stretch.first < stretch.end
        return has_any and any(known.has(stretch) for known in self._known.memory)

    def _is_in_an_array(self, data: Iterable[object]) -> bool:
        """Say whether an array in data has memory of a tensor, which does not count who has it."""
        seen, left = {*self._nodes}, [each for each in data if id(each) not in self._nodes]
        while left:
            if len(seen) > _MOST:
                return True
            item: Any = left.pop()
            if issubclass(type(item), types.ModuleType) and id(item) not in seen:
                seen.add(id(item))
                left += _named_in(item).values() if is_users(item.__name__) else ()
            if id(item) in seen or issubclass(type(item), _LEFT_OUT) or _is_value(item):
                continue
            seen.add(id(item))
            if issubclass(type(item), np.ndarray) and item.dtype.hasobject:
                left += item.ravel().tolist()
                continue
            if issubclass(type(item), _BUFFERS) and not len(item):
                continue
            if issubclass(type(item), (np.ndarray, *_BUFFERS)):
                is_array = issubclass(type(item), np.ndarray)
                numbers = item if is_array else np.frombuffer(item, np.uint8)
                first, end = np.lib.array_utils.byte_bounds(numbers)
                if any(first < to and of < end for of, to in self._of_arrays):
                    return True
            else:
                left += gc.get_referents(item)
        return False

    def are_held_elsewhere(self, data: Iterable[object]) -> bool:
        """Say whether anything has more references than have been found, or other memory has it."""
        spare = {0: object()}
        own = sys.getrefcount(spare[0])  # by a dictionary, and where it is asked
        return (
            len(self._nodes) > _MOST
            # Torch holds the object of a tensor that is the base of another one once.
            or any(
                sys.getrefcount(self._nodes[key]) - own != count + (key in self._bases)
                for key, count in self._inside.items()
                if key not in self._free
            )
            or any(map(weakref.getweakrefcount, self._nodes.values()))
            or any(_holders(self._nodes[each[0]]) != len(each) for each in self._of_memory.values())
            or (bool(self._of_arrays) and self._is_in_an_array(data))
        )


def _named_in(file: types.ModuleType) -> dict[str, object]:
    """Return what a file has named, and not the import system."""
    return {name: each for name, each in vars(file).items() if not name.startswith("__")}


def _holders(tensor: torch.Tensor) -> int:
    """Return how many tensors have the memory of one."""
    storage = tensor.untyped_storage()
    return torch._C._storage_Use_Count(storage._cdata) - 1  # but for `storage` itself


def _is_value(item: Any) -> bool:
    kind = type(item)
    if kind in _VALUES or issubclass(kind, _ONE):
        return True
    if issubclass(kind, (float, complex, np.generic)):
        return kind is np.void or bool(item == item)  # one that is no number is found by `is`
    return issubclass(kind, (tuple, frozenset)) and all(map(_is_value, tuple(item)))
