"""Look into the lists, tuples, dictionaries and attributes that somebody else's objects keep.

By what they are, not by what they say: a subclass may have a meaning of its own that refuses to be
measured or walked (e3nn's `Irreps` is a tuple without a length), and an object may call itself a
list that is none.
"""

import argparse
import collections
import enum
import io
import sys
import threading
import types
from collections.abc import Mapping, Set
from contextlib import suppress
from itertools import chain, islice
from typing import Any, TypeGuard, TypeVar

Kind = TypeVar("Kind")

_KINDS = (dict, list, tuple)
_LIBRARIES = ("torch.", "pytorch_lightning.", "lightning.", "lightning_fabric.")
_PLAIN = (str, bytes, int, float, bool, type(None))
_PLAIN_KINDS = frozenset(_PLAIN)
_SHOWN = frozenset((*_PLAIN, complex, tuple))
_PYTHONS_OWN = frozenset((*_KINDS, collections.deque, set, frozenset))
# Of the standard library, and hold what a user puts there: by class, and by module.
_NAMESPACES = (types.SimpleNamespace, argparse.Namespace, threading.local)
_OF_HOLDERS = ("collections", "weakref", "queue", "_queue", "contextvars", "_contextvars")
_OF_TORCH = {("torch", "Size"), ("torch", "dtype"), ("torch", "device")}

Container = list[object] | tuple[object, ...] | dict[object, object]


def is_really(value: object, kind: type[Kind]) -> TypeGuard[Kind]:
    """Say whether a value is of a class, and does not only call itself so, as a stand-in does.

    >>> is_really(True, int), is_really("", int)
    (True, False)
    """
    return issubclass(type(value), kind)


def is_container(value: object) -> TypeGuard[Container]:
    """Say whether a value really is a list, a tuple or a dictionary."""
    return issubclass(type(value), _KINDS)


def size_of(container: Container) -> int:
    """Return how many entries it has, whatever its class says."""
    return _kind(container).__len__(container)  # pyrefly: ignore[bad-argument-count]


def entries(container: Container, every: int = 1) -> list[tuple[object, object]]:
    """Return each entry beside its key or position, or every n-th: no more is made of long ones.

    >>> entries({"a": 1}), entries([2]), entries([2, 3, 4], every=2)
    ([('a', 1)], [(0, 2)], [(0, 2), (2, 4)])
    """
    if issubclass(type(container), collections.OrderedDict):  # it has an order of its own
        found = collections.OrderedDict.items(container)  # pyrefly: ignore[bad-argument-type]
    elif issubclass(type(container), dict):
        found = dict.items(container)  # pyrefly: ignore[bad-argument-type]
    else:
        found = enumerate(_kind(container).__iter__(container))
    return list(islice(found, 0, None, every))


def shown(key: object, position: int) -> str:
    """Write a key; of one that is no plain value, whose text may be anything, its position.

    A tuple of plain values, torch's types and devices, and a member of an enumeration are plain.

    >>> shown("a", 3), shown((8, (8, "b")), 3), shown((8, object()), 3), shown(object(), 3)
    ("'a'", "(8, (8, 'b'))", '3', '3')
    """
    return str(position) if (text := _text_of(key)) is None else text


def _text_of(key: object) -> str | None:
    kind = type(key)
    if kind in _PLAIN or (kind.__module__, kind.__name__) in _OF_TORCH:
        return repr(key)
    if is_really(key, enum.Enum):
        return f"{kind.__qualname__}.{key._name_}"
    if kind is not tuple:
        return None
    inside = [_text_of(item) for item in key]  # pyrefly: ignore[not-iterable]
    return None if None in inside else f"({', '.join(map(str, inside))})"


def attributes_of(value: object) -> dict[str, object]:
    """Return what lies in an object's `__dict__`, and in the slots of classes of a user's.

    Not in those of the standard library: a path keeps there what it was asked for before. Nor what
    is faceless.
    """
    found: dict[str, object] = dict(getattr(value, "__dict__", {}))
    for base in type(value).__mro__:
        if base.__module__.partition(".")[0] in sys.stdlib_module_names:
            continue
        members = vars(base)
        for name, member in members.items() if "__slots__" in members else ():
            if isinstance(member, types.MemberDescriptorType):
                with suppress(AttributeError):  # not set yet
                    found[name] = member.__get__(value)
    return without_faceless(found)


def set_attribute_of(value: object, name: str, held: object) -> None:
    """Set an attribute where `attributes_of` finds it: in a slot, or beside them."""
    if _is_slot(value, name):
        object.__setattr__(value, name, held)
    else:
        vars(value)[name] = held


def delete_attribute_of(value: object, name: str) -> None:
    """Take away an attribute where `attributes_of` finds it."""
    if _is_slot(value, name):
        object.__delattr__(value, name)
    else:
        del vars(value)[name]


def _is_slot(value: object, name: str) -> bool:
    members = (vars(base)[name] for base in type(value).__mro__ if name in vars(base))
    return isinstance(next(members, None), types.MemberDescriptorType)


def without_faceless(found: Mapping[str, Kind]) -> dict[str, Kind]:
    """Leave out what does not say of which class it is, so that nothing can be asked of it.

    As NumPy has it in an open archive, and as a `weakref.proxy` is of what has gone.
    """
    return {name: value for name, value in found.items() if not is_faceless(value)}


def is_faceless(value: object) -> bool:
    """Say whether `isinstance` may fail of a value."""
    try:
        return value.__class__ is None
    except Exception:  # of whatever class
        return True


def holds_for_users(value: object) -> bool:
    """Say whether an object of the standard library is there to hold what a user puts into it.

    >>> holds_for_users(types.SimpleNamespace()), holds_for_users(collections.UserDict())
    (True, True)
    """
    return isinstance(value, _NAMESPACES) or type(value).__module__ in _OF_HOLDERS


def is_bar(value: object) -> bool:
    """Say whether a value is one of tqdm's bars that is told how far a training is, for who looks.

    One that goes through anything but a range of numbers is an iterator.
    """
    is_ones = str(type(value).__module__).startswith("tqdm.")  # and no class of a user's
    return is_ones and isinstance(attributes_of(value).get("iterable"), range | None)


def is_hidden_iterator(value: object) -> bool:
    """Say whether a value is an iterator whose position lies in no attribute: of C, or torch's.

    A file is none: where it is open, it is written to as a rule.

    >>> is_hidden_iterator(iter([1])), is_hidden_iterator([1])
    (True, False)
    """
    kind = type(value)
    if not hasattr(kind, "__next__") or issubclass(kind, io.IOBase):
        return False
    steps = [vars(base)["__next__"] for base in kind.__mro__ if "__next__" in vars(base)]
    is_written = all(isinstance(step, types.FunctionType) for step in steps)
    return kind.__module__.startswith(_LIBRARIES) or not is_written


def is_unordered(value: object) -> TypeGuard[Set[object]]:
    """Say whether a value is a set that holds more than plain values: their order is chance.

    >>> is_unordered({1, "a"}), is_unordered({object()})
    (False, True)
    """
    return isinstance(value, set | frozenset) and not _SHOWN.issuperset(map(type, value))


def holds_plain(value: Any) -> bool:
    """Say whether a container of Python's holds no other values than plain ones: many at once.

    >>> holds_plain([1, None]), holds_plain({"a": [1]}), holds_plain("a")
    (True, False, False)
    """
    if type(value) not in _PYTHONS_OWN:
        return False
    items = value.values() if type(value) is dict else ()
    return _PLAIN_KINDS.issuperset(map(type, chain(value, items)))


def has_objects(value: object) -> bool:
    """Say whether a set has such items, or a dictionary such keys.

    >>> has_objects({1: object()}), has_objects({object(): 1})
    (False, True)
    """
    if is_really(value, dict):
        return not _SHOWN.issuperset(map(type, dict.keys(value)))
    return is_unordered(value)


def _kind(container: Container) -> type:
    return next(kind for kind in _KINDS if issubclass(type(container), kind))
