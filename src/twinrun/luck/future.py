"""One more value beside a few: may it be of their kind?

If it is, its distance from their mean, divided by s √(1 + 1/n), is Student's t with n - 1 degrees
of freedom: the prediction interval of a future value, which Crawford and Howell (1998) made the
test of a single case against a few controls. It takes values that are normally distributed, and is
exact for any number of them then.
"""

import math
from collections.abc import Sequence

import numpy as np
from scipy.stats import t

from twinrun.comparison.rounding import LARGEST_EXPONENT
from twinrun.luck.student_t import critical, two_sided
from twinrun.luck.welch import ROUNDING, scatter

MOST_RUNS = 200  # beyond which p moves no more
# Of distances that are all too small to be told from none nothing shows how they scatter: a factor
# of 2 is taken for it.
UNSEEN = math.log(2)
# ASSUME nobody minds a quarter more: perturbations may lie so close together that a few percent are
# significant.
MATTERS = math.log(1.25)


def p_of(
    values: Sequence[float], value: float, *, is_distance: bool, least: float = 0.0
) -> float | None:
    """Return how probable so unusual a value is among others of its kind.

    A distance that is less than a quarter more than their mean is not unusual, however close
    together they lie.

    Args:
        values: of the kind.
        value: the one in question.
        is_distance: they are logarithms of distances, and a small one is nothing unusual; of
            anything else both tails count.
        least: a standard deviation that they have at least, however close together they lie.

    Returns:
        None for fewer than two values, and where they are all the same and this one is another.

    >>> round(p_of([1, 2, 3, 4, 5], 7, is_distance=True), 4)
    0.041
    >>> p_of([1, 1, 1], 1, is_distance=False), p_of([1, 1, 1], 7, is_distance=False)
    (1.0, None)
    """
    if len(values) < 2:
        return None
    found = scatter(values)
    if is_distance and value - found.mean < MATTERS:
        return 1.0
    deviation = max(found.deviation, least) or (UNSEEN if is_distance else 0.0)
    if not deviation:
        return 1.0 if math.isclose(value, found.mean, rel_tol=ROUNDING) else None
    return _p(value - found.mean, deviation, len(values), is_distance=is_distance)


def bound_of(values: Sequence[float], level: float, *, least: float = 0.0) -> float | None:
    """Return the logarithm of a distance that `p_of` gives the level; None for fewer than two.

    >>> round(bound_of([1, 2, 3, 4, 5], 0.05), 2)
    6.69
    """
    if len(values) < 2:
        return None
    found, number = scatter(values), len(values)
    half = critical(number - 1, 2 * level) * (max(found.deviation, least) or UNSEEN)
    return found.mean + max(MATTERS, half * math.sqrt(1 + 1 / number))


def runs_to_decide(
    values: Sequence[float],
    value: float,
    *,
    is_distance: bool,
    below: float,
    above: float,
    least: float = 0.0,
) -> int | None:
    """Return the fewest values that would decide, if they go on as they are; None if no number.

    Args:
        values: of the kind, two at least.
        value: the one in question.
        is_distance: as for `p_of`.
        below: it is decided where p is less than this,
        above: or at least this.
        least: as for `p_of`.

    >>> runs_to_decide([1, 2, 3, 4, 5], 6.5, is_distance=True, below=0.05, above=1)
    6
    """
    found = scatter(values)
    deviation = max(found.deviation, least) or (UNSEEN if is_distance else 0.0)
    if not deviation:  # by its rank alone, if it is another
        is_same = math.isclose(value, found.mean, rel_tol=ROUNDING)
        return None if is_same else math.ceil(1 / below)
    numbers = np.arange(len(values) + 1, MOST_RUNS)
    ratios = (value - found.mean) / (deviation * np.sqrt(1 + 1 / numbers))
    ps = t.sf(ratios, numbers - 1) if is_distance else 2 * t.sf(np.abs(ratios), numbers - 1)
    decided = numbers[(ps < below) | (ps >= above)]
    return int(decided[0]) if len(decided) else None


def from_logarithm(value: float) -> float:
    """Return the distance of a logarithm, infinite where it is too large for a float.

    >>> from_logarithm(0.0), from_logarithm(710.0)
    (1.0, inf)
    """
    return math.exp(value) if value < LARGEST_EXPONENT else math.inf


def _p(apart: float, deviation: float, number: int, *, is_distance: bool) -> float:
    ratio = apart / (deviation * math.sqrt(1 + 1 / number))
    return float(t.sf(ratio, number - 1)) if is_distance else two_sided(ratio, number - 1)
