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

from twinrun.checkpoint.late_texts import key_text
from twinrun.checkpoint.users_code import attributes_seen, is_users
from twinrun.containers import entries, holds_for_users, is_container, is_really, size_of
from twinrun.hidden_content import KINDS, NUMBERS, PLAIN, UNORDERED, content_of_plain

MOST = 1 << 12  # entries that are looked at
_MOST_INSIDE = 64  # of a container in an entry, evenly spaced
_MOST_NUMBERS = 1 << 10  # of a tensor in an entry, evenly spaced
_DEEPEST = 4  # rows and objects inside each other
_UNSEEN = "an object"  # in the place of a value
_KEY = "key"  # of an entry of a dictionary
_SPACED = "~"  # in where something lies among more than are looked at: others may be, later


class Sample(NamedTuple):
    """Entries that were looked at."""

    plain: tuple[dict[str, str], ...]
    """Plain values and tensors as text, by where in the entry they lie; nothing of all else."""
    others: tuple["weakref.ref[object] | None", ...]
    """All else but None, which is not kept alive by this."""

    def is_other(self, now: "Sample") -> bool:
        """Say whether a plain value or a tensor is another one, or an object has another place."""
        pairs = zip(self.plain, now.plain, strict=False)
        if any(
            its.get(part, _UNSEEN if _SPACED in part else None) not in (seen, _UNSEEN)
            for was, its in pairs
            for part, seen in was.items()
            if seen != _UNSEEN
        ):
            return True
        known = [ref() if ref is not None else None for ref in self.others]
        there = {id(each) for each in known if each is not None}
        return any(
            before is not None and before is not after and id(after) in there
            for before, after in zip(known, (ref and ref() for ref in now.others), strict=False)
        )


def sample_of(container: Any) -> Sample:
    """Look at entries of a list, a tuple, a dictionary or a deque; of a dictionary in their order.

    >>> before = sample_of([1, None, 3])
    >>> before.is_other(sample_of([1, 2, 3])), before.is_other(sample_of([3, None, 1]))
    (False, True)
    >>> sample_of({"a": 1, "b": 1}).is_other(sample_of({"b": 1, "a": 1}))
    True
    """
    pairs = _spaced(container, MOST)
    found = [item for _, item in pairs]
    plain = [dict(_parts(item)) for item in found]
    if is_container(container) and is_really(container, dict):
        # More or fewer of them are no sample of the same: see `Length`.
        plain = [{**each, _KEY: key_text(key)} for each, (key, _) in zip(plain, pairs, strict=True)]
    return Sample(tuple(plain), tuple(map(_other, found)))


def _spaced(container: Any, most: int) -> list[tuple[object, object]]:
    """Return entries beside their keys, evenly spaced."""
    size = _size(container)
    every = -(-size // most) or 1
    if isinstance(container, np.ndarray):
        return list(enumerate(container.flat[::every].tolist()))
    if isinstance(container, deque) or type(container) in (list, tuple):
        return list(enumerate(islice(container, 0, None, every)))
    return entries(container, every)


def _size(container: Any) -> int:
    if isinstance(container, np.ndarray):
        return container.size
    return len(container) if isinstance(container, deque) else size_of(container)


def _parts(
    item: Any, where: str = "", deeper: int = _DEEPEST, *, in_library: bool = False
) -> Iterator[tuple[str, str]]:
    """Yield what lies in an entry, and where; of a library's object tensors and arrays alone."""
    is_array = type(item) is np.ndarray
    if _is_nothing(item):
        return
    if in_library and isinstance(item, (*PLAIN, *NUMBERS, PurePath, *UNORDERED)):
        return
    if type(item) in KINDS or isinstance(item, (*NUMBERS, PurePath)):
        yield where, repr(item)
    elif isinstance(item, UNORDERED):
        yield where, content_of_plain(item) or str(len(item))
    elif type(item) is bytearray:
        yield where, _numbers(np.frombuffer(item, np.uint8))
    elif type(item) is torch.Tensor or (is_array and not item.dtype.hasobject):
        with suppress(Exception):  # of a kind that NumPy does not have, say
            yield where, _numbers(item)
    elif is_array or is_container(item) or isinstance(item, deque):
        size, found = _size(item), _spaced(item, _MOST_INSIDE)
        is_dict = is_container(item) and is_really(item, dict)
        values = [inner for _, inner in found]
        # More may come to a dictionary, and where nothing is: see `late_spots`.
        is_filled = deeper > 0 and (is_dict or any(map(_is_nothing, values)))
        content = None if is_filled else content_of_plain(values)
        if content is not None:
            if not in_library:
                yield where, f"{size} {content}"
        elif deeper:
            before = ""
            for key, inner in found:
                called = f"{where}{_SPACED * (size > _MOST_INSIDE)}[{key!r:.99}]"
                yield from _parts(inner, called, deeper - 1, in_library=in_library)
                # What comes later comes behind the others.
                if is_dict and size <= _MOST_INSIDE and not in_library:
                    yield f"{called} is behind", before
                    before = called
    else:
        yield where, _UNSEEN
        if not deeper or callable(item):
            return
        in_library = not is_users(type(item).__module__) and not holds_for_users(item)
        for name, inner in attributes_seen(item).items():
            yield from _parts(inner, f"{where}.{name}", deeper - 1, in_library=in_library)


def _is_nothing(item: object) -> bool:
    return item is None or (is_container(item) and not size_of(item))


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
