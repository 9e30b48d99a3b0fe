"""Open files, connections and readers: what has a place or a state that nobody can see."""

import collections
import datetime
import enum
import numbers
import re
import uuid
from itertools import islice
from pathlib import PurePath

import torch

from twinrun.checkpoint.late_content import is_data
from twinrun.checkpoint.users_code import is_code, is_mapped, is_users
from twinrun.containers import entries, is_container, is_faceless

_MOST = 64  # entries of a container
_DEEPEST = 3  # containers inside each other
_MOVING = ("read", "seek", "close", "recv", "fetchone", "__next__")  # methods of what moves
_LOCKS = ("_thread", "threading")  # which are open between two mini-batches
_STILL = (PurePath, datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo, re.Pattern)
_STILL += (uuid.UUID, enum.Enum, numbers.Number, torch.device, torch.dtype, torch.Size)


def handle_in(value: object, deepest: int = _DEEPEST) -> str | None:
    """Name the class of what may have a place: of an open file, a connection, an archive.

    >>> import io
    >>> handle_in([1, {"file": io.StringIO()}]), handle_in({"a": 1.0})
    ('StringIO', None)
    """
    if value is None or is_faceless(value) or is_code(value) or is_mapped(value):
        return None
    if is_container(value) or type(value) is collections.deque:
        if not deepest:
            return None
        found = entries(value) if is_container(value) else enumerate(value)
        inner = (handle_in(item, deepest - 1) for _, item in islice(found, _MOST))
        return next((each for each in inner if each is not None), None)
    kind = type(value)
    is_own = kind.__module__ in ("builtins", *_LOCKS) or is_users(kind.__module__)
    if is_own or isinstance(value, _STILL):
        return None
    is_moving = any(hasattr(kind, name) for name in _MOVING)
    return kind.__name__ if is_moving or not _is_data(value) else None


def _is_data(value: object) -> bool:
    try:
        return is_data(value)
    except Exception:  # of whatever class: it cannot be looked at
        return False
