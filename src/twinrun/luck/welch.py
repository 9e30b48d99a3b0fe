"""Two groups of values, one of each seed: do their means differ by more than the luck of seeds?

Welch's test (1947) takes each group's own standard deviation: two trainings need not scatter alike.
Values are divided by the largest before they are squared, so that none is too large or too small
for its square.
"""

import itertools
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from twinrun.luck.student_t import critical, two_sided

# Below this share of a value lies what rounding in float32 leaves of it: no scatter of seeds.
ROUNDING = 1e-6
LARGEST = sys.float_info.max  # beyond which no deviation is a number


@dataclass(frozen=True, kw_only=True)
class Scatter:
    """What some values say of their mean, in their own unit."""

    number: int
    """How many values."""
    mean: float
    """Their mean."""
    deviation: float
    """Their standard deviation, of n - 1; 0 of a single value, or where rounding explains it."""

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the mean; None where nothing scatters."""
        if not self.deviation:
            return None
        half = critical(self.number - 1) * (self.deviation / math.sqrt(self.number))
        return self.mean - half, self.mean + half


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The difference of two means, the second taken from the first."""

    apart: float
    """In `unit`."""
    error: float
    """Its standard error, in `unit`."""
    degrees: float
    """Degrees of freedom of the error."""
    unit: float
    """So large that neither is too large or too small for its square."""

    @property
    def mean(self) -> float:
        """The difference, in the unit of the values."""
        return self.apart * self.unit

    @property
    def interval(self) -> tuple[float, float]:
        """Its 95 % interval, in the unit of the values."""
        half = critical(self.degrees) * self.error
        return (self.apart - half) * self.unit, (self.apart + half) * self.unit

    @property
    def p(self) -> float:
        """How probable one at least so large is, in either direction, without a true difference."""
        # One group may be so small that its scatter is nothing beside the other's value.
        return two_sided(self.apart / self.error if self.error else math.inf, self.degrees)


def scatter(values: Sequence[float]) -> Scatter:
    """Return mean and standard deviation of finite values.

    >>> scatter([1e200, 3e200]).mean, scatter([0.3, 0.1 + 0.2]).deviation
    (2e+200, 0.0)
    """
    largest = max(map(abs, values))
    if not largest:
        return Scatter(number=len(values), mean=0.0, deviation=0.0)
    shares = [value / largest for value in values]
    mean = math.fsum(shares) / len(shares)
    if len(shares) == 1 or max(shares) - min(shares) <= ROUNDING:
        deviation = 0.0
    else:
        squares = math.fsum((share - mean) ** 2 for share in shares)
        deviation = math.sqrt(squares / (len(shares) - 1))
    return Scatter(
        number=len(values), mean=mean * largest, deviation=min(deviation * largest, LARGEST)
    )


def same(first: Scatter, second: Scatter) -> bool:
    """Say whether two means are the same but for rounding."""
    largest = max(abs(first.mean), abs(second.mean))
    # Divided before it is taken away: the difference itself may be too large for a float.
    return not largest or abs(first.mean / largest - second.mean / largest) <= ROUNDING


def welch(first: Scatter, second: Scatter) -> Difference | None:
    """Compare two means; None where luck was not measured.

    That is where a group has a single value, or where no value of either scatters: a difference
    that no seed moves is not less probable for that.
    """
    if min(first.number, second.number) < 2 or not (first.deviation or second.deviation):
        return None
    largest = max(abs(first.mean), abs(second.mean), first.deviation, second.deviation)
    apart = first.mean / largest - second.mean / largest
    error, degrees = standard_error(first, second, largest)
    return Difference(apart=apart, error=error, degrees=degrees, unit=largest)


def standard_error(first: Scatter, second: Scatter, unit: float) -> tuple[float, float]:
    """Return the standard error of a difference in a unit, and its degrees of freedom."""
    variances = [(s.deviation / unit) ** 2 / s.number for s in (first, second)]
    both = sum(variances)
    if not both:
        return 0.0, min(first.number, second.number) - 1
    # Welch and Satterthwaite's; as shares, whose squares cannot become too small.
    shares = [variance / both for variance in variances]
    of_each = [share**2 / (s.number - 1) for share, s in zip(shares, (first, second), strict=True)]
    return math.sqrt(both), 1 / sum(of_each)


def steps_between(values: Sequence[float]) -> list[float]:
    """Return how far apart neighbouring values are, where that is more than rounding.

    >>> steps_between([0.5, 0.75, 0.5, 0.75000001])
    [0.25]
    """
    same = ROUNDING * max(map(abs, values), default=0.0)
    return [b - a for a, b in itertools.pairwise(sorted(values)) if b - a > same]
