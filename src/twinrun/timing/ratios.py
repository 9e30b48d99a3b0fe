"""From the rounds of a timing to medians and ratios.

Variants are measured in turn within each round, so a round is a pair: the time ratio of a variant
is the median over the rounds of its seconds per step divided by the baseline's in the same round.
What slows a whole round down, slows both and cancels. The interval goes from one of the rounds'
ratios to another one (see `rank_of_interval`), and there is none of too few rounds. Of uneven
mini-batches the ratio is that of all rounds together: see `uneven`.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from twinrun.timing.summary import Extent, Interval, Median, Overhead, Ratio
from twinrun.timing.uneven import over_all, uneven_in

CONFIDENCE = 0.95
ONCE = ("transfer", "first_call")  # measured once, not in rounds
UNSTABLE_IQR_SHARE = 0.1  # torch.utils.benchmark warns from the same share on


def medians(rounds: pd.DataFrame, extents: Sequence[Extent] = ()) -> list[Median]:
    """Summarise each variant, size and phase.

    Args:
        rounds: the rows of a timing (columns variant, device, size, phase, steps, seconds).
        extents: of the timing, which say where mini-batches are uneven.

    Returns:
        A row for each group, in the order of their first rounds.
    """
    rows: list[Median] = []
    groups = ["variant", "device", "size", "phase"]
    # dropna: a timing without sizes has none in this column, and pandas would leave its rows out.
    for (variant, device, size, phase), group in rounds.groupby(groups, sort=False, dropna=False):
        # A round repeats its steps until it is long enough, so rounds differ in their number.
        seconds = (group.seconds / group.steps).to_numpy()
        low, middle, high = np.quantile(seconds, [0.25, 0.5, 0.75])
        iqr_share = float((high - low) / middle)
        if uneven_in(extents, _size(size), phase):
            middle = group.seconds.sum() / group.steps.sum()
        rows.append(
            {
                "variant": variant,
                "device": device,
                "size": _size(size),
                "phase": phase,
                "seconds_per_step": float(middle),
                "iqr_share": iqr_share,
                "rounds": len(group),
                "steps": int(group.steps.sum()),
                "unstable": iqr_share > UNSTABLE_IQR_SHARE,
            }
        )
    return rows


def ratios(rounds: pd.DataFrame, baseline: str, extents: Sequence[Extent] = ()) -> list[Ratio]:
    """Compare each variant with the baseline, per size and phase.

    Args:
        rounds: the rows of a timing.
        baseline: what each variant is compared with.
        extents: of the timing, which say where mini-batches are uneven.

    Returns:
        A row for each variant but the baseline. Sizes that the baseline lacks are left out, and so
        is what is measured only once.
    """
    rows: list[Ratio] = []
    steady = rounds[~rounds.phase.isin(ONCE)]
    for (size, phase), group in steady.groupby(["size", "phase"], sort=False, dropna=False):
        # A variant that failed has left no row at all, so no round lacks one of a pair.
        pairs = group.assign(seconds=group.seconds / group.steps).pivot(
            index="round", columns="variant", values="seconds"
        )
        # The baseline failed at this size, or was skipped.
        if baseline not in pairs:
            continue
        for variant in group.variant.unique():
            if variant != baseline:
                key = _size(size), phase
                found = _paired(group, pairs[variant], pairs[baseline], extents, *key)
                rows.append({"variant": variant, "size": key[0], "phase": phase, **found})
    return rows


def overheads(rounds: pd.DataFrame, extents: Sequence[Extent] = ()) -> list[Overhead]:
    """Compare each variant's step through the Trainer with its own bare step, per size.

    Only the rounds count that measured both. For the arguments see `ratios`.
    """
    rows: list[Overhead] = []
    both = rounds[rounds.phase.isin(["train", "trainer"])]
    groups = both.groupby(["variant", "size"], sort=False, dropna=False)
    for (variant, size), group in groups:
        pairs = group.assign(seconds=group.seconds / group.steps).pivot(
            index="round", columns="phase", values="seconds"
        )
        if {"train", "trainer"} <= set(pairs.columns):
            # Rounds without the Trainer have NaN in its column.
            pairs, key = pairs.dropna(), (_size(size), "train")
            found = _paired(group, pairs["trainer"], pairs["train"], extents, *key)
            rows.append({"variant": variant, "size": key[0], **found})
    return rows


def _paired(
    group: pd.DataFrame,
    own: pd.Series,
    base: pd.Series,
    extents: Sequence[Extent],
    size: int | None,
    phase: str,
) -> Interval:
    """Return the ratio of the seconds per step of paired rounds, given by the round's number."""
    found, uneven = interval((own / base).to_numpy()), uneven_in(extents, size, phase)
    if uneven is None:
        return found
    # All variants, with and without the Trainer, do as many steps in a round.
    steps = group.groupby("round").steps.first().loc[own.index]
    return over_all(found, (own * steps).to_numpy(), (base * steps).to_numpy(), uneven)


def interval(values: np.ndarray) -> Interval:
    """Return the median of (R,) paired ratios and its 95 % interval; of fewer than 6 rounds none.

    >>> interval(np.array([2.0, 2.1, 2.2, 2.3, 2.4, 2.5]))
    {'time_ratio': 2.25, 'low': 2.0, 'high': 2.5}
    >>> interval(np.array([2.0, 2.0]))
    {'time_ratio': 2.0, 'low': None, 'high': None}
    """
    low, high = median_interval(values, CONFIDENCE) or (None, None)
    return {"time_ratio": float(np.median(values)), "low": low, "high": high}


def median_interval(values: np.ndarray, confidence: float) -> tuple[float, float] | None:
    """Return an interval that holds the median of what (N,) independent values are drawn from.

    Whatever the distribution; None if there are too few values for this confidence.
    """
    rank = rank_of_interval(len(values), confidence)
    if rank is None:
        return None
    ordered = np.sort(values)
    return float(ordered[rank - 1]), float(ordered[-rank])


def rank_of_interval(number: int, confidence: float) -> int | None:
    """Return the largest k for which the k-th smallest to the k-th largest value is an interval.

    The number of independent values below the true median is binomial, (number, 1/2), so the
    interval misses the median with twice the probability that this number is below k. See
    W. J. Conover, Practical Nonparametric Statistics, on confidence intervals for a quantile. A
    bootstrap of the median, in contrast, covers 49 % of the time with two values, 84 % with four.

    >>> [rank_of_interval(number, 0.95) for number in (5, 6, 12, 24)]
    [None, 1, 3, 7]
    """
    # ASSUME that rounds are independent: what lasts for several rounds must slow both variants.
    k = np.arange(1, number + 1)
    # In logarithms: beyond a thousand rounds a binomial coefficient is no float64 any more.
    logs = np.concatenate([[0.0], np.cumsum(np.log((number - k + 1) / k))]) - number * np.log(2)
    below = np.cumsum(np.exp(logs))  # at k: the probability of at most k values below the median
    # `below` grows with k, so the count is the largest k. Of 0 even the whole range is too narrow.
    return int(np.count_nonzero(below <= (1 - confidence) / 2)) or None


def exponents(sizes: np.ndarray, seconds: np.ndarray) -> Iterator[float]:
    """Yield the growth of time with size between neighbours: seconds ~ size ** exponent.

    About 0 where a fixed cost for each step dominates, about 1 where the points do.

    Args:
        sizes: (S,) ascending.
        seconds: (S,) per step.
    """
    # Between neighbours, not one line through all: where a fixed cost ends, the slope changes.
    slopes = np.diff(np.log(seconds)) / np.diff(np.log(sizes))
    yield from map(float, slopes)


def _size(value: float | None) -> int | None:
    """Return a size as JSON can hold it: a group's key is a NumPy number, or NaN for no size."""
    return None if value is None or np.isnan(value) else int(value)
