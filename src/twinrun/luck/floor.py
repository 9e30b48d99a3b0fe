"""The noise floor of a metric: which differences are luck.

The standard deviation over seeds with its interval, what a share of correct answers has by the
number of its samples alone, the smallest difference that some seeds a side tell, and the seeds that
are outliers.
"""

import functools
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import root_scalar
from scipy.stats import chi2, t

from twinrun.comparison.distances import unit_of
from twinrun.comparison.noise_records import NoiseTable
from twinrun.luck.forecast import POWER, measured_deviations, power_with
from twinrun.luck.stillness import Unmoved, unmoved_of
from twinrun.luck.student_t import LEVEL, critical, power
from twinrun.luck.welch import Scatter, scatter, steps_between

SEEDS = (1, 3, 5, 10)  # a side
FEWEST = 5  # values, of which one may be called an outlier
BY_CHANCE = 0.05  # may counts have a divisor in common and be taken for those of fewer samples
# So far may a share be off that is the mean of batches in float32, and a count from a whole number.
OFF, MOST_OFF = 1e-6, 0.01


@dataclass(frozen=True, kw_only=True)
class Deviation:
    """A standard deviation as it was measured."""

    number: int
    """Of values."""
    value: float
    """Of n - 1."""
    interval: tuple[float, float] | None
    """95 %, if the values are normally distributed; None where nothing scatters."""


@dataclass(frozen=True, kw_only=True)
class Floor:
    """The noise floor of a metric."""

    metric: str
    """Its name."""
    mean: float
    """Over seeds."""
    seeds: Deviation
    """Over seeds."""
    without: int
    """Seeds that gave it no number, so that nothing here is of them."""
    rounding: Deviation | None
    """Over the reference and its perturbations; None where there are not two."""
    binomial: float | None
    """√(p (1 - p) / N) of a share p of N samples; None for any other metric."""
    samples: int | None
    """That N."""
    luck: float
    """Two runs of one training, from two seeds, are no further apart in 95 % of cases."""
    detectable: Mapping[int, float | None]
    """The smallest difference that is told with a power of 0.8, by seeds a side."""
    outliers: Sequence[tuple[str, float, float]]
    """The seed that is an outlier among the others by Grubbs' test, its value and p."""
    largest: float
    """Of the values of the seeds the largest without its sign."""
    still: Unmoved
    """What no seed moves of what a training rests on."""

    @property
    def is_beyond(self) -> bool:
        """Whether no value is as large as what would be told from luck.

        Whether two values can be so far apart nobody knows then: of few seeds t is large, and an
        accuracy lies between 0 and 1.
        """
        return self.luck > self.largest

    @property
    def more_seeds_help(self) -> bool:
        """Whether of many seeds that scatter alike it would be no more than a value may be."""
        most = self.largest if self.samples is None else 1.0
        return critical(math.inf) * math.sqrt(2) * self.seeds.value <= most


def floors(table: NoiseTable) -> list[Floor]:
    """Return the noise floor of each metric that the reference and another seed have a value of."""
    metrics = [m["name"] for m in table["measures"] if m["kind"] == "metric"]
    trained = [run for run in table["runs"] if run["kind"] in ("reference", "seed")]
    still, found = still_of(table), []
    for name in metrics:
        of_seeds = _values(table, name, ("reference", "seed"))
        of_rounding = _values(table, name, ("reference", "perturbation"))
        # Of a metric that the reference has no number of, the others are the lucky ones.
        if len(of_seeds) < 2 or not _values(table, name, ("reference",)):
            continue
        every = [*of_seeds.values(), *of_rounding.values()]
        spread = scatter(list(of_seeds.values()))
        samples = _samples(every, _tested(name, table["samples"]))
        p = outlier(list(of_seeds.values()))
        worst = max(of_seeds, key=lambda label: abs(of_seeds[label] - spread.mean))
        is_outlier = p is not None and p * len(metrics) < LEVEL
        found.append(
            Floor(
                metric=name,
                mean=spread.mean,
                seeds=deviation(list(of_seeds.values())),
                without=len(trained) - len(of_seeds),
                rounding=deviation(list(of_rounding.values())) if len(of_rounding) > 1 else None,
                binomial=None if samples is None else _binomial(spread.mean, samples),
                samples=samples,
                luck=critical(spread.number - 1) * math.sqrt(2) * spread.deviation,
                detectable={n: detectable(spread, n) for n in SEEDS},
                outliers=[(worst, of_seeds[worst], p * len(metrics))]
                if is_outlier and p is not None
                else [],
                largest=max(map(abs, of_seeds.values())),
                still=still,
            )
        )
    return found


def still_of(table: NoiseTable) -> Unmoved:
    """Find what neither the reference's seed nor another moves of what a training rests on."""
    return unmoved_of([run["begun"] for run in table["runs"] if "begun" in run])


def _values(table: NoiseTable, name: str, kinds: Sequence[str]) -> dict[str, float]:
    return {
        run["label"]: run["values"][name]
        for run in table["runs"]
        if run["kind"] in kinds and name in run["values"]
    }


def _tested(metric: str, samples: Sequence[int]) -> set[int]:
    """Return of how many samples a metric may be: of the loader that its name tells, or of any.

    >>> _tested("acc/dataloader_idx_1", [50, 100]), sorted(_tested("acc", [50, 100]))
    ({100}, [50, 100, 150])
    """
    for index, number in enumerate(samples):
        if metric.endswith(f"/dataloader_idx_{index}"):
            return {number} - {0}
    return {*samples, sum(samples)} - {0}


def deviation(values: Sequence[float]) -> Deviation:
    """Return the standard deviation with its 95 % interval, by the chi-squared distribution.

    >>> deviation([1, 2, 3, 4, 5]).interval
    (0.947..., 4.543...)
    """
    found = scatter(values)
    low, high = (chi2.isf(p, found.number - 1) for p in (LEVEL / 2, 1 - LEVEL / 2))
    ends = [found.deviation * math.sqrt((found.number - 1) / end) for end in (low, high)]
    return Deviation(
        number=found.number,
        value=found.deviation,
        interval=(ends[0], ends[1]) if found.deviation else None,
    )


def detectable(spread: Scatter, seeds: int) -> float | None:
    """Return the smallest difference of two trainings that some seeds a side tell.

    With a power of 0.8, which is the mean over what the true deviation may be: that of a few values
    is uncertain. A single run a side has no deviation of its own: it is judged by that of `spread`.
    None where nothing scatters.
    """
    if not spread.deviation:
        return None
    if seeds == 1:
        degrees = spread.number - 1
        shift = _root(lambda x: power(x, degrees) - POWER, 100 * critical(degrees))
        return shift * math.sqrt(2) * spread.deviation

    shifts, powers = _powers(seeds)
    # Of the true deviation, in that which was measured, each value as probable as the others.
    deviations = 1 / measured_deviations(spread.number - 1)

    def missing(logarithm: float) -> float:
        found = np.interp(logarithm - np.log(deviations), shifts, powers)
        return float(found.mean()) - POWER

    return math.exp(float(root_scalar(missing, bracket=(-3, 20)).root)) * spread.deviation


@functools.cache
def _powers(seeds: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the power of some seeds a side by the logarithm of the shift, in true deviations."""
    shifts = np.geomspace(0.01, 1000, 150)
    zero = Scatter(number=seeds, mean=0.0, deviation=1.0)
    powers = [power_with(replace(zero, mean=float(shift)), zero, seeds) for shift in shifts]
    return np.log(shifts), np.array(powers)


def _root(function: Callable[[float], float], high: float) -> float:
    return float(root_scalar(function, bracket=(1e-3, high)).root)


def outlier(values: Sequence[float]) -> float | None:
    """Return the p of the value that is furthest from the mean, by Grubbs' test (1969).

    None for fewer than five values, of which the statistic can hardly be anything else; and where
    all but one are the same: a metric of few samples has ties, and how it scatters was not seen.
    Where any are the same, the others deviate by half a step at least, and the value in question
    counts as one step nearer: else counts of a few errors, which are skewed, often had an outlier.

    >>> round(outlier([1.0, 1.1, 0.9, 1.05, 3.0]), 4)
    0.0012
    """
    unit = unit_of(values)
    values = [value / unit for value in values]
    found, n = scatter(values), len(values)
    if n < FEWEST or not found.deviation or Counter(values).most_common(1)[0][1] >= n - 1:
        return None
    worst = max(values, key=lambda value: abs(value - found.mean))
    others = list(values)
    others.remove(worst)
    rest, step = scatter(others), _step(values)
    deviation = max(rest.deviation, step / 2)
    if not deviation:
        return 0.0
    # Grubbs' statistic, written as Student's t of the furthest beside the others.
    ratio = max(0.0, abs(worst - rest.mean) - step) / (deviation * math.sqrt(n / (n - 1)))
    return min(1.0, float(2 * n * t.sf(ratio, n - 2)))


def _step(values: Sequence[float]) -> float:
    """Return the smallest step between values of which some are the same; 0 where none are.

    >>> _step([0.5, 0.5, 0.75, 1.0]), _step([0.5, 0.75])
    (0.25, 0.0)
    """
    steps = steps_between(values)
    return min(steps) if steps and len(steps) < len(values) - 1 else 0.0


def _samples(values: Sequence[float], tested: set[int]) -> int | None:
    """Return of how many samples a metric is a share, if it is: of one test loader, or of all.

    Of samples, not of what is predicted of each, such as pixels, whose errors come together. None
    where the values are so few that it cannot be told whether it is of a part of them.
    """
    if not all(0 <= value <= 1 for value in values) or not any(0 < value < 1 for value in values):
        return None
    for number in sorted(tested):
        counts = [value * number for value in values]
        whole = min(MOST_OFF, OFF * number)
        # A small loss is as near to 0 of the samples as a share of them is to a whole number.
        is_inside = any(0 < round(count) < number for count in counts)
        if is_inside and all(abs(count - round(count)) < whole for count in counts):
            # Of a part of the samples it may be a share, too.
            shared = math.gcd(number, *map(round, counts))
            # Of as many counts that have nothing to do with each other all have it by chance.
            chance = sum(p ** -len({*map(round, counts)}) for p in _primes_of(shared))
            return number // shared if chance < BY_CHANCE else None
    return None


def _primes_of(number: int) -> list[int]:
    """Return the primes that divide a number.

    >>> _primes_of(1), _primes_of(360)
    ([], [2, 3, 5])
    """
    found, prime = [], 2
    while prime * prime <= number:
        if number % prime:
            prime += 1
        else:
            found.append(prime)
            while not number % prime:
                number //= prime
    return [*found, number] if number > 1 else found


def _binomial(share: float, samples: int) -> float:
    """Return the standard deviation of a share of independent samples.

    >>> round(_binomial(0.9, 1000), 5)
    0.00949
    """
    return math.sqrt(share * (1 - share) / samples)
