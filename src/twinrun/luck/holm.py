"""Several comparisons at once: probabilities adjusted by Holm's method (1979)."""

from collections.abc import Sequence


def adjusted(ps: Sequence[float]) -> list[float]:
    """Return each probability as if it were that of the only comparison.

    The smallest of n counts n times, the next n - 1 times, and none less than one before it.

    >>> adjusted([0.04, 0.01, 0.5])
    [0.08, 0.03, 0.5]
    """
    found = [1.0] * len(ps)
    least = 0.0
    for done, index in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        least = max(least, min(1.0, (len(ps) - done) * ps[index]))
        found[index] = least
    return found
