"""Student's t: how unlikely a ratio is by chance, and how likely a true difference is seen.

A ratio is a difference divided by its standard error as it was measured, which scatters as the
root of a chi-squared variable: both probabilities are means of a normal one over it. The integral
is Gauss and Legendre's; it agrees with SciPy's t and noncentral t to four decimals and more.
"""

import math
from functools import cache

import numpy as np

LEVEL = 0.05  # of false alarms, in both directions together
NODES, WEIGHTS = np.polynomial.legendre.leggauss(128)
FAR = 12.0  # standard deviations, beyond which nothing is left


@cache
def errors(degrees: float) -> tuple[list[float], list[float]]:
    """Return standard errors as shares of the true one, and how probable each is."""
    width = FAR / math.sqrt(2 * degrees)
    low, high = max(0.0, 1 - width), 1 + width
    shares = low + (high - low) * (NODES + 1) / 2
    logs = (degrees - 1) * np.log(shares) - degrees * shares**2 / 2
    masses = WEIGHTS * np.exp(logs - logs.max())
    return shares.tolist(), (masses / masses.sum()).tolist()


def above(bound: float, degrees: float, shift: float = 0.0) -> float:
    """Return the probability of a ratio above a bound where the true one is `shift`.

    >>> round(above(2.776, 4), 3), round(above(2.776, 4, 4), 3)
    (0.025, 0.843)
    """
    if math.isinf(bound) or math.isinf(shift):
        return 1.0 if shift > bound or bound == -math.inf else 0.0
    root = math.sqrt(2)
    return math.fsum(
        mass * math.erfc((bound * share - shift) / root) / 2
        for share, mass in zip(*errors(degrees), strict=True)
    )


def two_sided(ratio: float, degrees: float) -> float:
    """Return the probability of a ratio at least so large, in either direction, by chance.

    >>> round(two_sided(-2.776, 4), 3), two_sided(math.inf, 4)
    (0.05, 0.0)
    """
    return min(1.0, 2 * above(abs(ratio), degrees))


@cache
def critical(degrees: float, level: float = LEVEL) -> float:
    """Return the ratio that chance exceeds, in either direction, with the probability `level`.

    >>> round(critical(4), 3)
    2.776
    """
    low, high = 0.0, 1.0
    while two_sided(high, degrees) > level:
        low, high = high, 2 * high
    while high - low > 1e-7 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if two_sided(middle, degrees) > level else (low, middle)
    return high


def power(shift: float, degrees: float, level: float = LEVEL) -> float:
    """Return the probability that a ratio is beyond the critical one where the true one is `shift`.

    In either direction: without a shift it is the level.

    >>> round(power(0, 4), 3), round(power(4, 4), 3), power(math.inf, 4)
    (0.05, 0.843, 1.0)
    """
    bound = critical(degrees, level)
    # The lower tail is the upper one of the mirrored distribution.
    return above(bound, degrees, shift) + above(bound, degrees, -shift)
