"""Copies of a module that hold nothing of the original: what is tried on one moves no other.

Python copies a function as itself: a lambda in an attribute, or a hook of a layer, that names
`self` would have the copy call the original. Such functions are made anew, around the copy.
"""

import copy
import gc
import threading
import types
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
NEVER = (type, types.ModuleType, types.CodeType)


class NoCopyError(Exception):
    """A copy would not be one of all."""


def own_copy(
    trainer: pl.Trainer, module: pl.LightningModule, callbacks: Sequence[pl.Callback] = ()
) -> tuple[pl.LightningModule, list[pl.Callback]]:
    """Copy a module and callbacks, with all that they hold.

    Args:
        trainer: of the training, which is not copied, as its loggers are not.
        module: whose copy has no Trainer, and the same data module, if it holds that.
        callbacks: of the training.

    Raises:
        NoCopyError: if the copy still holds something of the original, or nobody knows.
        Exception: whatever an object raises that cannot be copied.
    """
    outside, datamodule = (trainer, *trainer.loggers), vars(trainer).get("datamodule")
    memo: dict[int, Any] = {id(each): each for each in (*outside, datamodule)}
    with _functions_too():
        copied = copy.deepcopy((module, [*callbacks]), memo)
    originals = [*outside, *callbacks, *module.modules(), *module.parameters(), *module.buffers()]
    if _reaches(copied, {id(each) for each in originals}, but=datamodule):
        raise NoCopyError
    return copied


def is_larger(module: pl.LightningModule, size: int, callbacks: Sequence[pl.Callback] = ()) -> bool:
    """Say whether a copy of all that a module and callbacks hold is larger, or nobody knows.

    Args:
        module: with its layers.
        size: in bytes.
        callbacks: whose attributes count, too.
    """
    found = sum(_bytes_of(tensor) for tensor in (*module.parameters(), *module.buffers()))
    for held in (*map(own_of_module, module.modules()), *map(vars, callbacks)):
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


def _reaches(root: object, originals: set[int], *, but: object) -> bool:
    """Say whether an object holds one of these in any way, or more than is looked at."""
    seen, waiting = {id(root): root, id(but): but}, [root]
    while waiting:
        for inner in held_by(waiting.pop()):
            if id(inner) in originals or len(seen) > MOST:
                return True
            if id(inner) not in seen and is_looked_at(inner):
                seen[id(inner)] = inner
                waiting.append(inner)
    return False


def is_looked_at(value: object) -> bool:
    """Say whether an object may hold others that are no code of a library's."""
    return gc.is_tracked(value) and not isinstance(value, NEVER)


def held_by(value: Any) -> list[Any]:
    """Return what an object holds, of a function without the globals of its file."""
    if type(value) is types.FunctionType:
        return [*(value.__closure__ or ()), value.__defaults__, value.__kwdefaults__, vars(value)]
    return gc.get_referents(value)
