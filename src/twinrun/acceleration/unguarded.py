"""What torch's tracer looks at once: names that code asks for and that may not be there, and hooks.

That `getattr(settings, "k", 1.0)` found nothing in a Python module or a function, that a name is
not in an object's `__dict__`, how many there are: a graph keeps what was so when it was compiled,
without a guard (seen in torch 2.11 to 2.13). So the names that a user's code asks for are looked up
at each call. Where no code asks, nothing is. Beside them are classes and builtins (see `members`).
"""

import argparse
import dis
import functools
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

import torch
import torch.nn.modules.module as torch_module

from twinrun.acceleration.added_guards import noted_classes
from twinrun.acceleration.members import Members, of_builtins, of_class, of_module
from twinrun.containers import attributes_of, entries, is_container, size_of
from twinrun.errors import TwinrunError
from twinrun.process.users_code import functions_in, is_users

_PARTIAL = "a functools.partial"
_MOST = 64  # entries of a container that are looked into
_MOST_SEEN = 100_000  # values, of which looking takes a part of a second
_OF_ATTRIBUTES = {"getattr", "hasattr", "attrgetter", "suppress"}
_OF_DICTIONARIES = {"vars", "__dict__"}
_AROUND = (functools.partial, functools.partialmethod, functools.cached_property)
_AROUND += (types.MethodType, type(functools.cache(len)))
# Classes that are not a user's, and hold what a user puts there.
_HOLDERS = (types.SimpleNamespace, argparse.Namespace)
_INSIDE = ("func", "args", "keywords", "__func__", "__self__", "__wrapped__", "__defaults__")
_INSIDE += ("__kwdefaults__",)


def _hooks_of_all_modules() -> tuple[int, ...]:
    """Return the numbers of the hooks that are registered for all modules at once."""
    return (
        *torch_module._global_forward_pre_hooks,
        *torch_module._global_forward_hooks,
        *torch_module._global_backward_pre_hooks,
        *torch_module._global_backward_hooks,
    )


class Unguarded:
    """Watches hooks of all modules, and names where code that a function reaches may ask."""

    def __init__(self, function: Callable[..., object]) -> None:
        """Look for what is to be watched; see `look`."""
        self._function = function
        self._hooks = _hooks_of_all_modules()
        self._named: list[_Watched] = []
        self._counted: list[_Watched] = []
        self._found: dict[int, set[str]] = {}
        self._before: list[set[str]] = []
        self._sizes: list[int] = []
        self._is_behind = True
        self._classes: dict[type, None] = {}
        self._members: dict[tuple[int, frozenset[str]], Members] = {}
        self.look()

    def look(self) -> None:
        """Look for namespaces, as when code has run that may have made some."""
        # Of those known it holds what was there before that code ran, as the graph does.
        known = {id(each.space): each for each in (*self._named, *self._counted)}
        reached = _Reached(self._function)
        watched = _joined(reached.watched())
        self._classes |= dict.fromkeys(noted_classes())
        found = [of_builtins(reached.used), *reached.members()]
        found += [of_class(kind, reached.asked) for kind in self._classes]
        self._members = {each.key: self._members.get(each.key, each) for each in found}
        self._named = [each for each in watched if each.names is not None]
        self._counted = [each for each in watched if each.names is None]
        self._found = {
            (key := id(each.space)): self._found[key]
            if key in known and known[key].names == each.names
            else each.found()
            for each in watched
        }
        self._sizes = [len(each.space) for each in self._counted]
        self._before = [self._found[id(each.space)] for each in self._named]
        self._is_behind = True

    def change(self) -> str | None:
        """Name what has changed since this was last asked; None where nothing has.

        Raises:
            TwinrunError: if it is what torch's tracer would not see in a new graph, either.
        """
        if self._hooks != (hooks := _hooks_of_all_modules()):
            self._hooks = hooks
            return "other hooks of all modules"
        if any(changes := [each.change() for each in self._members.values()]):
            return next(filter(None, changes))
        # At every step, so that only what has another size is looked at closely.
        sizes = [len(each.space) for each in self._counted]
        names = [each.space.keys() & (each.names or ()) for each in self._named]
        if sizes == self._sizes and names == self._before and not self._is_behind:
            return None
        self._sizes, self._before, self._is_behind = sizes, names, False
        now = {id(each.space): each.found() for each in (*self._named, *self._counted)}
        before, self._found = self._found, now
        changed = [e for e in (*self._counted, *self._named) if _differ(e, before, now)]
        for each in changed:
            if each.whose == _PARTIAL:
                raise TwinrunError(
                    f"compile: {each.whose} has other attributes than before "
                    f"({', '.join(now[id(each.space)]) or 'none'}), which torch's compiler does "
                    f"not see; leave compile out"
                )
        for each in changed:
            names_now = now[id(each.space)]
            name = min(names_now ^ before[id(each.space)])
            return f"{each.whose} {'has now' if name in names_now else 'no longer has'} a {name}"
        return None


@dataclass(frozen=True)
class _Watched:
    """A namespace in which names are asked for."""

    whose: str
    """Whose it is, in words."""
    space: Mapping[str, object]
    """The namespace itself."""
    names: frozenset[str] | None
    """Those that matter; None for all, however they are come by."""

    def found(self) -> set[str]:
        """Return which of the names that matter are there."""
        if self.names is not None:
            return self.space.keys() & self.names
        # torch's tracer itself leaves names with two underscores in a module.
        return {name for name in self.space if not name.startswith("__")}


def _differ(each: _Watched, before: dict[int, set[str]], now: dict[int, set[str]]) -> bool:
    return before[id(each.space)] != now[id(each.space)]


def _joined(found: Iterable[_Watched]) -> list[_Watched]:
    """Return each namespace once, with all names that are asked for in it."""
    joined: dict[int, _Watched] = {}
    for each in found:
        known = joined.setdefault(id(each.space), each)
        if known.names is not None and each.names is not None:
            joined[id(each.space)] = replace(known, names=known.names | each.names)
    return list(joined.values())


class _Reached:
    """What can be reached from a function: a user's code, and the objects that it may ask."""

    def __init__(self, function: Callable[..., object]) -> None:
        self._of_attributes: set[str] = set()
        self._of_dictionaries: set[str] = set()
        self.used: set[str] = set()
        """Names that code uses, whatever for."""
        self._is_computed = False
        self._is_iterated = False
        self._functions: list[tuple[str, Mapping[str, object]]] = []
        self._modules: list[tuple[str, Mapping[str, object]]] = []
        self._objects: list[tuple[str, Mapping[str, object], bool]] = []
        self._of_installed: list[_Watched] = []
        self._seen: dict[int, object] = {}  # kept, so that no other gets its number
        self._left: list[object] = [function]
        while self._left and len(self._seen) < _MOST_SEEN:
            value = self._left.pop()
            if id(value) not in self._seen:
                self._seen[id(value)] = value
                with suppress(Exception):  # whatever a user's object raises when it is looked at
                    self._follow(value)

    @property
    def asked(self) -> frozenset[str]:
        """Names that code asks for though they may not be there."""
        return frozenset(self._of_attributes | self._of_dictionaries)

    def members(self) -> Iterator[Members]:
        """Yield what matters of the globals of a user's modules."""
        for whose, space in self._modules:
            yield of_module(whose, space, self.used)

    def watched(self) -> Iterator[_Watched]:
        """Yield the namespaces that code may ask."""
        of_all = self.asked
        if of_all or self._is_computed or self._is_iterated:
            for whose, space in self._functions:
                yield _Watched(whose, space, None)  # few as a rule, or none
            for whose, space in self._modules:
                yield _Watched(whose, space, None if self._is_computed else of_all)
        yield from self._of_installed
        for whose, space, is_layer in self._objects:
            # A layer or a LightningModule is given attributes at any time.
            if self._is_iterated and not is_layer:
                yield _Watched(whose, space, None)
            elif self._of_dictionaries:
                yield _Watched(whose, space, frozenset(self._of_dictionaries))

    def _follow(self, value: object) -> None:
        kind = type(value)
        if issubclass(kind, types.ModuleType):
            if is_users(vars(value)["__name__"]):
                self._enter(vars(value))
        elif isinstance(value, types.FunctionType):
            self._follow_function(value)
        elif issubclass(kind, _AROUND):
            self._add_inside(value)
            if issubclass(kind, functools.partial):
                self._functions.append((_PARTIAL, vars(value)))
        elif issubclass(kind, type):
            if is_users(vars(value).get("__module__")):
                members = [found for held in vars(value).values() for found in functions_in(held)]
                self._left += [*members, *value.__mro__]  # pyrefly: ignore[missing-attribute]
        elif is_container(value):
            if size_of(value) <= _MOST:
                self._left += [item for _, item in entries(value)]
        else:
            is_users_own = is_users(kind.__module__) or issubclass(kind, _HOLDERS)
            is_layer = issubclass(kind, torch.nn.Module)
            if is_users_own or is_layer:
                self._left += [kind, *attributes_of(value).values()]
            self._objects.append((f"a {kind.__name__}", vars(value), is_layer or not is_users_own))

    def _follow_function(self, value: types.FunctionType) -> None:
        self._add_inside(value)
        self._left += [cell.cell_contents for cell in value.__closure__ or () if _is_set(cell)]
        space = value.__globals__
        if is_users(space.get("__name__")):
            self._functions.append((f"the function {value.__qualname__}", vars(value)))
            self._enter(space)
            self._read(value.__code__, space)

    def _add_inside(self, value: object) -> None:
        self._left += [getattr(value, name, None) for name in _INSIDE]
        self._left += vars(value).values() if hasattr(value, "__dict__") else ()

    def _enter(self, space: dict[str, object]) -> None:
        """Go through the globals of a user's module."""
        if id(space) not in self._seen:
            self._seen[id(space)] = space
            self._modules.append((f"the module {space.get('__name__')}", space))
            self._left += space.values()

    def _read(self, code: types.CodeType, space: Mapping[str, object]) -> None:
        """Take the names that a function asks for."""
        used, texts, has_try = _read(code)
        self.used |= used
        if used & _OF_DICTIONARIES:
            self._of_dictionaries |= texts
            self._is_iterated |= not texts
        if used & _OF_ATTRIBUTES:
            self._is_computed |= not texts
        if not (used & _OF_ATTRIBUTES or has_try):
            return
        # `try: settings.k` asks like `hasattr`.
        names = texts | used if has_try or "suppress" in used else texts
        self._of_attributes |= names
        for name in used:
            named = space.get(name)
            if type(named) is types.ModuleType and not is_users(vars(named).get("__name__")):
                self._of_installed.append(
                    _Watched(f"the module {name}", vars(named), frozenset(names))
                )


@functools.cache
def _read(code: types.CodeType) -> tuple[frozenset[str], frozenset[str], bool]:
    """Return the names that code uses, the texts that may be names, and if it catches anything."""
    used, texts, has_try = set(code.co_names), set(_texts(code.co_consts)), False
    if code.co_exceptiontable:  # also of a `with`
        does = [instruction.opname for instruction in dis.get_instructions(code)]
        has_try = does.count("PUSH_EXC_INFO") > does.count("WITH_EXCEPT_START")
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            inner = _read(constant)
            used, texts, has_try = used | inner[0], texts | inner[1], has_try or inner[2]
    return frozenset(used), frozenset(texts), has_try


def _texts(constants: Collection[object]) -> Iterator[str]:
    for constant in constants:
        if isinstance(constant, str):
            yield from constant.split(".") if constant.replace(".", "_").isidentifier() else ()
        elif isinstance(constant, tuple | frozenset):
            yield from _texts(constant)


def _is_set(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:  # of a function that has not come so far
        return False
