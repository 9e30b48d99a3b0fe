"""What lies in an attribute where nothing lay before its data were read."""

from collections.abc import Container
from typing import Any

from twinrun.checkpoint.late_spots import (
    DEEPEST,
    LEAF,
    Before,
    Outline,
    fewer_of,
    inside_of,
    is_blank,
)
from twinrun.containers import is_container, size_of


def new_parts(
    value: object, before: Before, owners: Container[int]
) -> list[tuple[tuple[object, ...], object]] | None:
    """Return what lies in an attribute where nothing lay before, by keys and `.attribute`s.

    Args:
        value: of the attribute.
        before: what it held.
        owners: as of `Outlines`.

    Returns:
        None if it has more entries than are looked at.
    """
    if before.is_nothing:
        return [((), value)]
    parts = _NewParts(owners)
    return parts.found if parts.go(value, before.outline, (), before.most) else None


class _NewParts:
    """What is new. (A function in another one would hold what it has found beyond its end.)"""

    def __init__(self, owners: Container[int]) -> None:
        self._owners, self._seen = owners, set[int]()
        self.found: list[tuple[tuple[object, ...], object]] = []

    def go(self, item: Any, was: Outline | None, keys: tuple[object, ...], most: int) -> bool:
        """Note what is new in it; say whether all its entries were looked at."""
        if item is None or was is LEAF or (was is None and is_blank(item)):
            return True
        if was is None:
            self.found.append((keys, item))
            return True
        is_apart = id(item) in self._seen or id(item) in self._owners or len(keys) == DEEPEST
        inside = None if is_apart else inside_of(item, most, is_split=True)
        if inside is None:
            return True
        self._seen.add(id(item))
        fewer = fewer_of(most, len(inside))
        if is_container(item) and len(inside) < size_of(item):
            return False
        return all(self.go(each, was.get(key), (*keys, key), fewer) for key, each in inside)
