"""Student's t: how unlikely a ratio is by chance, and how likely a true difference is seen.

A ratio is a difference divided by its standard error as it was measured.
"""

import math

from scipy.stats import nct, t

LEVEL = 0.05  # of false alarms, in both directions together


def two_sided(ratio: float, degrees: float) -> float:
    """Return the probability of a ratio at least so large, in either direction, by chance.

    >>> round(two_sided(-2.776, 4), 3), two_sided(math.inf, 4)
    (0.05, 0.0)
    """
    return float(2 * t.sf(abs(ratio), degrees))


def critical(degrees: float, level: float = LEVEL) -> float:
    """Return the ratio that chance exceeds, in either direction, with the probability `level`.

    >>> round(critical(4), 3)
    2.776
    """
    return float(t.isf(level / 2, degrees))


def power(shift: float, degrees: float, level: float = LEVEL) -> float:
    """Return the probability that a ratio is beyond the critical one where the true one is `shift`.

    In either direction: without a shift it is the level.

    >>> round(power(0, 4), 3), round(power(4, 4), 3), power(math.inf, 4)
    (0.05, 0.843, 1.0)
    """
    if math.isinf(shift):
        return 1.0
    bound = critical(degrees, level)
    # The lower tail is the upper one of the mirrored distribution.
    return float(nct.sf(bound, degrees, shift) + nct.sf(bound, degrees, -shift))
