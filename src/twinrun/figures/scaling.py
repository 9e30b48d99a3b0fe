"""What several workers buy: time of an epoch, speed-up and exchange against their number."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, PercentFormatter

from twinrun.artifacts import read_json
from twinrun.figures.style import INK, MUTED, PAPER, canvas, colour_of
from twinrun.formatting import measure, percent

DODGE = 0.08  # of the axis between variants with the same number of workers
MARGIN = 0.4  # of the axis at both ends, for the labels


def speedup(scaling: str | Path, *, variants: Sequence[str], output: str | Path) -> None:
    """Draw seconds of an epoch, speed-up and share of communication over the workers.

    Args:
        scaling: JSON of the summary.
        variants: all variants of the config, in its order.
        output: path of the SVG.
    """
    summary = read_json(scaling)
    points = _points(summary)
    title = "One worker and several"
    with canvas(output, title=title, height=5.9, rows=3, sharex=True) as (figure, grid):
        figure.suptitle(title, x=0.01, ha="left")
        times, speeds, shares = grid[:, 0]
        _draw(times, points, "seconds", [measure(s) for s in points["seconds"]], variants)
        times.set_ylabel("seconds an epoch")
        labels = [
            "1" if row.variant == summary["baseline"] else f"{measure(row.speedup)}\n{_share(row)}"
            for row in points.itertuples()
        ]
        _draw(speeds, points, "speedup", labels, variants)
        ends = [points["workers"].min(), points["workers"].max()]
        ideal = [end / _workers(summary, summary["baseline"]) for end in ends]
        speeds.plot(ends, ideal, color=MUTED, linestyle=(0, (4, 2)), linewidth=1.2, zorder=1)
        speeds.set_ylabel("speed-up")
        _draw(shares, points, "communication", map(percent, points["communication"]), variants)
        shares.set_ylabel("communication")
        shares.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        shares.set_xlabel("workers (dashed: as many times as fast)")
        shares.xaxis.set_major_locator(MaxNLocator(integer=True))
        margin = MARGIN * _span(points)
        shares.set_xlim(ends[0] - margin, ends[1] + margin)
        handles, names = times.get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower left", ncols=3)


def _points(summary: Mapping[str, Any]) -> pd.DataFrame:
    """Give a row for each variant: where it stands, and each quantity with its ends."""
    table = pd.DataFrame(summary["medians"])
    ratios = {ratio["variant"]: ratio for ratio in summary["ratios"]}
    same = {"time_ratio": 1.0, "low": 1.0, "high": 1.0, "efficiency": 1.0}
    found = [ratios.get(variant, same) for variant in table["variant"]]
    place = table.groupby("workers").cumcount()
    number = table.groupby("workers")["variant"].transform("size")
    return table.assign(
        x=table["workers"] + DODGE * _span(table) * (place - (number - 1) / 2),
        seconds_low=table["low"],
        seconds_high=table["high"],
        speedup=[1 / ratio["time_ratio"] for ratio in found],
        speedup_low=[1 / ratio["high"] for ratio in found],
        speedup_high=[1 / ratio["low"] for ratio in found],
        efficiency=[ratio["efficiency"] for ratio in found],
        communication_low=table["communication"],
        communication_high=table["communication"],
    )


def _span(table: pd.DataFrame) -> int:
    return max(table["workers"].max() - table["workers"].min(), 1)


def _workers(summary: Mapping[str, Any], variant: str) -> int:
    return next(row["workers"] for row in summary["medians"] if row["variant"] == variant)


def _share(row: Any) -> str:
    return f"{percent(round(row.efficiency, 2))} of ideal"


def _draw(
    axes: Axes,
    points: pd.DataFrame,
    quantity: str,
    labels: Any,
    variants: Sequence[str],
) -> None:
    for row, label in zip(points.to_dict("records"), labels, strict=True):
        colour, value = colour_of(row["variant"], variants), row[quantity]
        ends = row[f"{quantity}_low"], row[f"{quantity}_high"]
        axes.vlines(row["x"], *ends, color=colour, linewidth=2.5)
        axes.plot(row["x"], value, "o", color=colour, markersize=8, label=row["variant"], zorder=3)
        is_right = row["x"] >= row["workers"]
        axes.annotate(
            label,
            (row["x"], value),
            xytext=(9 if is_right else -9, 0),
            textcoords="offset points",
            ha="left" if is_right else "right",
            va="center",
            color=INK,
            bbox={"facecolor": PAPER, "edgecolor": "none", "pad": 1},
        )
    axes.set_ylim(0, 1.25 * max(points[f"{quantity}_high"].max(), 1e-3))
