"""Open files, connections and readers: what has a place or a state that nobody can see."""

import collections
import datetime
import enum
import functools
import numbers
import re
import types
import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import PurePath

import torch

from twinrun.checkpoint.late_content import is_data
from twinrun.checkpoint.users_code import is_mapped, is_users
from twinrun.containers import entries, is_container, is_faceless

_MOST = 64  # entries of a container
_DEEPEST = 3  # containers inside each other
_MOVING = ("read", "seek", "close", "recv", "fetchone", "__next__")  # methods of what moves
_LOCKS = "_thread"  # which are open between two mini-batches; an event is not
_STILL = (PurePath, datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo, re.Pattern)
_STILL += (uuid.UUID, enum.Enum, numbers.Number, torch.device, torch.dtype, torch.Size)


def handle_in(value: object, deepest: int = _DEEPEST) -> str | None:
    """Name the class of what may have a place: of an open file, a connection, an archive.

    >>> import io
    >>> handle_in([1, {"file": io.StringIO()}]), handle_in({"a": 1.0})
    ('StringIO', None)
    """
    if value is None or is_faceless(value) or is_mapped(value):
        return None
    if (found := _inside(value)) is not None:
        inner = (handle_in(item, deepest - 1) for item in islice(found, _MOST if deepest else 0))
        return next((each for each in inner if each is not None), None)
    kind = type(value)
    is_own = kind.__module__ in ("builtins", _LOCKS) or is_users(kind.__module__)
    if is_own or isinstance(value, _STILL):
        return None
    try:
        is_moving = any(hasattr(kind, name) for name in _MOVING) or not is_data(value)
        is_moving |= kind.__module__ == "threading"
    except Exception:  # of whatever class: it cannot be looked at
        is_moving = True
    return kind.__name__ if is_moving else None


def _inside(value: object) -> Iterable[object] | None:
    """Return what lies in a container, or what a function holds; else None."""
    if is_container(value):
        return (item for _, item in entries(value))
    if isinstance(value, collections.deque):
        return iter(value)
    if isinstance(value, functools.partial):
        return value.func, *value.args, *value.keywords.values()
    if isinstance(value, types.MethodType | types.BuiltinMethodType):
        return (value.__self__,)
    if isinstance(value, types.FunctionType):
        return _cells(value)
    return () if isinstance(value, type | types.ModuleType) else None


def _cells(function: types.FunctionType) -> Iterator[object]:
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # not set yet
            yield cell.cell_contents
