"""What is no plain data, in a form that is: objects of a user's own, and what holds such or others.

A dataclass, a list of named tuples, a copy of the parameters, a dictionary with a date in it.
Whether one is what it was can be said of its form. It may be held elsewhere too: so it is not
replaced, but what lies in it is set again.
"""

import enum
import functools
import types
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_leaves

from twinrun.checkpoint.begun_generators import is_own_generator
from twinrun.checkpoint.held_by_called import owner_of_method
from twinrun.checkpoint.held_by_functions import have_hold, held_by
from twinrun.checkpoint.looks import look
from twinrun.checkpoint.own_to_process import Clocks, is_of_calendar, with_own
from twinrun.checkpoint.plain_data import PLAIN, given_back, is_plain, kept
from twinrun.checkpoint.unsaved_state import look_of_callbacks
from twinrun.checkpoint.users_code import attributes_seen, is_called_object, is_users
from twinrun.containers import entries, is_bar, is_container, is_really, set_attribute_of, size_of
from twinrun.generators import set_state, state_of

_OBJECT = "twinrun: an object"
_OTHERS = (torch.nn.Module, torch.optim.Optimizer, torch.Tensor, np.ndarray, enum.Enum)
_HERE = torch.device("cpu")
_PYTHONS = (list, tuple, dict, deque)
_OF_PARTIAL = ((0, "func"), (2, "keywords"))
_MOST, _DEEPEST = 1 << 12, 8  # values, and objects inside each other


class _TooMuchError(Exception):
    """It holds more than is written down."""


def kept_of(value: object, most: int, parts: Mapping[int, str]) -> dict[str, Any] | None:
    """Return what a checkpoint is to hold of what is no plain data; None of another value.

    Args:
        value: of an attribute.
        most: bytes of tensors in it.
        parts: the names of what a resumed training has anyway, by identity.
    """
    form = None if is_plain(value) else _form_of(value, parts)
    return None if form is None or bytes_in(form) > most else {_OBJECT: kept(form)}


def bytes_in(value: object) -> int:
    """Return how many bytes tensors and arrays have in plain data."""
    leaves = tree_leaves(value)
    return sum(leaf.nbytes for leaf in leaves if isinstance(leaf, torch.Tensor | np.ndarray))


def is_object(saved: Any) -> bool:
    """Say whether a value of a checkpoint is one of `kept_of`."""
    return isinstance(saved, dict) and saved.keys() == {_OBJECT}


def set_again(
    saved: Any, value: object, then: Clocks, now: Clocks, parts: Mapping[int, str]
) -> tuple[object, bool]:
    """Set what lies in a value as it was in a first process, but for what is each process's own.

    Args:
        saved: of `kept_of`, of a checkpoint; it may be another value.
        value: of the attribute.
        then: the clocks of the first process.
        now: those of this one.
        parts: as of `kept_of`.

    Returns:
        The value, or a tuple in its place; and whether it is that now. If not, it need not be what
        it was before either.
    """
    if not is_object(saved) or is_plain(value) or (own := _form_of(value, parts)) is None:
        return value, False
    merged, _ = with_own(given_back(saved[_OBJECT], _HERE), own, then, now)
    made = _made_again(value, merged, own)
    return made, look(merged, ()) == look(_form_of(made, parts), ())


@torch.no_grad()
def _set_inside(value: Any, first: Any, own: Any) -> None:
    """Set what lies in a value to what it is in the first form, as far as that can be set.

    Args:
        value: it.
        first: its form in a first process.
        own: its form now.
    """
    if is_object(first) and is_object(own):
        (_, first), (_, own) = first[_OBJECT], own[_OBJECT]
    if is_own_generator(value):
        set_state(value, first)
    elif (held := held_by(value)) and isinstance(first, dict) and first.keys() == held.keys():
        have_hold(value, {k: _made_again(v, first[k], own[k]) for k, v in held.items()})
    elif isinstance(value, functools.partial | types.MethodType):
        _set_in_called(value, first, own)
    elif isinstance(first, torch.Tensor) and isinstance(own, torch.Tensor):
        if (first.shape, first.dtype) == (own.shape, own.dtype) and is_really(value, torch.Tensor):
            value.copy_(first)
    elif isinstance(first, np.ndarray) and type(value) is np.ndarray and value.flags.writeable:
        if (first.shape, first.dtype) == (value.shape, value.dtype):
            value[...] = first
    elif is_container(value) or type(value) is deque:
        inside = first if isinstance(first, list | dict) else ()
        is_both = isinstance(first, list) and len(first) == 2 and isinstance(own, list)
        if type(value) not in _PYTHONS and is_both:  # beside its attributes
            inside, own = first[0], own[0]
        _set_entries(value, inside, own)
    elif isinstance(first, dict) and isinstance(own, dict) and first.keys() == own.keys():
        for name, item in attributes_seen(value).items():
            new = _made_again(item, first[name], own[name])
            if new is not item:
                set_attribute_of(value, name, new)


def _set_in_called(value: Any, first: Any, own: Any) -> None:
    """Set what lies in a partial, which others may hold too, or in the object of a method."""
    if not (isinstance(first, list) and isinstance(own, list)):
        return
    if isinstance(value, types.MethodType):
        _made_again(value.__self__, first[-1], own[-1])
        return
    func, keywords = (_made_again(getattr(value, k), first[n], own[n]) for n, k in _OF_PARTIAL)
    args = _made_again(value.args, first[1], own[1])
    if isinstance(args, tuple) and isinstance(keywords, dict) and callable(func):
        value.__setstate__((func, args, keywords, vars(value)))


def _set_entries(value: Any, first: Any, own: Any) -> None:
    """Set the entries of a list, a dictionary or a queue likewise."""
    if type(first) is not type(own) or len(first) != len(own):
        return
    if isinstance(first, dict):
        if [*first] == [*own] and is_really(value, dict):
            for (key, item), name in zip(entries(value), first, strict=True):
                dict.__setitem__(value, key, _made_again(item, first[name], own[name]))
    elif is_really(value, list) or type(value) is deque:
        for index, item in enumerate(list(value)):
            value[index] = _made_again(item, first[index], own[index])


def _made_again(item: object, first: Any, own: Any) -> object:
    """Return a value as it was in the first form: itself, set again, or another one."""
    if look(first, ()) == look(own, ()):
        return item
    if is_plain(item):
        return item if is_object(first) else first
    if is_really(item, tuple) and is_object(first) and is_object(own):
        (name, held), (other, now) = first[_OBJECT], own[_OBJECT]
        if name == other and isinstance(held, dict) and held.keys() == now.keys():
            pairs = zip(tuple.__iter__(item), held, strict=True)
            made = [_made_again(each, held[key], now[key]) for each, key in pairs]
            return tuple.__new__(type(item), made)
    if type(item) is tuple and isinstance(first, list) and isinstance(own, list):
        several = zip(item, first, own, strict=False)
        return tuple(_made_again(*each) for each in several) if len(first) == len(own) else item
    _set_inside(item, first, own)
    return item


def _form_of(value: object, parts: Mapping[int, str]) -> object:
    """Return the form of a value; None if it holds too much."""
    try:
        return _Forms(parts).form(value, 0)
    except _TooMuchError:
        return None


class _Forms:
    """Writes one value down."""

    def __init__(self, parts: Mapping[int, str]) -> None:
        self._parts, self._left = parts, _MOST
        self._seen = dict[int, int]()  # turns of what lies in it, by identity

    def form(self, value: object, depth: int) -> object:
        """Return plain data that is another one where the value is.

        Raises:
            _TooMuchError: if it holds too much.
        """
        kind, self._left = type(value), self._left - 1
        if id(value) in self._parts:
            return self._parts[id(value)]
        if self._left < 0 or depth > _DEEPEST:
            raise _TooMuchError
        if is_plain(value):
            self._left -= size_of(value) if is_container(value) else 0
            return value
        if is_really(value, torch.Tensor) and is_plain(copied := value.detach()):
            return _named(kind, copied)
        if kind is np.ndarray and is_plain(copied := np.array(value)):
            return copied
        if id(value) in self._seen:
            return _named(kind, f"the same as {self._seen[id(value)]}")
        self._seen[id(value)] = len(self._seen)
        if is_really(value, dict):
            held = {self._key(key, n): item for n, (key, item) in enumerate(entries(value))}
            return self._whole(value, {k: self.form(v, depth + 1) for k, v in held.items()}, depth)
        if is_container(value) or isinstance(value, deque):
            several = [item for _, item in entries(value)] if is_container(value) else [*value]
            return self._whole(value, [self.form(item, depth + 1) for item in several], depth)
        if is_own_generator(value):
            return _named(kind, state_of(value))
        if type(value) is functools.partial:
            inside = [value.func, value.args, value.keywords]
            return _named(kind, [self.form(each, depth + 1) for each in inside])
        if (owner := owner_of_method(value, self._parts)) is not None:
            return _named(kind, [look(value, ()), self.form(owner, depth + 1)])
        if held := held_by(value):
            return _named(kind, {k: self.form(v, depth + 1) for k, v in held.items()})
        if is_of_calendar(value) or is_bar(value):
            return _named(kind, "")  # each process has its own
        is_own = is_users(kind.__module__) and not hasattr(kind, "__next__")
        is_own = is_own and (not callable(value) or is_called_object(value))
        if is_own and not any(is_really(value, other) for other in _OTHERS):
            return self._whole(value, None, depth)
        return _named(kind, look_of_callbacks(value, self._parts, self._parts))

    def _key(self, key: object, position: int) -> object:
        return key if type(key) in PLAIN else f"{position} {look(key, ())}"

    def _whole(self, value: object, inside: object, depth: int) -> object:
        """Return the form of what lies in an object of a user's, and in its attributes."""
        kind = type(value)
        if kind in _PYTHONS:
            return inside
        found = {name: self.form(v, depth + 1) for name, v in attributes_seen(value).items()}
        fields = getattr(kind, "_fields", None)
        if is_really(value, tuple) and isinstance(fields, tuple) and isinstance(inside, list):
            return _named(kind, dict(zip(map(str, fields), inside, strict=False)))
        return _named(kind, found if inside is None else [inside, found])


def _named(kind: type, form: object) -> dict[str, object]:
    return {_OBJECT: [f"{kind.__module__}.{kind.__qualname__}", form]}
