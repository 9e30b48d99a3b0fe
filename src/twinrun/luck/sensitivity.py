"""What a scale can tell: seeds from rounding, or whether rounding goes as far as seeds do."""

import functools
import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean, median

from scipy.optimize import root_scalar
from scipy.stats import f, nct, t

from twinrun.comparison.noise_records import Measure
from twinrun.luck.forecast import POWER
from twinrun.luck.future import MATTERS, UNSEEN, from_logarithm, p_of, runs_to_decide
from twinrun.luck.scale import Scale, scatter_of_few
from twinrun.luck.student_t import LEVEL
from twinrun.luck.welch import scatter, welch

TWICE = 2.0


def tells_seeds(scale: Scale) -> bool:
    """Say whether another seed would be told from rounding: the median one is."""
    found = [
        p_of(
            scale.rounding[of["name"]],
            value,
            is_distance=of["kind"] != "metric",
            least=scatter_of_few(scale.rounding[of["name"]], of),
        )
        for of, value in _median_seed(scale)
    ]
    known = [p for p in found if p is not None]
    return bool(known) and min(known) * len(known) < LEVEL


def told_from(scale: Scale) -> float | None:
    """Return how many times as far as rounding a change must go to be told from it.

    With a power of 0.8, by the distance that tells it best, if perturbations scatter as they were
    measured to; None where there is no distance of two perturbations, or one of them broke.
    """
    if _any_broken(scale)[0]:
        return None
    found = []
    for of in scale.measures:
        values = scale.rounding[of["name"]]
        if of["kind"] != "metric" and len(values) > 1:
            degrees, least = len(values) - 1, scatter_of_few(values, of)
            deviation = max(scatter(values).deviation, least) or UNSEEN
            found.append(
                from_logarithm(
                    _shift(degrees, LEVEL / len(scale.measures))
                    * deviation
                    * math.sqrt(1 + 1 / len(values))
                )
            )
    return max(from_logarithm(MATTERS), min(found)) if found else None


@functools.cache
def _shift(degrees: int, level: float) -> float:
    """Return the shift that a one-sided test finds with a power of 0.8, in standard errors."""
    bound = t.isf(level, degrees)
    return float(
        root_scalar(lambda x: nct.sf(bound, degrees, x) - POWER, bracket=(0, 20 * bound)).root
    )


def to_tell_seeds(scale: Scale) -> int | None:
    """Return the further perturbations that would tell the median seed from rounding."""
    found = [
        scale.further(
            runs_to_decide(
                scale.rounding[of["name"]],
                value,
                is_distance=of["kind"] != "metric",
                below=LEVEL / len(scale.measures),
                above=math.inf,
                least=scatter_of_few(scale.rounding[of["name"]], of),
            ),
            scale.rounding,
            of["name"],
        )
        for of, value in _median_seed(scale)
        if len(scale.rounding[of["name"]]) > 1
    ]
    return min((number for number in found if number is not None), default=None)


def _median_seed(scale: Scale) -> list[tuple[Measure, float]]:
    """Return where the median seed is by each measure; by a metric, so far above rounding."""
    found = []
    for of in scale.measures:
        rounding, seeds = scale.rounding[of["name"]], scale.seeds[of["name"]]
        if of["kind"] != "metric" and seeds:
            found.append((of, median(seeds)))
        elif of["kind"] == "metric" and rounding and len(seeds) > 1:
            middle = fmean(rounding)
            found.append((of, middle + median(abs(value - middle) for value in seeds[1:])))
    return found


def seeds_are_no_more(scale: Scale) -> bool:
    """Say whether seeds are shown to move no measure twice as far as rounding does.

    By the upper end of an interval: of a metric of the ratio of both deviations, by the F
    distribution at 5 %; of distances of the ratio of their geometric means, by Welch's at 2.5 %.
    A metric that no run moves shows nothing, neither here nor of the others.
    """
    measures = [of for of in scale.measures if of["name"] not in unmoved(scale)]
    return (
        bool(measures)
        and not _any_broken(scale)[1]
        and all(_ratio_at_most(scale, of) < TWICE for of in measures)
    )


def unmoved(scale: Scale) -> list[str]:
    """Name the metrics of which the reference, perturbations and seeds all have the same value."""
    return [
        of["name"]
        for of in scale.measures
        if of["kind"] == "metric"
        and not scatter([*scale.rounding[of["name"]], *scale.seeds[of["name"]]] or [0.0]).deviation
    ]


def _ratio_at_most(scale: Scale, of: Measure) -> float:
    """Return how many times as far as rounding seeds may move a measure; inf if nobody can say.

    Equal values of a metric that takes few, and counts of a few predictions, are not exact: seeds
    deviate by as much at least as `scatter_of_few` says.
    """
    seeds, rounding = scale.seeds[of["name"]], scale.rounding[of["name"]]
    if len(seeds) < 2 or len(rounding) < 2:
        return math.inf
    first, second = scatter(seeds), scatter(rounding)
    if of["kind"] == "metric":
        if not second.deviation:
            return math.inf
        least = scatter_of_few([*seeds, *rounding], of)
        quantile = f.isf(LEVEL, second.number - 1, first.number - 1)
        return max(first.deviation, least) / second.deviation * math.sqrt(quantile)
    if scale.absorbed and scatter_of_few(rounding, of):
        return math.inf  # of few, those that change nothing are left out of rounding alone
    first, second = (
        replace(found, deviation=max(found.deviation, scatter_of_few(values, of)))
        for found, values in ((first, seeds), (second, rounding))
    )
    difference = welch(first, second)
    if difference is None:  # neither scatters, or both came to nothing
        return from_logarithm(first.mean - second.mean)
    return from_logarithm(difference.interval[1])


def seeds_are_more(scale: Scale) -> bool | None:
    """Say whether other seeds move a result more than rounding does; None where that is undecided.

    By Welch's test of each measure, as often as there are measures. That it is not significant
    shows nothing: see `seeds_are_no_more`.
    """
    found = []
    for measure in scale.measures:
        rounding, seeds = (
            _moved(kind[measure["name"]], measure) for kind in (scale.rounding, scale.seeds)
        )
        if len(rounding) < 2 or len(seeds) < 2:
            continue
        difference = welch(scatter(seeds), scatter(rounding))
        least = 0.0 if measure["kind"] == "metric" else MATTERS
        found.append(1.0 if difference is None or difference.mean < least else difference.p)
    if found and min(found) * len(found) < LEVEL and not _any_broken(scale)[0]:
        return True
    return False if seeds_are_no_more(scale) else None


def _any_broken(scale: Scale) -> tuple[bool, bool]:
    """Say whether a perturbation left any measure no number, and whether a seed did."""
    names = [of["name"] for of in scale.measures]
    rounding, seeds = (
        any(scale.broken(kind, name) for name in names) for kind in (scale.rounding, scale.seeds)
    )
    return rounding, seeds


def _moved(values: Sequence[float], measure: Measure) -> list[float]:
    """Return how far runs moved a measure: of a metric, from the reference, which is the first."""
    if measure["kind"] != "metric":
        return list(values)
    return [abs(value - values[0]) for value in values[1:]]
