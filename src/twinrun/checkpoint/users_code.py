"""What classes of a user's own do, and which attributes their objects show."""

import functools
import inspect
import types
from contextlib import suppress
from typing import TypeGuard

import numpy as np
import torch

from twinrun.containers import attributes_of, is_container, is_really
from twinrun.hidden_content import is_of_c
from twinrun.process.users_code import functions_in, is_users, names_in

MADE_ONCE = ("__init__", "__new__", "__post_init__")
_PLAIN = {bool, int, float, complex, str, bytes}
_LONGEST = 64  # tuple of these
_MOST = 1 << 16  # in a set


def attributes_seen(owner: object) -> dict[str, object]:
    """Return the attributes of an object, none of one that raises when it is looked at.

    Nor of a number that processes share: they say where it is.
    """
    if is_of_c(owner):
        return {}
    found: dict[str, object] = {}
    with suppress(Exception):  # whatever class it is of
        found = attributes_of(owner)
    return found


def held_by_others(owner: object, value: object) -> dict[int, str]:
    """Name the containers and objects of a user's own in all attributes but one, by identity.

    Args:
        owner: of the attributes.
        value: of that one.
    """
    return {
        id(each): name
        for name, each in attributes_seen(owner).items()
        if each is not value and (is_container(each) or is_users(type(each).__module__))
    }


def is_plain(value: object) -> bool:
    """Say whether a value is a number, a text, bytes, or a short tuple of such.

    >>> is_plain(False), is_plain((1, "a", None)), is_plain([1]), is_plain(())
    (True, True, False, False)
    """
    if type(value) is tuple:
        return 0 < len(value) <= _LONGEST and all(item is None or is_plain(item) for item in value)
    return type(value) in _PLAIN or is_really(value, np.generic)


def is_set(value: object) -> TypeGuard[set[object]]:
    """Say whether a value is a set of plain values, which others may put more into.

    >>> is_set({1, "a"}), is_set(set()), is_set({int}), is_set(frozenset())
    (True, True, False, False)
    """
    return (
        is_really(value, set)
        and type(value) is set
        and len(value) <= _MOST
        and all(map(is_plain, value))
    )


def is_code(value: object) -> bool:
    """Say whether a value is a class, a function or a method."""
    return isinstance(value, type | types.FunctionType | types.MethodType)


def is_called_object(value: object) -> bool:
    """Say whether a value is an object of a user's own that can be called and holds something."""
    is_own = callable(value) and is_users(type(value).__module__)
    return is_own and not is_really(value, torch.nn.Module) and bool(attributes_seen(value))


def is_computed_once(owner: object, called: str) -> bool:
    """Say whether the class of an object computes an attribute where it is first asked for.

    Args:
        owner: the object.
        called: its name, also behind that of the class.
    """
    member = inspect.getattr_static(type(owner), called.rpartition(".")[2], None)
    return isinstance(member, functools.cached_property)


def is_mapped(value: object) -> bool:
    """Say whether a value is a file that is mapped into memory, to be read alone."""
    return type(value) is np.memmap and not value.flags.writeable


@functools.cache
def seeks(kind: type) -> bool:
    """Say whether a class goes to a place in a buffer before it reads, as an archive's does."""
    own = [base for base in kind.__mro__ if is_users(base.__module__)]
    members = {name: member for base in reversed(own) for name, member in vars(base).items()}
    called = (member for name, member in members.items() if name not in MADE_ONCE)
    functions = (found for member in called for found in functions_in(member))
    codes = [found.__code__ for found in functions if isinstance(found, types.FunctionType)]
    return not own or any("seek" in names_in(code) for code in codes)
