"""Entries of a long list or dictionary, evenly spaced: whether they have become others.

A list of indices is redrawn, a list of samples shuffled. One that is filled as samples are read is
a cache: what was None there, or no plain value, may become anything.
"""

import weakref
from collections import deque
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple

from twinrun.containers import entries, is_container, size_of
from twinrun.hidden_content import KINDS, NUMBERS, content_of_plain

MOST = 1 << 12  # entries that are looked at
_MOST_INSIDE = 64  # of a list that is an entry


class Sample(NamedTuple):
    """Entries that were looked at."""

    plain: tuple[str | None, ...]
    """Numbers, texts, and short containers of such, as text; None for all else."""
    others: tuple["weakref.ref[object] | None", ...]
    """All else but None, which is not kept alive by this."""

    def is_other(self, now: "Sample") -> bool:
        """Say whether a plain value is another one now, or an object has another place."""
        pairs = zip(self.plain, now.plain, strict=False)
        if any(None not in pair and pair[0] != pair[1] for pair in pairs):
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
    return Sample(tuple(map(_plain, found)), tuple(map(_other, found)))


def _plain(item: Any) -> str | None:
    if item is None:
        return None
    is_row = type(item) in (list, tuple) and len(item) <= _MOST_INSIDE
    if type(item) in KINDS or (is_row and KINDS.issuperset(map(type, item))):
        return repr(item)
    if isinstance(item, NUMBERS):
        return repr(item)
    if is_container(item) and size_of(item) <= _MOST_INSIDE:
        return content_of_plain(item)
    return None


def _other(item: object) -> "weakref.ref[object] | None":
    # Plain values and Python's own containers cannot be referred to like this.
    with suppress(TypeError):
        return weakref.ref(item)
    return None
