"""How many seeds it takes to tell a difference, if it and the scatter are as they were measured."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2, norm, t

from twinrun.luck.student_t import LEVEL, power
from twinrun.luck.welch import Scatter, same, standard_error

POWER = 0.8  # the probability that is asked for
MOST_SEEDS = 10_000
FEW = 20  # seeds a side, up to which the scatter of measured deviations counts
PARTS = 128  # of the distribution of a measured deviation


def measured_deviations(degrees: int) -> NDArray[np.float64]:
    """Return what may be measured of a deviation of 1, each value as probable as the others.

    Its square is a chi-squared variable divided by its degrees of freedom.
    """
    return np.sqrt(chi2.isf((np.arange(PARTS) + 0.5) / PARTS, degrees) / degrees)


def power_with(first: Scatter, second: Scatter, seeds: int, level: float = LEVEL) -> float:
    """Return the probability that so many seeds a side tell two means apart.

    Args:
        first: what was measured of a group; at least one of the two scatters.
        second: of another.
        seeds: how many of each group there were then, at least 2.
        level: of false alarms.
    """
    largest = max(abs(first.mean), abs(second.mean), first.deviation, second.deviation)
    groups = [replace(group, number=seeds) for group in (first, second)]
    error, degrees = standard_error(groups[0], groups[1], largest)
    if not error:
        return 1.0
    shift = abs(first.mean / largest - second.mean / largest) / error
    if seeds > FEW:
        return power(shift, degrees, level)
    parts = [(group.deviation / largest / error) ** 2 / seeds for group in groups]
    return _power_of_few(shift, parts, seeds, level)


def _power_of_few(shift: float, parts: list[float], seeds: int, level: float) -> float:
    """Return the mean power over the deviations that few seeds may show.

    Welch's degrees of freedom follow from the measured deviations: with few seeds they scatter, and
    are fewer than the true deviations give. So the bound is higher, and the power less.

    Args:
        shift: the true difference, divided by its true standard error.
        parts: the share of each group in the variance of the difference.
        seeds: a side.
        level: of false alarms.
    """
    shares = measured_deviations(seeds - 1)
    first, second = parts[0] * shares[:, None] ** 2, parts[1] * shares[None, :] ** 2
    both = first + second
    degrees = (seeds - 1) * both**2 / (first**2 + second**2)
    bound = t.isf(level / 2, degrees) * np.sqrt(both)
    return float((norm.sf(bound - shift) + norm.sf(bound + shift)).mean())


def seeds_needed(first: Scatter, second: Scatter, level: float = LEVEL) -> int | None:
    """Return the fewest seeds a side that tell two means apart with a power of 0.8.

    None where no number up to 10,000 does. At least one of the two must scatter.
    """
    if same(first, second) or power_with(first, second, MOST_SEEDS, level) < POWER:
        return None
    low, high = 1, MOST_SEEDS  # too few, enough
    while high - low > 1:
        middle = (low + high) // 2
        if power_with(first, second, middle, level) < POWER:
            low = middle
        else:
            high = middle
    return high
