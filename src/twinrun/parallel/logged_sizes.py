"""What a module means by the `batch_size` that it gives where it logs.

Lightning weighs an epoch's values by it. It may count something in the batch, such as tokens, or be
a number of the config. Of parts of a batch the former are weights of their own and sum up to the
whole batch's, the latter is the same of each part, and the whole batch's too. No call of `log` says
which: a number of the config never changes, and is not 0. So it is taken for one until it does.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

# The hook, the name, and what else tells calls of `log` apart.
_Key = tuple[Any, ...]


@dataclass(kw_only=True)
class _Seen:
    """Of one value that is logged."""

    first: float
    """The first size that was given."""
    varies: bool = False
    """Whether it was another one since."""
    is_guessed: bool = False
    """Whether a weight rests on its not varying."""


class LoggedSizes:
    """Tells counts from numbers of a config by all that a training gives."""

    def __init__(self) -> None:
        self._seen: dict[_Key, _Seen] = {}

    def weights(
        self, key: _Key, given: Sequence[float | None], samples: Sequence[float]
    ) -> tuple[list[float], float]:
        """Weigh the parts of a batch that log a value.

        Args:
            key: which call of `log` it is.
            given: the `batch_size` of each part; None where it gave none.
            samples: of each part; 0 of one that has none, or that logs nothing.

        Returns:
            The weights of the parts in a mean, and what the whole batch counts in an epoch's.
        """
        logged = [size for size, of in zip(given, samples, strict=True) if of]
        sizes = [size for size in logged if size is not None]
        if not sizes or len(sizes) < len(logged):
            return [*samples], int(sum(samples))
        seen = self._seen.setdefault(key, _Seen(first=sizes[0]))
        seen.varies = seen.varies or any(size != seen.first or not size for size in sizes)
        if not seen.varies:
            # Of parts that are alike the means are the same, and all batches count alike.
            seen.is_guessed = seen.is_guessed or len({*samples}) > 1
            return [*samples], number(seen.first * len(samples))
        counted = [size or 0 if of else 0 for size, of in zip(given, samples, strict=True)]
        # A mean of nothing is whatever the module makes of it, and counts nothing.
        return (counted if any(counted) else [*samples]), number(sum(counted))

    def mistaken(self) -> list[str]:
        """Name the values of which a number was taken for one of the config, and then varied."""
        return sorted({key[1] for key, of in self._seen.items() if of.varies and of.is_guessed})

    def sentence(self, setting: str) -> str | None:
        """Say what was weighed otherwise than in one piece; None if nothing was."""
        names = self.mistaken()
        if not names:
            return None
        return (
            f"in part, {setting} weighs the first values of {', '.join(names)} by samples: their "
            f"batch_size was the same of parts of several sizes, and later another, which shows "
            f"that it counts something; what is logged of them up to then may be off (from then "
            f"on, if it is a number of the config that changes)"
        )

    def state(self) -> list[list[Any]]:
        """Return what was seen, as plain data."""
        return [
            [[*key], seen.first, seen.varies, seen.is_guessed] for key, seen in self._seen.items()
        ]

    def load(self, state: Sequence[Sequence[Any]]) -> None:
        """Take what `state` gave."""
        self._seen = {
            tuple(key): _Seen(first=first, varies=varies, is_guessed=is_guessed)
            for key, first, varies, is_guessed in state
        }


def number(size: float) -> float:
    """Return a whole number as an integer: Lightning counts in integers where it can."""
    return int(size) if size == int(size) else size
