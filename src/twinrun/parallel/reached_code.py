"""The names in all code of a user's that a training may come to.

From its parts (module, layers, callbacks, data module, optimizers, schedules, loggers, loader) by
what they hold, and by the globals that functions name: in other files too, and in a text. Code of
libraries is not read, but for the packages from which the parts are.
"""

import dis
import functools
import itertools
import operator
import random
import sys
import types
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from importlib.util import resolve_name
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch

from twinrun.checkpoint.users_code import attributes_seen, functions_in, is_users, names_in
from twinrun.containers import entries, is_container, is_really, size_of
from twinrun.generators import GENERATORS

MOST = 50_000
"""So many objects, classes and functions are looked at, nearest first."""
LONG, ALIKE = 1_000, 16
"""Of a container that is longer, so many entries of each class are looked at."""
_DEEPEST = 6  # objects of libraries in one another
_LIBRARIES = {"twinrun", "torch", "pytorch_lightning", "lightning", "lightning_fabric"}
_PARTS = (pl.LightningModule, pl.LightningDataModule, pl.Callback)
_NEVER = (
    *(str, bytes, bytearray, int, float, complex, type(None), torch.Tensor, np.ndarray),
    pl.Trainer,  # which is asked, and does not ask
)
# What draws where no other generator is named.
_GLOBAL = (torch.default_generator, *(f.__self__ for f in (random.random, np.random.rand)))
# By these a computed name may ask for anything: of a file that is named, or of its own.
_BY_TEXT, _OF_ITSELF = {"getattr", "vars"}, {"globals", "eval", "exec"}


class ReachedCode:
    """Reads what can be reached of a training."""

    def __init__(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Read all of it."""
        self.names: dict[str, dict[str, set[str]]] = {}
        """By class or function, and by each of its functions and what else it has."""
        self.generators: dict[str, object] = {}
        """Generators that are not the global ones, by where they are held."""
        # Which keeps them, so that no other object gets their number.
        self._seen: dict[int, object] = {}
        self._codes: set[int] = set()
        self._waiting: deque[tuple[Any, int]] = deque()
        parts = (module, *vars(trainer)["callbacks"], getattr(trainer, "datamodule", None))
        bases = {base for part in parts for base in type(part).__mro__ if issubclass(base, _PARTS)}
        self._packages = {_package(base.__module__) for base in bases} - _LIBRARIES
        schedules = [config.scheduler for config in trainer.lr_scheduler_configs]
        others = (*trainer.optimizers, *schedules, *trainer.loggers, trainer.train_dataloader)
        for part in (*parts, *module.modules(), *others):
            self._add(part, 0)
        while self._waiting and not self.is_cut_short:
            self._look_at(*self._waiting.popleft())

    @property
    def is_cut_short(self) -> bool:
        """Whether there is more than is looked at."""
        return len(self._seen) >= MOST

    def _add(self, value: object, depth: int) -> None:
        # By what it is: an object of a user's may call itself anything, or raise where it is asked.
        is_looked_at = depth <= _DEEPEST and not issubclass(type(value), _NEVER)
        is_empty = is_container(value) and not size_of(value)  # of which each layer has many
        if is_looked_at and not is_empty and id(value) not in self._seen:
            self._seen[id(value)] = value
            self._waiting.append((value, depth))

    def _is_own(self, module: object) -> bool:
        return is_users(module) or _package(module) in self._packages

    def _look_at(self, value: Any, depth: int) -> None:
        if is_really(value, types.FunctionType):
            self._function(value, value.__qualname__.partition(".")[0])
        elif is_really(value, type):
            self._class(value)
        elif is_really(value, types.ModuleType):
            self._variables(vars(value) if self._is_own(value.__name__) else {})
        elif is_container(value) or is_really(value, set | frozenset | deque):
            for item in _unlike(value):
                self._add(item, depth)
            if self._is_own(type(value).__module__):
                self._object(value, depth)
        else:
            self._object(value, depth)

    def _object(self, value: Any, depth: int) -> None:
        kind = type(value)
        is_own = self._is_own(kind.__module__)
        if not is_own and _package(kind.__module__) == "twinrun":
            return
        attributes = attributes_seen(value)
        held = [kind, *attributes.values()]
        for name, item in attributes.items() if is_own else ():
            self._read(kind.__name__, name, _texts_in(item))
        for name, item in attributes.items():
            self._note(f"{kind.__name__}.{name}", item)
            if is_own:
                self._read(kind.__name__, name, _texts_in(item))
        if is_really(value, functools.partial):
            held += [value.func, value.args, value.keywords]
        elif is_really(value, types.MethodType | types.BuiltinMethodType):
            held += [getattr(value, "__func__", None), value.__self__]
        for item in held:
            self._add(item, 0 if is_own else depth + 1)

    def _class(self, kind: type) -> None:
        self._add(type(kind), 0)
        for base in kind.__mro__:
            if self._is_own(base.__module__):
                for name, value in [*vars(base).items()]:
                    if not name.startswith("__"):
                        self._read(base.__name__, name, _texts_in(value))
                    for part in functions_in(value):
                        if isinstance(part, types.FunctionType):
                            self._seen[id(part)] = part
                            self._function(part, base.__name__)
                        else:
                            self._add(part, 0)

    def _function(self, function: types.FunctionType, owner: str) -> None:
        held: list[Any] = [function.__defaults__, function.__kwdefaults__, vars(function)]
        for cell in function.__closure__ or ():
            with suppress(ValueError):  # not set yet
                held.append(cell.cell_contents)
        known = function.__globals__  # a wrapper bears the module of what it wraps
        codes = [*_codes_in(function.__code__)]
        if self._is_own(known.get("__name__")) and id(codes[0]) not in self._codes:
            self._codes.update(map(id, codes))
            names = set() if _is_generated(codes[0]) else {*_named_by(codes)}
            held += self._globals(names, known, _builtins_in(codes, known))
            self._read(owner, function.__name__, [*names, *_texts_in(held)])
        for value in held:
            self._note(function.__qualname__, value)
            self._add(value, 0)

    def _note(self, held_by: str, value: object) -> None:
        """Note the generators that are held somewhere, also in a list or dictionary there."""
        is_short = is_container(value) and size_of(value) <= LONG
        for item in [item for _, item in entries(value)] if is_short else [value]:
            if not issubclass(type(item), GENERATORS):
                continue
            known = (*_GLOBAL, *torch.cuda.default_generators, *self.generators.values())
            if not any(item is each for each in known):
                several = sum(name.partition(" ")[0] == held_by for name in self.generators)
                self.generators[f"{held_by} ({several + 1})" if several else held_by] = item

    def _read(self, owner: str, name: str, found: Iterable[str]) -> None:
        if names := {*found}:
            self.names.setdefault(owner, {}).setdefault(name, set()).update(names)

    def _globals(self, names: set[str], known: dict[str, Any], builtins: set[str]) -> Iterator[Any]:
        """Yield the globals that a function names, of its file and of others."""
        # What is imported there has its name in `sys.modules`, or one in its package.
        full = [*names, *(f"{known.get('__package__')}.{name}" for name in names)]
        for name in names:
            with suppress(ImportError):  # above the topmost package
                full += [resolve_name(name, known.get("__package__"))] if name[:1] == "." else []
        found = [known[name] for name in names & known.keys()]
        found += [sys.modules[name] for name in full if name in sys.modules]
        seen: set[int] = set()
        while found:
            item = found.pop()
            if not is_really(item, types.ModuleType):
                yield item
            elif id(item) not in seen and self._is_own(item.__name__):
                seen.add(id(item))
                found += [vars(item)[name] for name in names & vars(item).keys()]
                if builtins & _BY_TEXT or "__dict__" in names:
                    self._variables(vars(item))
        if builtins & _OF_ITSELF:
            self._variables(known)

    def _variables(self, held: dict[str, Any]) -> None:
        """Look at all that a user's file has, but other files."""
        for item in [*held.values()]:
            if not is_really(item, types.ModuleType):
                self._add(item, 0)


def _package(module: object) -> str:
    return str(module).partition(".")[0]


def _unlike(container: Any) -> Iterator[object]:
    """Yield the entries of a container, and keys; of a long one some of each class."""
    found: list[object] = []
    with suppress(Exception):  # a set of a user's may raise anything
        pairs = entries(container) if is_container(container) else enumerate(container)
        found = [item for pair in pairs for item in pair]
    if len(found) <= 2 * LONG:
        yield from found
        return
    seen: Counter[type] = Counter()
    for item in found:
        seen[type(item)] += 1
        if seen[type(item)] <= ALIKE:
            yield item


def _codes_in(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes_in(constant)


def _is_generated(code: types.CodeType) -> bool:
    """Say whether it is of a class of data, such as `__eq__`, which names all fields."""
    return code.co_filename.startswith("<") and code.co_name.startswith("__")


def _named_by(codes: Sequence[types.CodeType]) -> Iterator[str]:
    """Name what a function names and does not only set; also in texts: `"fit_loop.max_batches"`.

    Args:
        codes: of the function, and of those inside of it.
    """
    steps = [step for code in codes for step in dis.get_instructions(code)]
    for level, _, step in zip(steps, steps[1:], steps[2:], strict=False):
        if step.opname == "IMPORT_NAME":
            yield "." * level.argval + step.argval
    texts = [constant for code in codes for constant in code.co_consts]
    # An argument or a variable of its own may bear the name, too.
    names = [(step.opname, step.argval) for step in steps if step.opcode in dis.hasname]
    is_set = {name for how, name in names if how.startswith(("STORE_", "DELETE_"))}
    asked = {name for how, name in names if not how.startswith(("STORE_", "DELETE_"))}
    written = {text for text in texts if isinstance(text, str)}
    yield from (text for text in written if text.startswith("."))  # of a package above
    asked |= written
    for name in names_in(codes[0]):
        if name in asked or name not in is_set:
            yield from (name, *name.split("."))
    yield from _texts_in([text for text in texts if isinstance(text, tuple | frozenset)])


def _builtins_in(codes: Sequence[types.CodeType], known: dict[str, Any]) -> set[str]:
    """Return what a function may take of `builtins`; `.eval()` is a method."""
    steps = [step for code in codes for step in dis.get_instructions(code)]
    is_all = any("builtins" in str(step.argval) for step in steps)
    return {
        step.argval
        for step in steps
        if step.opcode in dis.hasname
        and (step.opname in ("LOAD_GLOBAL", "LOAD_NAME") or is_all)
        and step.argval not in known
    }


def _texts_in(value: Any, deeper: int = 3) -> Iterator[str]:
    """Yield what texts name by which `getattr` may ask, or a function of `operator` asks."""
    if is_really(value, str):
        yield from str(value).split(".")
    elif is_really(value, operator.attrgetter | operator.methodcaller):
        yield from _texts_in(value.__reduce__()[1:])
    elif deeper and (is_container(value) or is_really(value, frozenset)):
        # The keys are those of a config, as a rule, which asks for nothing.
        inside = dict.values(value) if is_really(value, dict) else _unlike(value)
        for item in itertools.islice(inside, LONG):
            yield from _texts_in(item, deeper - 1)
