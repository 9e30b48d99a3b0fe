"""Timings whose mini-batches are not of one size: what a round is not enough to say.

A round has a few steps, and the ratio of the median round is that of ordinary mini-batches. Where
some are far larger, most of an epoch's time may be theirs, and a variant that is slow in ordinary
ones may be done with the epoch first. So the ratio of such a timing is that of all rounds together,
and its interval holds the one of the median round as well: a direction is named only where both
show it.
"""

import math
from collections.abc import Collection, Sequence

import numpy as np
from scipy.special import stdtrit

from twinrun.timing.summary import Extent, Interval, Uneven

LARGER = 1.25  # than the middle one, by the largest: ragged ends and a smaller last one are less
# ASSUME that time grows with the size at most as its square, as attention does. Of squares, so
# much in mini-batches larger than all that were measured leaves their time unknown.
UNKNOWN_SHARE = 0.1


def unevenness(sizes: Sequence[int], measured: Collection[int]) -> Uneven | None:
    """Say how far mini-batches are from one size; None where they are not, or none was measured.

    Args:
        sizes: elements of each that goes round.
        measured: positions of those that the rounds came to.

    >>> unevenness([2, 2, 40, 2], [0, 1]), unevenness([2, 2, 1], [0, 1, 2])
    ({'times': 20.0, 'unmeasured': 1}, None)
    """
    if not sizes or not measured:
        return None
    seen = [sizes[position] for position in measured]
    times = max(sizes) / max(1.0, float(np.median(seen)))
    if times <= LARGER:
        return None
    larger = [size for size in sizes if size > LARGER * max(seen)]
    share = sum(size**2 for size in larger) / sum(size**2 for size in sizes)
    return {"times": times, "unmeasured": len(larger) if share > UNKNOWN_SHARE else 0}


def positions(start: int, steps: int, number: int) -> set[int]:
    """Return which of some batches that go round are given in steps that begin with one.

    >>> positions(29, 2, 30)
    {0, 29}
    """
    return {(start + step) % number for step in range(min(steps, number))}


def uneven_in(extents: Sequence[Extent], size: int | None, phase: str) -> Uneven | None:
    """Return what is known of the mini-batches of a phase at a size; None where they are even."""
    of = "train" if phase == "trainer" else phase
    for extent in extents:
        if extent["size"] == size and "uneven" in extent:
            return extent["uneven"].get(of)
    return None


def over_all(of_rounds: Interval, own: np.ndarray, base: np.ndarray, uneven: Uneven) -> Interval:
    """Return the ratio of all rounds together, with an interval that holds that of the rounds.

    Its own 95 % interval is that of a ratio estimator on a logarithmic axis, with Student's t (W.
    G. Cochran, Sampling Techniques, chapter 6); there is none where the largest were not measured.

    Args:
        of_rounds: the median of the ratios of each round, with its interval.
        own: (R,) seconds of the rounds of a variant.
        base: (R,) seconds of the same rounds of what it is compared with.
        uneven: what is known of the mini-batches.
    """
    ratio, rounds = float(own.sum() / base.sum()), len(own)
    found: Interval = {"time_ratio": ratio, "low": None, "high": None}
    found["uneven"] = {**uneven, "of_rounds": of_rounds["time_ratio"]}
    low, high = of_rounds["low"], of_rounds["high"]
    if low is None or high is None or uneven["unmeasured"] or not ratio > 0:
        return found
    squares = float(((own - ratio * base) ** 2).sum())
    error = math.sqrt(squares * rounds / (rounds - 1)) / float(own.sum())
    factor = math.exp(float(stdtrit(rounds - 1, 0.975)) * error)
    return {**found, "low": min(low, ratio / factor), "high": max(high, ratio * factor)}
