"""What it buys to compare two trainings seed by seed instead of mean with mean.

A seed that is lucky for both is then no noise. Often it is not: the same seed draws other numbers
where anything else is changed.
"""

import math
from collections.abc import Sequence

from twinrun.luck.student_t import LEVEL, two_sided
from twinrun.luck.welch import scatter


def bought_by_seed(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return the share of the difference's variance that pairing by seed takes away.

    It is below 0 where pairing adds to it. None where it is not told from 0: the values of both are
    not correlated at 5 %, by Student's t of r √((n - 2) / (1 - r²)) with n - 2 degrees of freedom.

    Args:
        first: the values of a training, seed by seed; two at least.
        second: of another, of the same seeds.

    >>> bought_by_seed([1, 2, 3], [2, 3, 4]), bought_by_seed([1, 2, 3], [3, 2, 1])
    (1.0, -1.0)
    >>> bought_by_seed([1, 2], [2, 1]), bought_by_seed([1, 2, 3], [2, 1, 3])
    (None, None)
    """
    largest = max(map(abs, (*first, *second)))
    if not largest or len(first) < 3:
        return None
    one, two = ([value / largest for value in values] for values in (first, second))
    apart = [a - b for a, b in zip(one, two, strict=True)]
    deviations = scatter(one).deviation, scatter(two).deviation
    if not all(deviations):
        return None
    unpaired = math.fsum(deviation**2 for deviation in deviations)
    mean = math.fsum(apart) / len(apart)
    paired = math.fsum((value - mean) ** 2 for value in apart) / (len(apart) - 1)
    r = max(-1.0, min(1.0, (unpaired - paired) / (2 * math.prod(deviations))))
    degrees = len(apart) - 2
    ratio = r * math.sqrt(degrees / (1 - r**2)) if abs(r) < 1 else math.inf
    return 1 - paired / unpaired if two_sided(ratio, degrees) < LEVEL else None
