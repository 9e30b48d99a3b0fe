"""Objects, tuples with names and members of enumerations of a user's own, made of their content."""

import enum
import functools
import sys
import types
import typing
from typing import Any

from twinrun.checkpoint.held_memory import UnheldError
from twinrun.checkpoint.users_code import is_users

# What makes or moves an object besides its attributes.
_HOOKS = {"__new__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__del__"}
_HOOKS |= {"__getnewargs__", "__getnewargs_ex__", "__getattribute__"}
_PLAIN_BASES = (object, typing.Generic)


@functools.cache
def is_own(kind: type) -> bool:
    """Say whether objects of a class are made of their attributes alone."""
    own = [base for base in kind.__mro__ if base not in _PLAIN_BASES]
    return all(is_users(base.__module__) and not _HOOKS & {*vars(base)} for base in own) and (
        class_of(*name_of(kind)) is kind
    )


def class_of(module: str, path: str) -> Any:
    """Return what a module has by a path of names; None if it has nothing."""
    found: object = sys.modules.get(module)
    for part in path.split("."):
        found = vars(found).get(part) if hasattr(found, "__dict__") else None
    return found


def name_of(kind: type) -> tuple[str, str]:
    """Return the module and the path of a class."""
    return kind.__module__, kind.__qualname__


def made_member(module: str, path: str, name: str) -> object:
    """Return a member of an enumeration by its name.

    Raises:
        UnheldError: if there is no such enumeration.
    """
    kind: Any = class_of(module, path)
    if not isinstance(kind, enum.EnumType):
        raise UnheldError(f"there is no enumeration {path}")
    return vars(kind)["_member_map_"][name]


def is_named(kind: Any) -> bool:
    """Say whether a class is a user's tuple with names."""
    is_one = kind.__mro__[1:2] == (tuple,) and isinstance(vars(kind).get("_fields"), tuple)
    return is_one and is_users(kind.__module__) and class_of(*name_of(kind)) is kind


def made_tuple(module: str, path: str, items: tuple[object, ...]) -> object:
    """Make a tuple with names of what lies in it.

    Raises:
        UnheldError: if there is no such class.
    """
    kind = class_of(module, path)
    if not isinstance(kind, type) or not is_named(kind):
        raise UnheldError(f"there is no tuple {path}")
    return tuple.__new__(kind, items)


def made_object(module: str, path: str) -> object:
    """Make an object that has no attributes yet.

    Raises:
        UnheldError: if there is no such class, or more than attributes makes it.
    """
    kind = class_of(module, path)
    if not isinstance(kind, type) or not is_own(kind):
        raise UnheldError(f"there is no class {path}")
    return object.__new__(kind)


def state_of(value: Any) -> tuple[dict[str, object] | None, dict[str, object]]:
    """Return what lies in the `__dict__` of an object, and in its slots.

    Raises:
        UnheldError: if its class sets its slots by itself.
    """
    slots: dict[str, object] = {}
    for base in type(value).__mro__:
        for name, member in vars(base).items():
            if isinstance(member, types.MemberDescriptorType):
                try:
                    slots[name] = member.__get__(value)
                except AttributeError:  # not set yet
                    continue
    if slots and type(value).__setattr__ is not object.__setattr__:
        raise UnheldError(f"{type(value).__name__} sets its slots by itself")
    return getattr(value, "__dict__", None) or None, slots
