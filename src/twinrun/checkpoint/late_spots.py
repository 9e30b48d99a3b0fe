"""Where something lies in a container, or in objects in it, and what lies there only later.

Rows that are each given the sample that was read for them, a list some of whose entries are None,
shards that open as they are read: nothing of that is seen where an attribute is looked at as a
whole. So what lies where is written down before data are read. Of long lists and dictionaries
entries are looked at that two processes choose alike, however many there are by then.
"""

import collections
import itertools
from collections.abc import Container, Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pytorch_lightning as pl
import torch
import xxhash

from twinrun.checkpoint.late_texts import key_text
from twinrun.checkpoint.users_code import attributes_seen, is_code, is_users
from twinrun.containers import entries, is_container, is_faceless, is_really, size_of
from twinrun.hidden_content import ESCAPED, KINDS

Outline: TypeAlias = dict[object, "Outline"]
"""Of a container or an object, by key, index or `.attribute`, of what is not nothing."""

LEAF: Outline = {}
"""Of what is neither, or of a list of such."""
MOST = 1 << 14  # entries of a container
FEW = 64  # of one inside of a long one, at least
DEEPEST = 6  # containers and objects inside each other
_MOST_SPOTS = 1 << 18  # in all; of more, fewer entries of the outermost are looked at
_LEAVES = KINDS - {type(None)} | {torch.Tensor, np.ndarray}
_APART = (torch.nn.Module, pl.Trainer, pl.LightningDataModule)


class Spot(NamedTuple):
    """Where something lies that was not there."""

    path: str
    """Keys as text; of the container itself beside a `#`."""
    value: object
    """What lies there."""
    key: object
    """The last key, or `.attribute`."""
    holder: tuple[type, str] | None
    """The class of the last object on the way, and its attribute."""
    is_deep: bool = False
    """Whether it lies in something that lies in the value."""


class Before(NamedTuple):
    """What an attribute held before its data were read."""

    outline: Outline | None
    """What lay where; None of nothing, of a list of None a dictionary without entries."""
    most: int
    """Entries of it that are looked at."""
    is_nothing: bool
    """Whether all in it was None, or empty."""
    is_container: bool = False
    """Whether it was a container."""


NOTHING = Before(None, MOST, is_nothing=True)
SEEN = Before(LEAF, MOST, is_nothing=False)  # elsewhere


class _TooManyError(Exception):
    """There are more spots than are looked at."""


class Outlines:
    """Of attributes that are about to be read; those of rows that are alike are one."""

    def __init__(self, owners: Container[int]) -> None:
        """Look at nothing yet.

        Args:
            owners: the identities of objects whose attributes are looked at by themselves.
        """
        self._owners, self._seen = owners, set[int]()
        self._shapes: dict[object, Outline] = {}
        self._left = 0

    def before(self, value: object) -> Before:
        """Write down what lies where in an attribute, but for what was come to in another one."""
        is_nothing, most, seen = is_blank(value), MOST, self._seen
        while most:
            # What is nothing is late in each attribute that has it.
            self._left, self._seen = _MOST_SPOTS, set() if is_nothing else {*seen}
            try:
                outline = self._of(value, most, DEEPEST)
                return Before(outline, most, is_nothing, is_container(value))
            except _TooManyError:
                most //= 8
            finally:
                self._seen |= seen
        return SEEN

    def _of(self, value: object, most: int, deeper: int) -> Outline | None:
        if value is None:
            return None
        if type(value) in _LEAVES or id(value) in self._seen or id(value) in self._owners:
            return LEAF
        # A long dictionary that holds no None is looked at elsewhere: whether there is more later.
        is_dict = is_container(value) and is_really(value, dict)
        is_whole = is_dict and size_of(value) > most and _is_plain(dict.values(value))
        found = inside_of(value, most) if deeper and not is_whole else None
        if found is None:
            return LEAF
        self._seen.add(id(value))
        self._left -= len(found)
        if self._left < 0:
            raise _TooManyError
        outline, fewer = dict[object, Outline](), fewer_of(most, len(found))
        for key, item in found:
            inner = LEAF if type(item) in _LEAVES else self._of(item, fewer, deeper - 1)
            if inner is not None:
                outline[key] = inner
        if not found:
            return None
        if len(outline) > FEW:
            return outline
        return self._shapes.setdefault((*outline, *map(id, outline.values())), outline)


class NewSpots:
    """What lies in attributes where nothing lay before, but for what was come to in another one."""

    def __init__(self, owners: Container[int]) -> None:
        """Look at nothing yet.

        Args:
            owners: as of `Outlines`.
        """
        self._owners, self.seen = owners, dict[int, object]()
        self._known: Container[str] = ()
        self.is_all = True
        """Whether all entries of the last attribute were looked at."""

    def __contains__(self, key: int) -> bool:
        """Say whether an object is an owner, or was come to."""
        return key in self._owners or key in self.seen

    def of(self, value: object, before: Before, known: Container[str]) -> list[Spot]:
        """Return what lies in an attribute now, and did not.

        Args:
            value: of the attribute.
            before: what it held.
            known: the keys of an earlier look: a list that came with None in it may be full now.
        """
        self.is_all, self._known = True, known
        return list(self._of(Spot("", value, "", None), before.outline, before.most, DEEPEST))

    def _of(self, spot: Spot, before: Outline | None, most: int, deeper: int) -> Iterator[Spot]:
        value, path = spot.value, spot.path
        if value is None or before is LEAF:
            return
        if type(value) not in _LEAVES:
            if id(value) in self.seen or id(value) in self._owners:
                return
            is_split = before is not None or key_of(f"{path}#") in self._known
            if deeper and (found := inside_of(value, most, is_split=is_split)) is not None:
                self.seen[id(value)] = value
                if found and before is None and not is_really(value, dict):
                    yield Spot(f"{path}#", _kind_of(value), spot.key, spot.holder)
                if is_container(value) and len(found) < size_of(value):
                    self.is_all = False
                fewer = fewer_of(most, len(found))
                for key, item in found:
                    was = None if before is None else before.get(key)
                    if item is not None and was is not LEAF:
                        inner = _spot_in(spot, key, item)
                        yield from self._of(inner, was, fewer, deeper - 1)
                return
        if before is None:
            yield spot


def _spot_in(spot: Spot, key: object, item: object) -> Spot:
    value, path = spot.value, spot.path
    is_own = not (is_container(value) or type(value) is collections.deque)
    holder = (type(value), str(key)[1:]) if is_own else spot.holder
    text = str(key) if is_own else key_text(key)
    return Spot(f"{path}, {text}" if path else text, item, key, holder, is_deep=bool(path))


def key_of(path: str) -> str:
    """Return the key of a path in what is written down.

    >>> len(key_of("3, 'row'"))
    16
    """
    return xxhash.xxh3_64_hexdigest(path.encode(errors=ESCAPED))


def is_blank(value: object, deepest: int = DEEPEST) -> bool:
    """Say whether a value is nothing yet: None, an empty container or one of nothing.

    >>> is_blank(None), is_blank({}), is_blank([None, {"x": []}]), is_blank([0])
    (True, True, True, False)
    """
    if value is None:
        return True
    if not is_container(value) or not deepest:
        return False
    # A long one ends at its first.
    return all(item is None or is_blank(item, deepest - 1) for item in _items(value))


def _items(value: Any) -> Iterator[object]:
    if is_really(value, dict):
        return iter(dict.values(value))
    return list.__iter__(value) if is_really(value, list) else tuple.__iter__(value)


def _kind_of(value: Any) -> str:
    """Write down what has entries that are looked at one by one."""
    kind = type(value)
    is_sized = is_container(value) or kind is collections.deque
    size = (size_of(value) if is_container(value) else len(value)) if is_sized else ""
    return f"{kind.__module__}.{kind.__qualname__} {size}"


def fewer_of(most: int, entered: int) -> int:
    """Return how many entries are looked at inside of each of so many."""
    return max(min(FEW, most), most // max(entered, 1))


def inside_of(
    value: Any, most: int, *, is_split: bool = False
) -> list[tuple[object, object]] | None:
    """Return what lies in a value by its key; None if it is looked at as a whole.

    Args:
        value: it.
        most: entries.
        is_split: whether a list of values and tensors is not.
    """
    if is_faceless(value):
        return None
    if is_container(value) or type(value) is collections.deque:
        is_dict = is_really(value, dict)
        size = size_of(value) if is_container(value) else len(value)
        is_list = type(value) in (list, tuple, collections.deque)
        if size and is_list and not is_split and _is_plain(value):
            return None
        every = 1
        while size > most * every:
            every *= 2
        if not is_container(value):
            return list(itertools.islice(enumerate(value), 0, None, every))
        if every == 1 or not is_dict:
            return entries(value, every)
        return [pair for pair in entries(value) if _number_of(pair[0]) % every == 0]
    kind = type(value)
    if not is_users(kind.__module__) or is_code(value) or isinstance(value, _APART):
        return None
    return [(f".{name}", item) for name, item in attributes_seen(value).items()] or None


def _is_plain(items: Iterable[object]) -> bool:
    return _LEAVES.issuperset(map(type, items))


def _number_of(key: object) -> int:
    return xxhash.xxh3_64_intdigest(key_text(key).encode(errors=ESCAPED))
