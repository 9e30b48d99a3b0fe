"""What code names that is called by a name: a method, and all functions of a user's behind it.

Helpers in another file, objects in attributes and their methods, classes that are made there,
properties, partials, and what a decorator has wrapped.
"""

import dis
import functools
import inspect
import types
from collections.abc import Iterable, Sequence
from contextlib import suppress

from twinrun.checkpoint.users_code import is_users, names_in
from twinrun.containers import entries, is_container, size_of

_ANY = {"__dict__", "vars", "setattr"}  # by these code sets any attribute
_MOST = 64  # entries of a container in which functions are looked for
# Where an object is called, and a class.
_CALLED = (("__call__",), ("__init__", "__new__", "__post_init__"))
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


def stored_behind(owners: Sequence[object], name: str) -> tuple[set[str], set[str] | None]:
    """Name all that the code behind a name names, and the attributes that it sets: None if any.

    Args:
        owners: whose attribute it is.
        name: of the attribute.
    """
    followed = _Followed(owners, {name})
    stored = {each for code in followed.codes for each in _stored_in(code)}
    return followed.names - {name}, None if _ANY & followed.names else stored


@functools.cache
def _stored_in(code: types.CodeType) -> frozenset[str]:
    found = {str(s.argval) for s in dis.get_instructions(code) if s.opname == "STORE_ATTR"}
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
