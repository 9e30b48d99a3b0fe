"""From the rounds of a timing to medians and ratios.

Variants are measured in turn within each round, so a round is a pair: the time ratio of a variant
is the median over the rounds of its seconds per step divided by the yardstick's in the same round.
What slows a whole round down, slows both and cancels. The interval is the 2.5 % to 97.5 % range of
that median when the rounds are drawn again with replacement (paired percentile bootstrap).
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

RESAMPLES = 9999
ONCE = ("transfer", "first_call")  # measured once, not in rounds
UNSTABLE_IQR_SHARE = 0.1  # torch.utils.benchmark warns from the same share on


def medians(rounds: pd.DataFrame) -> list[dict[str, Any]]:
    """Summarise each variant, size and phase.

    Args:
        rounds: the rows of a timing (columns variant, device, size, phase, steps, seconds).

    Returns:
        Per group the median of seconds per step, the interquartile range as a share of it, and
        whether that share is so large that something else disturbed the measurement.
    """
    rows = []
    groups = ["variant", "device", "size", "phase"]
    for (variant, device, size, phase), group in rounds.groupby(groups, sort=False, dropna=False):
        seconds = (group.seconds / group.steps).to_numpy()
        low, middle, high = np.quantile(seconds, [0.25, 0.5, 0.75])
        iqr_share = float((high - low) / middle)
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


def ratios(rounds: pd.DataFrame, yardstick: str) -> list[dict[str, Any]]:
    """Hold each variant against the yardstick, per size and phase.

    Returns:
        Rows with `time_ratio` (above 1: slower than the yardstick), `low` and `high`. Sizes that
        the yardstick lacks are left out, and so is what is measured only once.
    """
    rows = []
    steady = rounds[~rounds.phase.isin(ONCE)]
    for (size, phase), group in steady.groupby(["size", "phase"], sort=False, dropna=False):
        pairs = group.assign(seconds=group.seconds / group.steps).pivot(
            index="round", columns="variant", values="seconds"
        )
        if yardstick not in pairs:
            continue
        for variant in group.variant.unique():
            if variant != yardstick:
                values = (pairs[variant] / pairs[yardstick]).to_numpy()
                identity = {"variant": variant, "size": _size(size), "phase": phase}
                rows.append(identity | interval(values))
    return rows


def overheads(rounds: pd.DataFrame) -> list[dict[str, Any]]:
    """Hold each variant's step through the Trainer against its own bare step, per size.

    Only of the rounds that measured both.

    Returns:
        Rows with `time_ratio`, `low` and `high`.
    """
    rows = []
    both = rounds[rounds.phase.isin(["train", "trainer"])]
    groups = both.groupby(["variant", "size"], sort=False, dropna=False)
    for (variant, size), group in groups:
        pairs = group.assign(seconds=group.seconds / group.steps).pivot(
            index="round", columns="phase", values="seconds"
        )
        if {"train", "trainer"} <= set(pairs.columns):
            values = (pairs["trainer"] / pairs["train"]).dropna().to_numpy()
            rows.append({"variant": variant, "size": _size(size)} | interval(values))
    return rows


def interval(values: np.ndarray) -> dict[str, float]:
    """Give the median of (R,) paired ratios and its bootstrap interval, always the same for them.

    >>> interval(np.array([2.0, 2.0, 2.0]))
    {'time_ratio': 2.0, 'low': 2.0, 'high': 2.0}
    """
    generator = np.random.default_rng(0)
    drawn = generator.integers(len(values), size=(RESAMPLES, len(values)))
    low, high = np.quantile(np.median(values[drawn], axis=1), [0.025, 0.975])
    return {"time_ratio": float(np.median(values)), "low": float(low), "high": float(high)}


def crossover(sizes: np.ndarray, ratios: np.ndarray) -> float | None:
    """Find the size from which on a variant is faster than the yardstick.

    Args:
        sizes: (S,) ascending.
        ratios: (S,) time ratios, variant / yardstick.

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
    return float(np.exp(x[0] - y[0] * (x[1] - x[0]) / (y[1] - y[0])).round(6))


def crossing(summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Say of each variant of a timing with sizes from which on it is faster than the yardstick.

    Returns:
        A row for each variant that was held against the yardstick: `variant`, `crossover`.
    """
    found: dict[str, list[tuple[float, float]]] = {}
    for ratio in summary["ratios"]:
        if ratio["phase"] == "train":
            point = (ratio["size"], ratio["time_ratio"])
            found.setdefault(ratio["variant"], []).append(point)
    return [
        {"variant": variant, "crossover": crossover(*np.array(sorted(points)).T)}
        for variant, points in found.items()
    ]


def exponents(sizes: np.ndarray, seconds: np.ndarray) -> Iterator[float]:
    """Give the growth of time with size between neighbours: seconds ~ size ** exponent.

    About 0 where a fixed cost for each step dominates, about 1 where the points do.
    """
    slopes = np.diff(np.log(seconds)) / np.diff(np.log(sizes))
    yield from map(float, slopes)


def _size(value: Any) -> Any:
    """Give a size as JSON can hold it: a group's key is a NumPy number, or NaN for no size."""
    if pd.isna(value):
        return None
    return value.item() if isinstance(value, np.generic) else value
