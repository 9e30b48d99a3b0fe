"""What a device buys: the time of a step over its size, and the surfaces the networks fitted."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import Normalize

from twinrun.artifacts import read_tensors
from twinrun.figures.style import INK, MUTED, PAPER, canvas, colour_of, dashes_of, log_axis, note
from twinrun.figures.timings import quartiles, read_timing
from twinrun.formatting import count, measure
from twinrun.run_files import read_run
from twinrun.timing.ratios import crossing


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
    with canvas(output, title=title, height=3.4) as (figure, grid):
        axes = grid[0, 0]
        for variant, times in rounds.groupby("variant", sort=False):
            _draw_growth(axes, str(variant), times, variants)
        axes.set(xlabel=summary["settings"]["timing"]["size"], ylabel="milliseconds a step")
        if rounds.empty:
            note(axes, "no variant could be measured")
            return
        for axis in (axes.xaxis, axes.yaxis):
            log_axis(axis)
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
        bbox={"facecolor": PAPER, "edgecolor": "none", "pad": 1},
    )


def surfaces(runs: Sequence[str | Path], *, output: str | Path) -> None:
    """Draw the target and what each run's network makes of it, on one colour scale.

    Args:
        runs: run.json of runs of one workload and seed; the predictions lie beside each, `z` and
            `target` (N,) of the points of a square grid, x1 varying fastest.
        output: path of the SVG.
    """
    pictures = []
    for run in runs:
        variant = read_run(run, "predictions.safetensors")["variant"]
        found = read_tensors(Path(run).with_name("predictions.safetensors"))
        if "z" not in found:  # a run that failed has predicted nothing
            continue
        label = f"{variant}\nRMSE {measure(rmse(found['z'], found['target']))}"
        pictures = pictures or [("target", _square(found["target"]))]
        pictures.append((label, _square(found["z"])))
    title = "The surface to fit, and the networks"
    if not pictures:
        with canvas(output, title=title, height=2) as (_, grid):
            note(grid[0, 0], "no network was trained to the end")
        return
    target = pictures[0][1]
    scale = Normalize(target.min(), target.max())
    height = 0.95 + 4.4 / len(pictures)
    columns = len(pictures)
    with canvas(output, title=title, height=height, columns=columns) as (figure, grid):
        for axes, (label, surface) in zip(grid[0], pictures, strict=True):
            shown = axes.imshow(surface, origin="lower", cmap="viridis", norm=scale)
            axes.set_title(label)
            axes.set(xticks=[], yticks=[], xlabel="x1")
            axes.grid(visible=False)
        grid[0, 0].set_ylabel("x2")
        bar = figure.colorbar(shown, ax=grid[0], label="z", extend="both", shrink=0.8)
        bar.outline.set_visible(False)


def _square(values_N: np.ndarray) -> np.ndarray:
    side = round(len(values_N) ** 0.5)
    return values_N.reshape(side, side)


def rmse(values: np.ndarray, others: np.ndarray) -> float:
    """Return the root mean squared difference, in float64.

    >>> rmse(np.array([1.0, 1.0]), np.array([4.0, 4.0]))
    3.0
    """
    apart = values.astype(np.float64) - others
    return float(np.sqrt(np.mean(apart**2)))
