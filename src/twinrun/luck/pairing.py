"""What it buys to compare two trainings seed by seed instead of mean with mean.

A seed that is lucky for both is then no noise. Often it is not: the same seed draws other numbers
where anything else is changed.
"""

import math
from collections.abc import Sequence

from twinrun.luck.welch import scatter


def bought_by_seed(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return the share of the difference's variance that pairing by seed takes away.

    It is below 0 where pairing adds to it, and None where nothing scatters.

    Args:
        first: the values of a training, seed by seed; two at least.
        second: of another, of the same seeds.

    >>> round(bought_by_seed([1, 2, 3], [2, 3, 4]), 6), round(bought_by_seed([1, 2], [2, 1]), 6)
    (1.0, -1.0)
    """
    largest = max(map(abs, (*first, *second)))
    if not largest or len(first) < 2:
        return None
    one, two = ([value / largest for value in values] for values in (first, second))
    apart = [a - b for a, b in zip(one, two, strict=True)]
    unpaired = scatter(one).deviation ** 2 + scatter(two).deviation ** 2
    mean = math.fsum(apart) / len(apart)
    paired = math.fsum((value - mean) ** 2 for value in apart) / (len(apart) - 1)
    return 1 - paired / unpaired if unpaired else None
