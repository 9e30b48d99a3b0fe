"""What code names that is called by a name: a method, and all functions of a user's behind it.

Helpers in another file, objects in attributes and their methods, classes that are made there,
properties, partials, and what a decorator has wrapped.
"""

import dis
import functools
import inspect
import types
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from twinrun.checkpoint.users_code import is_users, names_in
from twinrun.containers import entries, is_container, size_of

_ANY = {"__dict__", "vars", "setattr"}  # by these code sets any attribute
# Methods by which a container is changed.
_CHANGING = {"append", "appendleft", "extend", "insert", "add", "update", "setdefault"}
_CHANGING |= {"pop", "popleft", "remove", "discard", "clear", "sort", "reverse", "__setitem__"}
_MOST = 64  # entries of a container in which functions are looked for
# Where an object is called, and a class.
_MAKES = ("__init__", "__new__", "__post_init__")
_CALLED = (("__call__",), _MAKES)
AROUND = (functools.partial, functools.partialmethod, functools.cached_property)
AROUND += (types.MethodType, property, staticmethod, classmethod, type(functools.cache(len)))
INSIDE = ("func", "args", "keywords", "__func__", "__self__", "fget", "__wrapped__")


def names_behind(owners: Sequence[object], name: str) -> set[str]:
    """Name all that is named by the code behind a name, as far as it is a user's.

    Args:
        owners: whose attribute it is.
        name: of the attribute.
    """
    return _Followed(owners, {name}).names - {name}


def named_by(functions: Iterable[object], owners: Sequence[object]) -> set[str]:
    """Name all that is named by functions, and by the code behind what these name.

    Args:
        functions: where it begins.
        owners: among whose attributes what they name may be.
    """
    return _Followed([*owners, *functions], set()).names


@dataclass(frozen=True)
class Stored:
    """What the code behind a name sets."""

    attributes: set[str]
    """Attributes of the owners, as far as can be seen."""
    inside: set[str]
    """All that it names, if it sets anything else: an item, or an attribute of another object."""


def stored_behind(owners: Sequence[object], name: str) -> Stored | None:
    """Say what the code behind a name sets; None if that may be any attribute.

    A method of another class sets its own object's by `self`, which are no owner's.

    Args:
        owners: whose attribute it is.
        name: of the attribute.
    """
    followed = _Followed(owners, {name})
    if _ANY & followed.names:
        return None
    bases = [base for owner in owners for base in type(owner).__mro__]
    own = {code for base in bases for member in vars(base).values() for code in _codes_in(member)}
    attributes, sets_others = set[str](), not _CHANGING.isdisjoint(followed.names)
    # By `super` it comes to the class, and so to its constructor, which has made the owner.
    for code in (each for each in followed.codes if each not in own or each.co_name not in _MAKES):
        is_method = code in own or "." in code.co_qualname.rpartition("<locals>.")[2]
        itself = code.co_varnames[0] if is_method and code.co_argcount else None
        for where, stored in _stored_in(code):
            is_itself = where is None or where == itself
            if stored is None or (code in own and not (is_itself or where == "datamodule")):
                sets_others = True
            elif code in own or not (is_method and is_itself):
                attributes.add(stored)
    return Stored(attributes, followed.names - {name} if sets_others else set())


def _codes_in(member: object) -> Iterator[types.CodeType]:
    of_property = [getattr(member, name, None) for name in ("fget", "__func__", "__wrapped__")]
    for each in (member, *of_property):
        if isinstance(each, types.FunctionType):
            yield each.__code__


@functools.cache
def _stored_in(code: types.CodeType) -> frozenset[tuple[object, str | None]]:
    """Return of what, by its name, which attributes are set; None for an item.

    The name is None where it is not seen, as in `self.count += 1`.
    """
    found, before = set[tuple[object, str | None]](), None
    for step in dis.get_instructions(code):
        if step.opname in ("STORE_ATTR", "STORE_SUBSCR"):
            found.add((before, str(step.argval) if step.opname == "STORE_ATTR" else None))
        # Newer versions of Python load two at once.
        loaded = step.argval[-1] if isinstance(step.argval, tuple) else step.argval
        before = loaded if isinstance(loaded, str) else None
    inside = [each for each in code.co_consts if isinstance(each, types.CodeType)]
    return frozenset(found.union(*map(_stored_in, inside)))


class _Followed:
    """Follows names; those of an object are looked up in each object that has been come to."""

    def __init__(self, owners: Sequence[object], names: set[str]) -> None:
        self.names, self.codes = {*names}, list[types.CodeType]()
        self._owners: list[object] = []
        self._seen: dict[int, object] = {}  # which are kept, so that no other gets their number
        self._left = [*owners]
        while self._left:
            value = self._left.pop()
            if id(value) not in self._seen:
                self._seen[id(value)] = value
                self._follow(value)

    def _follow(self, value: object) -> None:
        if isinstance(value, types.FunctionType):
            self._read(value)
        elif isinstance(value, AROUND):
            self._left += [getattr(value, name, None) for name in INSIDE]
        elif is_container(value):
            if size_of(value) <= _MOST:
                self._left += [item for _, item in entries(value)]
        else:
            kind = value if isinstance(value, type) else type(value)
            is_module = isinstance(value, types.ModuleType)
            if is_users(value.__name__ if is_module else kind.__module__):
                self._owners.append(value)
                self._look_up(self.names, value)
                # `super` comes to those of its bases.
                for base in kind.__mro__:
                    self._left += [vars(base).get(n) for n in _CALLED[kind is value]]

    def _read(self, function: types.FunctionType) -> None:
        for cell in function.__closure__ or ():
            with suppress(ValueError):  # not set yet
                self._left.append(cell.cell_contents)
        if is_users(function.__module__):
            names, known = set(names_in(function.__code__)), function.__globals__
            self._left += [known[name] for name in names & known.keys()]
            self.names |= names
            self.codes.append(function.__code__)
            for owner in self._owners:
                self._look_up(names, owner)

    def _look_up(self, names: set[str], owner: object) -> None:
        # Of a name like `__init__` each object has one of its own.
        plain = [name for name in names if not name.startswith("__")]
        self._left += [inspect.getattr_static(owner, name, None) for name in plain]
