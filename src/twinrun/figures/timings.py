"""What variants of a workload cost: the rounds of a timing, and the ratios with their intervals."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from twinrun import artifacts
from twinrun.figures.style import INK, MUTED, PAPER, canvas, colour_of, empty, note_alone, shorten
from twinrun.formatting import measure
from twinrun.timing import summary
from twinrun.timing.summary import Ratio, TimingSummary


def read_timing(timing: str | Path) -> tuple[TimingSummary, pd.DataFrame]:
    """Return a timing's summary and its rounds, with the `milliseconds` of a step.

    Args:
        timing: JSON of the timing; the table of rounds lies beside it.
    """
    rounds = artifacts.read_csv(
        Path(timing).with_suffix(".csv"), ["variant", "phase", "round", "steps", "seconds"]
    )
    milliseconds = 1e3 * rounds["seconds"] / rounds["steps"]
    return summary.read(timing), rounds.assign(milliseconds=milliseconds)


def why_nothing_measured(found: TimingSummary) -> str:
    """Say why a timing has no rounds to draw."""
    reasons = [f"{row['variant']}: {row['reason']}" for row in found["skipped"]]
    return next(iter(reasons), "no variant was measured")


def quartiles(table: pd.DataFrame, by: str) -> pd.DataFrame:
    """Return the quartiles of the milliseconds: columns `low`, `middle`, `high`, index `by`."""
    # sort=False keeps the order of the rounds; by name, variants would change places.
    groups = table.groupby(by, sort=False)["milliseconds"]
    return pd.DataFrame(
        {"low": groups.quantile(0.25), "middle": groups.median(), "high": groups.quantile(0.75)}
    )


def cost(timing: str | Path, *, variants: Sequence[str], output: str | Path) -> None:
    """Draw the seconds of a training step round by round, and the ratios to the baseline.

    Args:
        timing: JSON of the timing; the table of rounds lies beside it.
        variants: all variants of the config, in its order.
        output: path of the SVG.
    """
    found, rounds = read_timing(timing)
    rounds = rounds.query("phase == 'train'")
    measured = list(rounds["variant"].unique())
    ratios = [ratio for ratio in found["ratios"] if ratio["phase"] == "train"]
    title = "Time of a training step"
    if not measured:
        empty(output, title=title, reason=why_nothing_measured(found))
        return
    # Without any ratio the panel keeps a row, for the note that says why.
    heights = [len(measured), max(len(ratios), 1)]
    height = 1.5 + 0.45 * sum(heights)
    with canvas(output, title=title, height=height, rows=2, row_heights=heights) as (_, grid):
        _draw_rounds(grid[0, 0], rounds, measured, variants)
        _draw_ratios(grid[1, 0], ratios, found["baseline"], variants)
        if found["baseline"] not in measured:
            note_alone(grid[1, 0], f"no baseline: {shorten(found['baseline'])} was not measured")
        elif not ratios:
            note_alone(grid[1, 0], "no second variant was measured")


def _draw_rounds(
    axes: Axes, rounds: pd.DataFrame, measured: Sequence[str], variants: Sequence[str]
) -> None:
    """Draw a row of points for each variant, the first round on top."""
    for row, variant in enumerate(measured):
        times = rounds.loc[rounds["variant"] == variant, "milliseconds"]
        # In the order of time: a machine that became slower shows as a slant.
        heights = np.linspace(row - 0.25, row + 0.25, len(times))
        axes.scatter(times, heights, s=18, color=colour_of(variant, variants), linewidth=0)
        axes.vlines(times.median(), row - 0.36, row + 0.36, color=INK, linewidth=2, zorder=5)
    axes.set_ylim(len(measured) - 0.5, -0.5)
    axes.set_yticks(range(len(measured)), measured)
    axes.set_xlabel("milliseconds a step (points: rounds; line: median)")


def _draw_ratios(
    axes: Axes, ratios: Sequence[Ratio], baseline: str, variants: Sequence[str]
) -> None:
    """Draw a point and its interval for each variant but the baseline."""
    axes.axvline(1, color=MUTED, linewidth=1.5)
    axes.set_ylim(max(len(ratios), 1) - 0.5, -0.5)
    axes.set_yticks(range(len(ratios)), [ratio["variant"] for ratio in ratios])
    axes.set_xlabel(f"time relative to {baseline} (line: 95% interval)")
    for row, ratio in enumerate(ratios):
        colour = colour_of(ratio["variant"], variants)
        # Of fewer than 6 rounds there is no interval, and the point stands alone.
        if ratio["low"] is not None and ratio["high"] is not None:
            axes.hlines(row, ratio["low"], ratio["high"], color=colour, linewidth=2.5)
        axes.plot(ratio["time_ratio"], row, marker="o", color=colour, markersize=8)
        axes.annotate(
            measure(ratio["time_ratio"]),
            (ratio["time_ratio"], row),
            xytext=(0, 8),
            textcoords="offset points",
            ha="center",
            bbox={"facecolor": PAPER, "edgecolor": "none", "pad": 1},
        )
