"""Entries of a long list or dictionary, evenly spaced: whether they have become others.

A list of indices is redrawn, a list of samples shuffled, a label in one of them corrected. One that
is filled as samples are read is a cache: what was None, or not there, may become anything.
"""

import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import PurePath
from typing import Any, NamedTuple

import numpy as np
import torch
import xxhash

from twinrun.checkpoint.users_code import attributes_seen, is_users
from twinrun.containers import entries, is_container, size_of
from twinrun.hidden_content import KINDS, NUMBERS, content_of_plain

MOST = 1 << 12  # entries that are looked at
_MOST_INSIDE = 64  # of a list that is an entry
_MOST_NUMBERS = 1 << 10  # of a tensor in an entry, evenly spaced
_DEEPEST = 2  # rows inside each other


class Sample(NamedTuple):
    """Entries that were looked at."""

    plain: tuple[dict[str, str], ...]
    """Plain values and tensors as text, by where in the entry they lie; nothing of all else."""
    others: tuple["weakref.ref[object] | None", ...]
    """All else but None, which is not kept alive by this."""

    def is_other(self, now: "Sample") -> bool:
        """Say whether a plain value or a tensor is another one, or an object has another place."""
        pairs = zip(self.plain, now.plain, strict=False)
        if any(was[part] != its[part] for was, its in pairs for part in was.keys() & its.keys()):
            return True
        known = [ref() if ref is not None else None for ref in self.others]
        there = {id(each) for each in known if each is not None}
        return any(
            before is not None and before is not after and id(after) in there
            for before, after in zip(known, (ref and ref() for ref in now.others), strict=False)
        )


def sample_of(container: Any) -> Sample:
    """Look at entries of a list, a tuple, a dictionary or a deque; of a dictionary at its values.

    >>> before = sample_of([1, None, 3])
    >>> before.is_other(sample_of([1, 2, 3])), before.is_other(sample_of([3, None, 1]))
    (False, True)
    """
    is_deque = isinstance(container, deque)
    every = -(-(len(container) if is_deque else size_of(container)) // MOST) or 1
    if is_deque or type(container) in (list, tuple):
        found = list(islice(container, 0, None, every))
    else:
        found = [item for _, item in entries(container)[::every]]
    return Sample(tuple(dict(_parts(item)) for item in found), tuple(map(_other, found)))


def _parts(item: Any, where: str = "", deeper: int = _DEEPEST) -> Iterator[tuple[str, str]]:
    """Yield what plain values, short containers of such and tensors lie in an entry, and where."""
    if item is None:
        return
    is_row = type(item) in (list, tuple) and len(item) <= _MOST_INSIDE
    is_plain = type(item) in KINDS or (is_row and KINDS.issuperset(map(type, item)))
    if is_plain or isinstance(item, (*NUMBERS, PurePath)):
        yield where, repr(item)
    elif type(item) is torch.Tensor or (type(item) is np.ndarray and not item.dtype.hasobject):
        with suppress(Exception):  # of a kind that NumPy does not have, say
            yield where, _numbers(item)
    elif is_container(item) and size_of(item) <= _MOST_INSIDE:
        if (content := content_of_plain(item)) is not None:
            yield where, content
            return
        for key, inner in entries(item) if deeper else ():
            yield from _parts(inner, f"{where}[{key!r:.99}]", deeper - 1)
    elif deeper and is_users(type(item).__module__) and not callable(item):
        for name, inner in attributes_seen(item).items():
            yield from _parts(inner, f"{where}.{name}", deeper - 1)


def _numbers(value: torch.Tensor | np.ndarray) -> str:
    array = value.detach().numpy() if isinstance(value, torch.Tensor) else value
    every = -(-array.size // _MOST_NUMBERS) or 1
    content = xxhash.xxh3_64_hexdigest(array.flat[::every].tobytes())  # which copies no more
    return f"{array.dtype} {array.shape} {content}"


def _other(item: object) -> "weakref.ref[object] | None":
    # Plain values and Python's own containers cannot be referred to like this.
    with suppress(TypeError):
        return weakref.ref(item)
    return None
