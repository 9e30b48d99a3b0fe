"""Mini-batches of the first validations: whether two of them read the same.

Where data make something as they are first read, that must not show in what is read.
"""

from collections.abc import Callable, Iterator
from typing import Any

MOST = 256  # batches of a validation


class ValidatedBatches:
    """Looks at them."""

    def __init__(self) -> None:
        """Have seen none."""
        self._before: list[int] = []
        self._now: list[int] = []

    def watch(self, fetcher: Any, fingerprint: Callable[[object], int]) -> None:
        """Look at what a fetcher of Lightning gives from now on, of batches that it has none of."""
        inner, self._before, self._now = fetcher.iterator, self._now, []
        for found in getattr(fetcher, "batches", ()):
            self._now.append(fingerprint(found[0]))
        fetcher.iterator = _Noted(inner, fingerprint, self._now)

    @property
    def are_same(self) -> bool:
        """Whether both of the last two validations were looked at, and began with the same."""
        pairs = list(zip(self._before, self._now, strict=False))
        return bool(pairs) and all(before == now for before, now in pairs)


class _Noted:
    """Takes the place of an iterator."""

    def __init__(self, inner: Any, fingerprint: Callable[[object], int], into: list[int]) -> None:
        self._inner, self._fingerprint, self._into = inner, fingerprint, into

    def __iter__(self) -> Iterator[object]:
        return self

    def __next__(self) -> object:
        found = next(self._inner)
        if len(self._into) < MOST:
            self._into.append(self._fingerprint(found[0]))
        return found
