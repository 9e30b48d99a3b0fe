"""Objects of a user's own that hold plain data alone: a dataclass, a named tuple, a stopwatch.

Whether one is what it was can be said of a copy of what it holds; it may be held elsewhere too, and
nothing of it is put back.
"""

import enum
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_leaves

from twinrun.checkpoint.looks import look
from twinrun.checkpoint.own_to_process import Clocks, is_drawn, with_own
from twinrun.checkpoint.plain_data import given_back, is_plain, kept
from twinrun.checkpoint.users_code import attributes_seen, is_users
from twinrun.containers import is_container, is_really

_OBJECT = "twinrun: an object"
_OTHERS = (torch.nn.Module, torch.optim.Optimizer, torch.Tensor, np.ndarray, enum.Enum)
_HERE = torch.device("cpu")


def held_by(value: object) -> dict[str, object] | None:
    """Return what such an object holds, by name; None if it is another value."""
    kind = type(value)
    names = getattr(kind, "_fields", None)
    if not is_users(kind.__module__) or callable(value) or hasattr(kind, "__next__"):
        return None
    if is_really(value, tuple) and isinstance(names, tuple):
        found = dict(zip(map(str, names), tuple.__iter__(value), strict=False))
    elif is_container(value) or any(is_really(value, other) for other in _OTHERS):
        return None
    else:
        found = attributes_seen(value)
    return found if found and is_plain(found) else None


def kept_of(value: object, most: int) -> dict[str, Any] | None:
    """Return what a checkpoint is to hold of such an object; None of another value.

    Args:
        value: the object.
        most: bytes of tensors in it.
    """
    held = held_by(value)
    is_small = held is not None and bytes_in(held) <= most
    return {_OBJECT: [_called(value), kept(held)]} if is_small else None


def bytes_in(value: object) -> int:
    """Return how many bytes tensors and arrays have in plain data."""
    leaves = tree_leaves(value)
    return sum(leaf.nbytes for leaf in leaves if isinstance(leaf, torch.Tensor | np.ndarray))


def is_object(saved: Any) -> bool:
    """Say whether a value of a checkpoint is one of `kept_of`."""
    return isinstance(saved, dict) and saved.keys() == {_OBJECT}


def is_as_kept(saved: Any, value: object, then: Clocks, now: Clocks) -> bool:
    """Say whether an object is what it was in a first process, but for what is each process's own.

    Args:
        saved: of `kept_of`, of a checkpoint; it may be another value.
        value: the object.
        then: the clocks of the first process.
        now: those of this one.
    """
    held = held_by(value)
    if held is None or not is_object(saved):
        return False
    name, first = saved[_OBJECT]
    # A name that is drawn is the process's own.
    own = {key: each for key, each in held.items() if is_drawn(each)}
    merged, _ = with_own({**given_back(first, _HERE), **own}, held, then, now)
    return name == _called(value) and look(merged, ()) == look(held, ())


def _called(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"
