"""What the functions and objects reach that make batches: a collate function's closure, a global.

From loaders, samplers and datasets, and from the hooks that move batches, this walks attributes,
closures, arguments of partials and defaults, the objects of bound methods, and the globals that the
functions name; into classes and functions of a user's, not into those of the libraries. Of a data
module it walks what lies in its containers and objects.
"""

import functools
import itertools
import random
import sys
import sysconfig
import types
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain
from typing import NamedTuple

import numpy as np
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from twinrun.checkpoint.stream_position import Stateful, told_anew
from twinrun.checkpoint.unsaved_state import GENERATORS, MOST_LOOKED_AT, OURS, WRAPPED
from twinrun.containers import (
    attributes_of,
    entries,
    is_container,
    is_hidden_iterator,
    size_of,
)
from twinrun.process.import_path import OURS_AS_USERS

PLAIN = (bool, int, float, str, bytes, type(None))
ITERATORS = (types.GeneratorType, itertools.count, itertools.cycle, itertools.islice, zip, map)
BATCH_HOOKS = ("on_before_batch_transfer", "on_after_batch_transfer", "transfer_batch_to_device")
MOST, DEEPEST = 2000, 12
MOST_NAMED = 256  # entries of a container of a data module: hyperparameters may be many
_NEVER = (pl.Trainer, pl.LightningModule, pl.LightningDataModule, types.ModuleType)
_LOADED = (Dataset, DataLoader, Sampler)  # walked where a loader of the training has them
_COPIED = ("dataset", "collate_fn", "worker_init_fn")
_MADE_ONCE = ("__init__", "__new__", "__post_init__")
_GLOBAL = {id(random._inst), id(np.random.mtrand._rand), id(torch.default_generator)}  # pyrefly: ignore[missing-attribute]


class Reached(NamedTuple):
    """A generator, an iterator, a plain value, a tensor or an array."""

    owner: object
    """What holds it."""
    name: str
    """What it is called."""
    value: object
    """What it is."""


def reached(
    trainer: pl.Trainer,
    loaders: Sequence[object],
    *,
    in_workers: bool = True,
    seen: dict[int, object] | None = None,
) -> Iterator[Reached]:
    """Yield what the making of batches reaches, each once.

    Args:
        trainer: of the training.
        loaders: of the training.
        in_workers: also what data workers have copies of.
        seen: is given all that is come to, by identity.
    """
    walk = _Walk(in_workers, {} if seen is None else seen)
    for loader in loaders:
        yield from walk.part(loader, DEEPEST)
    for owner in (trainer.lightning_module, vars(trainer).get("datamodule")):
        for name in BATCH_HOOKS:
            hook = vars(type(owner)).get(name)
            if isinstance(hook, types.FunctionType) and _is_users(hook.__module__):
                yield from walk.function(hook, DEEPEST)


def held_by_data_module(
    trainer: pl.Trainer, seen: dict[int, object] | None = None
) -> Iterator[Reached]:
    """Yield what the attributes of a data module hold, beside plain values, loaders and datasets.

    Of a class with a `state_dict` of its own nothing: Lightning keeps what it says.

    Args:
        trainer: of the training.
        seen: is given all that is come to, by identity; nothing is that is there already.
    """
    owner = vars(trainer).get("datamodule")
    methods = (getattr(type(owner), name, None) for name in ("state_dict", "load_state_dict"))
    if owner is None or not any(
        getattr(each, "__module__", "").startswith(OURS) for each in methods
    ):
        return
    walk = _Walk(True, {} if seen is None else seen, most=MOST_NAMED)
    for name, value in _attributes(owner).items():
        if not isinstance(value, PLAIN) and not callable(value):
            yield from walk.value(owner, value, f"{type(owner).__name__}.{name}", DEEPEST)


def generators_reached(
    trainer: pl.Trainer, loaders: Sequence[object], saved: Sequence[torch.Generator]
) -> Iterator[str]:
    """Name the generators and iterators whose states no checkpoint holds.

    Args:
        trainer: of the training.
        loaders: of the training.
        saved: generators that the checkpoint holds.
    """
    known = {*_GLOBAL, *map(id, saved)}
    seen: dict[int, object] = {}
    found = chain(reached(trainer, loaders, seen=seen), held_by_data_module(trainer, seen))
    for owner, name, value in found:
        kind = f"{type(value).__module__.partition('.')[0]}'s {type(value).__name__}"
        if isinstance(value, GENERATORS) and id(value) not in known:
            yield f"{name} is a random number generator ({kind})"
        elif isinstance(value, ITERATORS) or (
            is_hidden_iterator(value) and not isinstance(owner, Stateful)
        ):
            yield f"{name} is an iterator ({type(value).__name__}), whose position nobody can save"


@functools.cache
def _is_users(module: object) -> bool:
    """Say whether a module is a user's own, and no installed or built-in one."""
    if not isinstance(module, str) or module.startswith(OURS_AS_USERS):
        return isinstance(module, str)
    if module.partition(".")[0] in {"twinrun", *sys.builtin_module_names}:
        return False
    folders = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    return "site-packages" not in file and not file.startswith(tuple(folders))


class _Walk:
    """One walk, which comes to nothing twice."""

    def __init__(
        self, in_workers: bool, seen: dict[int, object], *, most: int = MOST_LOOKED_AT
    ) -> None:
        self._in_workers = in_workers
        self._most = most  # of a container
        self._is_of_module = most != MOST_LOOKED_AT
        self._in_library = 0  # objects of libraries inside each other
        self._seen = seen  # which keeps them, so that no other object gets their number

    def part(self, part: object, deeper: int) -> Iterator[Reached]:
        """Walk a loader, a sampler or a dataset: its functions and, of a user's, all it holds."""
        if part is None or not deeper or not self._is_new(part):
            return
        is_copied = not self._in_workers and getattr(part, "num_workers", 0)
        # A part of torch's has settings; one of ours cuts or shards what it wraps.
        is_users = _is_users(type(part).__module__)
        is_ours = not is_users and type(part).__module__.startswith("twinrun.")
        told = told_anew(part)
        for name, value in _attributes(part).items():
            called = f"{type(part).__name__}.{name}"
            if name in told or (is_copied and name in _COPIED):
                continue
            if name in WRAPPED:
                several = is_container(value) and not isinstance(value, dict)
                for inner in [item for _, item in entries(value)] if several else [value]:
                    yield from self.part(inner, deeper - 1)
            elif not is_ours and (name[0] != "_" or is_users):
                yield from self.value(part, value, called, deeper - 1)
        yield from self._class(type(part), deeper)

    def value(self, owner: object, value: object, called: str, deeper: int) -> Iterator[Reached]:
        """Walk anything else."""
        if isinstance(value, PLAIN):
            # Those of a tokenizer, say, change as it warns, and keep no state.
            if not self._in_library:
                yield Reached(owner, called, value)
            return
        never = (*_NEVER, *_LOADED) if self._is_of_module else _NEVER
        if isinstance(value, never) or not deeper or not self._is_new(value):
            return
        is_seen = isinstance(value, (*GENERATORS, torch.Tensor, np.ndarray))
        if is_seen or is_hidden_iterator(value):
            yield Reached(owner, called, value)
        elif is_container(value):
            if size_of(value) <= self._most:
                for key, item in entries(value):
                    yield from self.value(value, item, f"{called}[{key!r}]", deeper - 1)
        elif isinstance(value, functools.partial):
            inside = {"func": value.func, "args": value.args, "keywords": value.keywords}
            for name, item in inside.items():
                yield from self.value(value, item, f"{called}.{name}", deeper - 1)
        elif isinstance(value, types.FunctionType):
            yield from self.function(value, deeper)
        elif isinstance(value, types.MethodType | types.BuiltinMethodType):
            yield from self.value(value, value.__self__, f"{called}.__self__", deeper - 1)
            if isinstance(value, types.MethodType):
                yield from self.value(value, value.__func__, called, deeper - 1)
        elif isinstance(value, type):
            yield from self._class(value, deeper)
        else:
            is_of_library = not _is_users(type(value).__module__)
            self._in_library += is_of_library
            for name, item in _attributes(value).items():
                yield from self.value(value, item, f"{type(value).__name__}.{name}", deeper - 1)
            self._in_library -= is_of_library
            yield from self._class(type(value), deeper)

    def function(self, function: types.FunctionType, deeper: int) -> Iterator[Reached]:
        """Walk what a function holds, and the globals that it names."""
        name = function.__qualname__
        for variable, cell in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=False
        ):
            with suppress(ValueError):  # not set yet
                yield from self.value(cell, cell.cell_contents, f"{variable} of {name}", deeper - 1)
        yield from self.value(function, function.__defaults__, f"a default of {name}", deeper - 1)
        yield from self.value(function, function.__kwdefaults__, f"a default of {name}", deeper - 1)
        for attribute, held in vars(function).items():
            yield from self.value(function, held, f"{name}.{attribute}", deeper - 1)
        if not _is_users(function.__module__):
            return
        names = set(_names(function.__code__))
        for variable in sorted(names & function.__globals__.keys()):
            found = function.__globals__[variable]
            if not isinstance(found, types.ModuleType):
                yield from self.value(
                    function.__globals__, found, f"{function.__module__}.{variable}", deeper - 1
                )
            elif _is_users(found.__name__):
                for inner in sorted(names & vars(found).keys()):
                    held = vars(found)[inner]
                    yield from self.value(found, held, f"{variable}.{inner}", deeper - 1)

    def _class(self, kind: type, deeper: int) -> Iterator[Reached]:
        """Walk the methods and attributes of a user's class."""
        for base in kind.__mro__:
            if not _is_users(base.__module__) or not self._is_new(base):
                continue
            for name, value in vars(base).items():
                plain = value.__func__ if isinstance(value, staticmethod | classmethod) else value
                if isinstance(plain, types.FunctionType):
                    if name not in _MADE_ONCE and self._is_new(plain):
                        yield from self.function(plain, deeper - 1)
                elif not name.startswith("__") and not isinstance(plain, type | property):
                    yield from self.value(base, plain, f"{base.__name__}.{name}", deeper - 1)

    def _is_new(self, value: object) -> bool:
        if id(value) in self._seen or len(self._seen) >= MOST:
            return False
        self._seen[id(value)] = value
        return True


def _attributes(owner: object) -> dict[str, object]:
    found: dict[str, object] = {}
    with suppress(Exception):  # whatever class it is of
        found = attributes_of(owner)
    return found


def _names(code: types.CodeType) -> Iterator[str]:
    """Name what the code of a function, and of those inside of it, calls by a name."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)
