"""What a device buys: the time of a step over its size."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes

from twinrun.figures.style import INK, MUTED, PAPER, canvas, colour_of, dashes_of, empty, log_axis
from twinrun.figures.timings import quartiles, read_timing, why_nothing_measured
from twinrun.formatting import count
from twinrun.timing.crossings import crossing


def sizes(timing: str | Path, *, variants: Sequence[str], output: str | Path) -> None:
    """Draw the milliseconds of a training step over the size, and where the lines cross.

    Args:
        timing: JSON of the timing; the table of rounds lies beside it.
        variants: all variants of the config, in its order.
        output: path of the SVG.
    """
    summary, rounds = read_timing(timing)
    rounds = rounds.query("phase == 'train'")
    title = "Time of a training step"
    if rounds.empty:
        empty(output, title=title, reason=why_nothing_measured(summary))
        return
    with canvas(output, title=title, height=3.4) as (figure, grid):
        axes = grid[0, 0]
        for variant, times in rounds.groupby("variant", sort=False):
            _draw_growth(axes, str(variant), times, variants)
        axes.set(xlabel=summary["settings"]["timing"].size, ylabel="milliseconds a step")
        # Both logarithmic: time ~ size^k is a straight line of slope k, and crossings stay visible.
        for axis in (axes.xaxis, axes.yaxis):
            log_axis(axis)
        # ASSUME straight lines between sizes: a crossing may lie where nothing was measured.
        for row in crossing(summary):
            if row["crossover"] is not None:
                _draw_crossover(axes, row["variant"], row["crossover"])
        figure.legend(loc="outside lower left", ncols=3)


def _draw_growth(axes: Axes, variant: str, times: pd.DataFrame, variants: Sequence[str]) -> None:
    """Draw the median of a variant over the size, and the middle half of its rounds."""
    spread, colour = quartiles(times, "size").sort_index(), colour_of(variant, variants)
    axes.fill_between(
        spread.index, spread["low"], spread["high"], color=colour, alpha=0.25, linewidth=0
    )
    axes.plot(
        spread.index,
        spread["middle"],
        label=variant,
        linewidth=2,
        color=colour,
        linestyle=dashes_of(variant, variants),
        marker="o",
    )


def _draw_crossover(axes: Axes, variant: str, size: float) -> None:
    axes.axvline(size, color=MUTED, linewidth=1.2, linestyle=(0, (4, 2)))
    axes.annotate(
        f"{variant} faster from {count(round(size))} on",
        (size, 0.96),
        xycoords=("data", "axes fraction"),
        xytext=(4, 0),
        textcoords="offset points",
        va="top",
        color=INK,
        # Over lines of the grid a label needs paper of its own, which a page may colour.
        bbox={"facecolor": PAPER, "edgecolor": "none", "pad": 1},
    )
