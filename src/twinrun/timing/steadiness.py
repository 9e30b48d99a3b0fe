"""What a ratio of times shows in spite of how unsteady the clock was.

Where the rounds behind a ratio are unstable, its interval is widened by their spread before it says
anything: on a machine with neighbours a factor of three is still one, and a tenth is not. Verdicts,
the steps after which a variant pays and the size from which on it is faster rest on this alone, so
that no two of them contradict each other.
"""

from collections.abc import Sequence
from typing import TypedDict

from twinrun.timing.ratio_words import Effect, effect_of
from twinrun.timing.summary import Interval, Median, Ratio, TimingSummary


class Steadiness(TypedDict):
    """How steady a measurement was; of the records of a timing and of epochs, what both have."""

    variant: str
    """The variant that was measured."""
    iqr_share: float
    """The interquartile range of its rounds or epochs as a share of their median."""
    unstable: bool
    """Whether that share is too large."""


def clear_effect(ratio: Interval, medians: Sequence[Steadiness]) -> Effect:
    """Say what a ratio shows, its interval widened by the spread of what it rests on.

    Args:
        ratio: of two measurements.
        medians: of the two.
    """
    return effect_of(widened(ratio, medians))


def spread(medians: Sequence[Steadiness]) -> float:
    """Return the largest interquartile range, as a share of its median, of what is unstable."""
    # ASSUME the rounds are steady below the limit of `unstable`: their spread widens nothing.
    return max((median["iqr_share"] for median in medians if median["unstable"]), default=0.0)


def widened(ratio: Interval, medians: Sequence[Steadiness]) -> Interval:
    """Widen the interval of a ratio by the spread of what it rests on."""
    factor, low, high = 1 + spread(medians), ratio["low"], ratio["high"]
    if low is None or high is None:
        return ratio
    # Divided and multiplied, so that a ratio and its inverse are widened alike.
    return {"time_ratio": ratio["time_ratio"], "low": low / factor, "high": high * factor}


def medians_behind(timing: TimingSummary, ratio: Ratio) -> list[Median]:
    """Return the medians behind a ratio: the variant's, then the baseline's."""
    return [
        median_of(timing, variant, ratio["phase"], ratio["size"])
        for variant in (ratio["variant"], timing["baseline"])
    ]


def median_of(timing: TimingSummary, variant: str, phase: str, size: int | None) -> Median:
    """Return the median of a variant in a phase, at a size."""
    # There always is one: a ratio is made of the rounds of both.
    return next(
        median
        for median in timing["medians"]
        if (median["variant"], median["phase"], median["size"]) == (variant, phase, size)
    )
