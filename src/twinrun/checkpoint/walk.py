"""Walk functions and objects: what they hold, and what the functions name.

Attributes, closures, arguments of partials and defaults, the objects of bound methods, and globals;
into what is a user's, not a library's.
"""

import collections
import contextvars
import functools
import sys
import types
import weakref
from collections.abc import Container, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from twinrun.checkpoint.found import Found, Holder, Length, Order
from twinrun.checkpoint.long_containers import sample_of
from twinrun.checkpoint.stream_position import told_anew, wrapped_in
from twinrun.checkpoint.unsaved_state import MOST_LOOKED_AT, WRAPPED, says_itself
from twinrun.checkpoint.users_code import (
    MADE_ONCE,
    attributes_seen,
    functions_in,
    is_code,
    is_users,
    names_in,
    seeks,
)
from twinrun.containers import (
    entries,
    holds_for_users,
    is_container,
    is_hidden_iterator,
    is_really,
    shown,
    size_of,
)
from twinrun.generators import GENERATORS
from twinrun.hidden_content import NUMBERS, PLAIN, UNORDERED, content_of, content_of_plain
from twinrun.pandas_values import is_table

MOST, DEEPEST = 50_000, 12
MOST_NAMED = 256  # entries of a container that are told apart: hyperparameters may be many
_NEVER = (pl.Trainer, pl.LightningModule, pl.LightningDataModule, types.ModuleType)
LOADED = (Dataset, DataLoader, Sampler)  # walked where a loader of the training has them
_METHODS = (types.MethodType, types.BuiltinMethodType, types.MethodWrapperType)
# By these a name in a text may ask for anything: of a file that is named, or of its own.
_BY_TEXT = {"getattr", "vars", "__dict__"}
_OF_ITSELF = {"globals", "eval", "exec"}


def is_ours(value: object) -> bool:
    """Say whether a value is Twinrun's own."""
    kind = getattr(value, "__module__", None) or type(value).__module__
    return isinstance(kind, str) and kind.startswith("twinrun.") and not is_users(kind)


class Walk:
    """One walk, which comes to nothing twice."""

    def __init__(
        self,
        seen: dict[int, object],
        *,
        most: int = MOST_LOOKED_AT,
        without: tuple[type, ...] = (),
        left: Container[tuple[int, str]] = (),
        also: tuple[type, ...] = (),
    ) -> None:
        """Begin one.

        Args:
            seen: what has been come to, by identity; it is given what this walk comes to.
            most: entries of a container that is looked at. What functions and classes hold is
                looked at whatever its size.
            without: classes that are not walked.
            left: attributes that are looked at elsewhere, by the identity of their owner.
            also: classes that are walked here, and else not.
        """
        self._most, self._left = most, left
        self.never = (*(kind for kind in _NEVER if kind not in also), *without)
        self._in_library = 0  # objects of libraries inside each other
        self._is_sought: bool | None = None  # in data: a buffer, by who holds it, before it is read
        self.seen = seen  # which keeps them, so that no other object gets their number
        self._most_seen = len(seen) + MOST

    def part(self, part: object, deeper: int) -> Iterator[Found]:
        """Walk a loader, a sampler or a dataset: its functions and, of a user's, all it holds."""
        if part is None or not deeper or not self.is_new(part):
            return
        # A part of torch's has settings; one of ours cuts or shards what it wraps.
        is_own = is_users(type(part).__module__)
        is_ours = not is_own and type(part).__module__.startswith("twinrun.")
        told, before = told_anew(part), self._is_sought
        self._is_sought = is_own and seeks(type(part))
        for name, value in attributes_seen(part).items():
            called = f"{type(part).__name__}.{name}"
            if name in told or (id(part), name) in self._left:
                continue
            if name in WRAPPED:
                for inner in wrapped_in(value):
                    yield from self.part(inner, deeper - 1)
            elif not is_ours and (name[0] != "_" or is_own):
                yield from self.value(part, value, called, deeper - 1)
        self._is_sought = before
        yield from self.class_of(type(part), deeper)

    def value(self, owner: object, value: object, called: str, deeper: int) -> Iterator[Found]:
        """Walk anything else."""
        before, kind = self._in_library, value if is_code(value) else type(value)
        # A transform of one's own in a library's, say.
        self._in_library *= not is_users(getattr(kind, "__module__", ""))
        yield from self._value(owner, value, called, deeper)
        self._in_library = before

    def _value(self, owner: object, value: object, called: str, deeper: int) -> Iterator[Found]:
        if isinstance(value, (*PLAIN, *NUMBERS)):
            # Those of a tokenizer, say, change as it warns, and keep no state.
            if not self._in_library:
                yield Found(owner, called, value if isinstance(value, PLAIN) else repr(value))
            return
        if isinstance(value, type):
            yield Found(owner, called, Holder(value))
            yield from self.class_of(value, deeper, is_made_again=True)
            return
        if is_ours(value):  # which is made anew, and keeps what it needs
            return
        if isinstance(value, types.ModuleType):
            yield from self.variables_of(value)
            return
        # An array that two hold may be exchanged in one of them.
        is_array = is_really(value, torch.Tensor) or is_really(value, np.ndarray) or is_table(value)
        if not is_array and not isinstance(value, self.never) and not self._in_library:
            yield Found(owner, called, Holder(value))
        if isinstance(value, self.never) or not deeper or not (self.is_new(value) or is_array):
            return
        is_seen = is_array or isinstance(value, GENERATORS)
        if is_seen or is_hidden_iterator(value):
            yield Found(owner, called, value, is_of_library=self._in_library > 0)
        elif is_container(value) or isinstance(value, collections.deque):
            yield from self._entries(owner, value, called, deeper)
        elif isinstance(value, UNORDERED):
            # In no order: those of plain values, and how many there are.
            plain = sorted(repr(item) for item in value if isinstance(item, PLAIN))
            yield Found(value, called, content_of_plain(value) or f"{len(value)} {plain}")
        elif isinstance(value, weakref.ref):
            yield from self.value(value, value(), f"{called}()", deeper - 1)
        elif isinstance(value, contextvars.ContextVar):
            yield from self.value(value, value.get(None), f"{called}.get()", deeper - 1)
        elif isinstance(value, functools.partial):
            inside = {"func": value.func, "args": value.args, "keywords": value.keywords}
            for name, item in inside.items():
                yield from self.value(value, item, f"{called}.{name}", deeper - 1)
        elif isinstance(value, types.FunctionType):
            yield from self.function(value, deeper)
        elif isinstance(value, _METHODS):
            yield from self.value(value, value.__self__, f"{called}.__self__", deeper - 1)
            if isinstance(value, types.MethodType):
                yield from self.value(value, value.__func__, called, deeper - 1)
        else:
            yield from self._object(value, called, deeper)

    def _entries(self, owner: object, value: Any, called: str, deeper: int) -> Iterator[Found]:
        """Walk a container; a long one of plain values is one value."""
        is_deque = isinstance(value, collections.deque)
        size = len(value) if is_deque else size_of(value)
        if size > MOST_LOOKED_AT and self._most < sys.maxsize and not self._in_library:
            # By its owner: another list may come into its place.
            yield Found(owner, called, Length(value, size, sample_of(value)))
        if size > self._most:
            return
        if size > MOST_NAMED and (content := content_of_plain(value)) is not None:
            yield Found(value, called, content)
            return
        if not is_deque and is_really(value, dict) and not self._in_library:
            yield Found(value, called, Order({key: None for key, _ in entries(value)}))
        for position, (key, item) in enumerate(enumerate(value) if is_deque else entries(value)):
            yield from self.value(value, item, f"{called}[{shown(key, position)}]", deeper - 1)

    def _object(self, value: object, called: str, deeper: int) -> Iterator[Found]:
        attributes, kind = attributes_seen(value), type(value)
        is_sought = self._is_sought is True
        if not attributes and (content := content_of(value, is_sought=is_sought)) is not None:
            yield Found(value, called, content)
            return
        before = self._in_library, self._is_sought
        if not holds_for_users(value):
            self._in_library += not is_users(kind.__module__)
            self._is_sought = None if before[1] is None else seeks(kind)
        for name, item in attributes.items():
            if (id(value), name) not in self._left:
                yield from self.value(value, item, f"{kind.__name__}.{name}", deeper - 1)
        self._in_library, self._is_sought = before
        yield from self.class_of(kind, deeper)

    @property
    def is_cut_short(self) -> bool:
        """Whether it came to as many objects as are looked at."""
        return len(self.seen) >= self._most_seen

    def function(self, function: types.FunctionType, deeper: int) -> Iterator[Found]:
        """Walk what a function holds, and the globals that it names."""
        before, name = (self._most, self._is_sought), function.__qualname__
        self._most, self._is_sought = sys.maxsize, None
        for variable, cell in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=False
        ):
            with suppress(ValueError):  # not set yet
                yield from self.value(cell, cell.cell_contents, f"{variable} of {name}", deeper - 1)
        yield from self.value(function, function.__defaults__, f"a default of {name}", deeper - 1)
        yield from self.value(function, function.__kwdefaults__, f"a default of {name}", deeper - 1)
        for attribute, held in vars(function).items():
            yield from self.value(function, held, f"{name}.{attribute}", deeper - 1)
        if is_users(function.__module__):
            yield from self._named_in(function, deeper)
        self._most, self._is_sought = before

    def _named_in(self, function: types.FunctionType, deeper: int) -> Iterator[Found]:
        """Walk the globals that a user's function names, in its own file or another one."""
        names, known = set(names_in(function.__code__)), function.__globals__
        modules = {}
        for variable in sorted(names & known.keys()):
            found = known[variable]
            if isinstance(found, types.ModuleType):
                modules[variable] = found
            else:
                called = f"{function.__module__}.{variable}"
                yield from self.value(known, found, called, deeper - 1)
        # What a function imports itself has its name in `sys.modules`, or one in its package.
        package = known.get("__package__")
        for name in sorted(names - known.keys()):
            for full in (name, f"{package}.{name}"):
                if full in sys.modules:
                    modules[full] = sys.modules[full]
        asked = [*modules.values()] if names & _BY_TEXT else []
        is_of_itself = names & _OF_ITSELF or names >= {"sys", "modules"}
        if is_of_itself and function.__module__ in sys.modules:
            asked.append(sys.modules[function.__module__])
        for module in asked:
            yield from self.variables_of(module)
        seen: set[int] = set()
        while modules:
            called, module = modules.popitem()
            if id(module) in seen or not is_users(module.__name__):
                continue
            seen.add(id(module))
            for inner in sorted(names & vars(module).keys()):
                held = vars(module)[inner]
                if isinstance(held, types.ModuleType):
                    modules[f"{called}.{inner}"] = held
                else:
                    yield from self.value(module, held, f"{called}.{inner}", deeper - 1)

    def variables_of(self, module: types.ModuleType) -> Iterator[Found]:
        """Walk what a user's file has, where nobody can tell which of it is asked for."""
        if is_users(module.__name__) and self.is_new(module):
            for name, held in [*vars(module).items()]:
                if not name.startswith("__") and not isinstance(held, types.ModuleType):
                    yield from self.value(module, held, f"{module.__name__}.{name}", DEEPEST)

    def class_of(
        self, kind: type, deeper: int, *, is_made_again: bool = False, is_asked: bool = False
    ) -> Iterator[Found]:
        """Walk the methods and attributes of a user's class, of which steps may make objects."""
        # Of a callback that says itself what is to be kept its part is asked.
        if issubclass(kind, pl.Callback) and not is_asked and says_itself(kind):
            return
        before, self._most = self._most, sys.maxsize
        for base in kind.__mro__:
            if not is_users(base.__module__) or not self.is_new(base):
                continue
            for name, value in vars(base).items():
                for plain in functions_in(value):
                    if isinstance(plain, types.FunctionType):
                        is_called = is_made_again or name not in MADE_ONCE
                        if is_called and self.is_new(plain):
                            yield from self.function(plain, deeper - 1)
                    elif plain is not None and not name.startswith("__"):
                        yield from self.value(base, plain, f"{base.__name__}.{name}", deeper - 1)
        self._most = before

    def is_new(self, value: object) -> bool:
        """Say whether a value is come to for the first time."""
        if id(value) in self.seen or self.is_cut_short:
            return False
        self.seen[id(value)] = value
        return True
