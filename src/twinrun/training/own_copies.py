"""Copies of a module that hold nothing of the original: what is tried on one moves no other.

Python copies a function as itself: a lambda in an attribute, or a hook of a layer, that names
`self` would have the copy call the original. Such functions are made anew, around the copy.
"""

import copy
import gc
import queue
import threading
import types
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch

from twinrun.set_attributes import own_of_module
from twinrun.values_inside import Unlooked, values_in

MOST = 200_000  # objects that are looked at for one of the original's
_LOCKS = {type(make()): make for make in (threading.Lock, threading.RLock)}
# The thread that serves these is not copied: a copy would wait for ever.
_SERVED = (threading.Condition, threading.Event, threading.Semaphore, threading.Barrier)
_SERVED += (threading.Thread, queue.Queue)
NEVER = (type, types.ModuleType, types.CodeType)


class NoCopyError(Exception):
    """A copy would not be one of all."""


def own_copy(trainer: pl.Trainer, module: pl.LightningModule) -> pl.LightningModule:
    """Copy a module, with all that it holds.

    Args:
        trainer: of the training, which is not copied, as its loggers are not.
        module: whose copy has no Trainer, and the same data module, if it holds that.

    Raises:
        NoCopyError: if the copy still holds something of the original, or nobody knows, or lacks
            something of it: hooks of parameters, a thread that serves a queue.
        Exception: whatever an object raises that cannot be copied.
    """
    if any(p._backward_hooks or p._post_accumulate_grad_hooks for p in module.parameters()):
        raise NoCopyError  # which torch leaves out
    outside, datamodule = (trainer, *trainer.loggers), vars(trainer).get("datamodule")
    if _reaches(module, set(), but=(*outside, datamodule)):
        raise NoCopyError
    memo: dict[int, Any] = {id(each): each for each in (*outside, datamodule)}
    with _functions_too():
        copied = copy.deepcopy(module, memo)
    originals = [*outside, *module.modules(), *module.parameters(), *module.buffers()]
    if _reaches(copied, {id(each) for each in originals}, but=[datamodule]):
        raise NoCopyError
    return copied


def is_larger(module: pl.LightningModule, size: int) -> bool:
    """Say whether a copy of all that a module holds is larger, or nobody knows.

    Args:
        module: with its layers.
        size: in bytes.
    """
    found = sum(_bytes_of(tensor) for tensor in (*module.parameters(), *module.buffers()))
    for held in map(own_of_module, module.modules()):
        for _, value in values_in(held, ""):
            if isinstance(value, Unlooked):
                return True
            found += _bytes_of(value)
    return found > size


def _bytes_of(value: object) -> int:
    if isinstance(value, torch.Tensor):
        return value.numel() * value.element_size()
    return value.nbytes if isinstance(value, np.ndarray) else 0


@contextmanager
def _functions_too() -> Iterator[None]:
    """Have functions copied that hold values of where they were made, and locks made anew."""
    known: dict[type, Any] = vars(copy).get("_deepcopy_dispatch", {})
    ours: dict[type, Any] = {types.FunctionType: _copied_function}
    ours |= {kind: lambda lock, _: _LOCKS[type(lock)]() for kind in _LOCKS}
    before = {kind: known[kind] for kind in ours if kind in known}
    known.update(ours)
    try:
        yield
    finally:
        for kind in ours:
            del known[kind]
        known.update(before)


def _copied_function(function: types.FunctionType, memo: dict[int, Any]) -> types.FunctionType:
    cells = function.__closure__
    if not cells:
        return function
    copied = types.FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        tuple(types.CellType() for _ in cells),
    )
    memo[id(function)] = copied
    copied.__kwdefaults__ = function.__kwdefaults__
    vars(copied).update(vars(function))
    for cell, new in zip(cells, copied.__closure__ or (), strict=True):
        try:
            content = cell.cell_contents
        except ValueError:  # not set yet
            continue
        new.cell_contents = copy.deepcopy(content, memo)
    return copied


def _reaches(root: object, originals: set[int], *, but: Sequence[object]) -> bool:
    """Say whether an object holds one of these, what others serve, or more than is looked at."""
    seen, waiting = {id(each): each for each in (root, *but)}, [root]
    while waiting:
        for inner in held_by(waiting.pop()):
            if id(inner) in originals or len(seen) > MOST or _is_served(inner):
                return True
            if id(inner) not in seen and is_looked_at(inner):
                seen[id(inner)] = inner
                waiting.append(inner)
    return False


def _is_served(value: object) -> bool:
    # What ends with an object is done by the copy, too: it may remove a folder.
    return isinstance(value, _SERVED) or hasattr(type(value), "__del__")


def is_looked_at(value: object) -> bool:
    """Say whether an object may hold others that are no code of a library's."""
    return gc.is_tracked(value) and not isinstance(value, NEVER)


def held_by(value: Any) -> list[Any]:
    """Return what an object holds, of a function without the globals of its file."""
    if type(value) is types.FunctionType:
        return [*(value.__closure__ or ()), value.__defaults__, value.__kwdefaults__, vars(value)]
    if isinstance(value, weakref.ref):
        return [value()]
    return gc.get_referents(value)
