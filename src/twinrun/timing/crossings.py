"""From which size on a variant is faster than the baseline, by what the verdicts say of each size.

A size at which nothing can be said, since the clock was unstable or a variant failed there, is not
passed over: what is faster from a size on was faster at every larger one that was asked for.
"""

from collections.abc import Mapping
from typing import Literal, TypedDict

import numpy as np

from twinrun.timing.ratio_words import Effect
from twinrun.timing.steadiness import clear_effect, medians_behind
from twinrun.timing.summary import Ratio, TimingSummary

Known = Literal[
    "faster", "slower", "no difference that matters", "undecided", "not run", "not comparable"
]
KNOWN_BY: Mapping[Effect, Known] = {
    "faster": "faster",
    "slower": "slower",
    "no difference that matters": "no difference that matters",
    "no difference measured": "undecided",
    "too few measurements": "undecided",
}


class Crossing(TypedDict):
    """From which size on a variant is faster than the baseline."""

    variant: str
    """The variant, never the baseline."""
    crossover: float | None
    """The size; None if the variant is not measured to be faster at the largest size."""
    sizes: dict[Known, list[int]]
    """What is known of each size, ascending: those of which the same is known."""


def crossing(summary: TimingSummary) -> list[Crossing]:
    """Find for each variant of a timing with sizes from which on it is faster than the baseline."""
    # ASSUME who asks for a size asks about training: prediction may cross at another one.
    rows = [row for row in summary["medians"] if row["phase"] == "train"]
    rows += [row for row in summary["skipped"] if row["phase"] in (None, "train")]
    sizes = sorted({row["size"] for row in rows if row["size"] is not None})
    names = dict.fromkeys(row["variant"] for row in rows if row["variant"] != summary["baseline"])
    return [_of_variant(summary, name, sizes) for name in names] if sizes else []


def _of_variant(summary: TimingSummary, variant: str, sizes: list[int]) -> Crossing:
    ratios = {
        ratio["size"]: ratio
        for ratio in summary["ratios"]
        if (ratio["phase"], ratio["variant"]) == ("train", variant)
    }
    known = {size: _known(summary, variant, size, ratios.get(size)) for size in sizes}
    by_answer: dict[Known, list[int]] = {}
    for size, answer in known.items():
        by_answer.setdefault(answer, []).append(size)
    times = {size: ratios[size]["time_ratio"] for size in sizes if size in ratios}
    return {
        "variant": variant,
        "crossover": _measured_crossover(known, times),
        "sizes": by_answer,
    }


def _known(summary: TimingSummary, variant: str, size: int, ratio: Ratio | None) -> Known:
    """Say what is known of a variant at a size, in the words of its verdict."""
    if ratio is not None:
        return KNOWN_BY[clear_effect(ratio, medians_behind(summary, ratio))]
    is_skipped = any(
        (row["variant"], row["size"]) == (variant, size) and row["phase"] in (None, "train")
        for row in summary["skipped"]
    )
    # Else it ran, and the baseline did not.
    return "not run" if is_skipped else "not comparable"


def _measured_crossover(known: Mapping[int, Known], times: Mapping[int, float]) -> float | None:
    """Find the size from which on a variant is measured to be faster.

    Args:
        known: what is known of each size, ascending.
        times: time ratios of the sizes that have one.
    """
    sizes = list(known)
    unproven = [size for size in sizes if known[size] != "faster"]
    if not unproven:
        return float(sizes[0])
    last = unproven[-1]
    proven = sizes[sizes.index(last) + 1 :]
    if not proven:
        return None
    # Straight lines need a point at 1 or above. One of which nothing is known is none, and one may
    # lie below 1 by nothing that matters.
    is_point = known[last] in ("slower", "no difference that matters")
    if not is_point or times[last] < 1:
        return float(proven[0])
    around = [last, *proven]
    return crossover(np.array(around), np.array([times[size] for size in around]))


def crossover(sizes: np.ndarray, ratios: np.ndarray) -> float | None:
    """Find the size from which on a variant is faster than the baseline.

    Args:
        sizes: (S,) ascending.
        ratios: (S,) time ratios, variant / baseline.

    Returns:
        The size at which the ratio falls below 1 for good, on straight lines between the points
        with both axes logarithmic; the smallest size if it is always below; None if it is not
        below 1 at the largest size.

    >>> crossover(np.array([100, 10000]), np.array([10.0, 0.1]))
    1000.0
    """
    above = np.flatnonzero(ratios >= 1)
    if len(above) == 0:
        return float(sizes[0])
    last = above[-1]
    if last == len(sizes) - 1:
        return None
    x, y = np.log(sizes[last : last + 2]), np.log(ratios[last : last + 2])
    # Rounded, since exp and log do not quite undo each other: 1000 comes as 1000.0000000000007.
    return float(np.exp(x[0] - y[0] * (x[1] - x[0]) / (y[1] - y[0])).round(6))
