"""What is known of a value that code has on its stack, or under a name."""

import types
from collections.abc import Sequence
from typing import NamedTuple


class Value(NamedTuple):
    """What is known of a value."""

    roots: frozenset[str] = frozenset()
    """Names of the attributes that it lies in."""
    what: object = None
    """A constant, a function, a `Member`, `ATTRIBUTES`, or the name of a method."""
    is_self: bool = False
    """Whether it is the object."""
    is_method: bool = False
    """Whether it is a method of the value behind it, or of what its roots name."""


class Member:
    """An object in a class, as a descriptor is one, whose attributes are known."""

    def __init__(self, held: object, attributes: dict[str, object]) -> None:
        """Have it.

        Args:
            held: the object.
            attributes: its own.
        """
        self.kind, self.attributes = type(held), attributes


NOTHING = Value()
ATTRIBUTES = object()
"""The dictionary of the object's attributes."""
_KNOWN = (types.FunctionType, types.BuiltinFunctionType, types.ModuleType, type)


def known_as(held: object) -> object:
    """Return what code is followed through, or is a name; None of another object.

    >>> known_as("name"), known_as(3)
    ('name', None)
    """
    return held if issubclass(type(held), (*_KNOWN, str)) else None


def either(first: Value, second: Value) -> Value:
    """Return what is known of a value that is one of two."""
    what = first.what if second.what is None else second.what
    is_method = first.is_method if second.what is None else second.is_method
    return Value(first.roots | second.roots, what, first.is_self or second.is_self, is_method)


def merged(first: Sequence[Value], second: Sequence[Value]) -> list[Value]:
    """Return a stack that is come to from two sides."""
    size = min(len(first), len(second))
    tops = zip(first[len(first) - size :], second[len(second) - size :], strict=True)
    longer = first if len(first) > size else second
    return [*longer[: len(longer) - size], *(either(own, other) for own, other in tops)]


def arguments(code: types.CodeType) -> tuple[str, ...]:
    """Name the arguments of a function."""
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def of_name(name: str) -> Value:
    """Return what is known of an argument by its name."""
    return Value(is_self=name == "self")


def texts(argval: object) -> tuple[str, ...]:
    """Return the names that an instruction has: one or, from version 3.13 on, two."""
    return tuple(map(str, argval)) if isinstance(argval, tuple) else (str(argval),)
