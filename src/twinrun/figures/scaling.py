"""What several workers buy: time of an epoch, speed-up and communication over their number."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from twinrun.figures.style import (
    INK,
    MUTED,
    PAPER,
    canvas,
    colour_of,
    empty,
    note,
    shorten,
)
from twinrun.figures.whole_numbers import whole_numbers
from twinrun.formatting import measure, percent
from twinrun.timing import epoch_times
from twinrun.timing.epoch_times import Scaling

DODGE = 0.08  # of the axis between variants with the same number of workers
MARGIN = 0.4  # of the axis at both ends, for the labels


@dataclass(frozen=True, kw_only=True)
class Point:
    """One quantity of one variant."""

    variant: str
    """Name of the variant."""
    workers: int
    """How many workers train under it."""
    value: float
    """Its height, in the unit of the axis."""
    low: float
    """Lower end of its line."""
    high: float
    """Upper end of its line."""
    label: str
    """What stands beside the point."""


def speedup(scaling: str | Path, *, variants: Sequence[str], output: str | Path) -> None:
    """Draw seconds of an epoch, speed-up and share of communication over the workers.

    Args:
        scaling: JSON of the summary.
        variants: all variants of the config, in its order.
        output: path of the SVG.
    """
    summary, title = epoch_times.read(scaling), "One worker and several"
    if not summary["medians"]:
        reason = next((row["reason"] for row in summary["skipped"]), "no epoch was measured")
        empty(output, title=title, reason=reason)
        return
    workers = {row["variant"]: row["workers"] for row in summary["medians"]}
    ends = min(workers.values()), max(workers.values())
    span = max(ends[1] - ends[0], 1)
    with canvas(output, title=title, height=5.9, rows=3, share_x=True) as (figure, grid):
        times, speeds, communication = grid[:, 0]
        _draw(times, _seconds(summary), variants, span)
        times.set_ylabel("seconds an epoch")
        _draw(speeds, _speedups(summary), variants, span)
        if summary["baseline"] in workers:
            # ASSUME that N times as many workers are N times as fast at best.
            ideal = [end / workers[summary["baseline"]] for end in ends]
            speeds.plot(ends, ideal, color=MUTED, linestyle=(0, (4, 2)), linewidth=1.2, zorder=1)
        else:
            # The other panels share the ticks below.
            speeds.set_yticks([])
            note(speeds, f"no baseline: {shorten(summary['baseline'])} was not measured")
        speeds.set_ylabel("speed-up")
        _draw(communication, _communication(summary), variants, span)
        communication.set_ylabel("communication")
        communication.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        communication.set_xlabel("workers (dashed: as many times as fast)")
        whole_numbers(communication.xaxis)
        communication.set_xlim(ends[0] - MARGIN * span, ends[1] + MARGIN * span)
        # Of one panel: a figure's own legend would list each variant three times.
        figure.legend(*times.get_legend_handles_labels(), loc="outside lower left", ncols=3)


def _seconds(summary: Scaling) -> list[Point]:
    return [
        Point(
            variant=row["variant"],
            workers=row["workers"],
            value=row["seconds"],
            low=row["low"],
            high=row["high"],
            label=measure(row["seconds"]),
        )
        for row in summary["medians"]
    ]


def _speedups(summary: Scaling) -> list[Point]:
    """Return the inverse of each time ratio, the baseline's 1 among them."""
    workers = {row["variant"]: row["workers"] for row in summary["medians"]}
    base = summary["baseline"]
    if base not in workers:
        return []
    points = [
        Point(
            variant=ratio["variant"],
            workers=workers[ratio["variant"]],
            value=1 / ratio["time_ratio"],
            # The inverse swaps the ends. Fewer than 7 epochs give no interval: a point alone.
            low=1 / (ratio["high"] or ratio["time_ratio"]),
            high=1 / (ratio["low"] or ratio["time_ratio"]),
            label=f"{measure(1 / ratio['time_ratio'])}\n"
            f"{percent(round(ratio['efficiency'], 2))} of ideal",
        )
        for ratio in summary["ratios"]
    ]
    return [Point(variant=base, workers=workers[base], value=1, low=1, high=1, label="1"), *points]


def _communication(summary: Scaling) -> list[Point]:
    return [
        Point(
            variant=row["variant"],
            workers=row["workers"],
            value=row["communication"],
            low=row["communication"],
            high=row["communication"],
            label=percent(row["communication"]),
        )
        for row in summary["medians"]
    ]


def _draw(axes: Axes, points: Sequence[Point], variants: Sequence[str], span: int) -> None:
    """Draw points with their lines and labels; those of as many workers stand side by side."""
    for point in points:
        same = [other.variant for other in points if other.workers == point.workers]
        shift = same.index(point.variant) - (len(same) - 1) / 2
        x, colour = point.workers + DODGE * span * shift, colour_of(point.variant, variants)
        axes.vlines(x, point.low, point.high, color=colour, linewidth=2.5)
        axes.plot(x, point.value, "o", color=colour, markersize=8, label=point.variant, zorder=3)
        axes.annotate(
            point.label,
            (x, point.value),
            xytext=(9 if shift >= 0 else -9, 0),
            textcoords="offset points",
            ha="left" if shift >= 0 else "right",
            va="center",
            color=INK,
            bbox={"facecolor": PAPER, "edgecolor": "none", "pad": 1},
        )
    # One worker exchanges nothing: without 1e-3 the axis would go from 0 to 0.
    axes.set_ylim(0, 1.25 * max([point.high for point in points] + [1e-3]))
