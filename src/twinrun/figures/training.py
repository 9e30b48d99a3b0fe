"""What a run learned: its metrics per epoch."""

import textwrap
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes

from twinrun import artifacts
from twinrun.figures.style import (
    REASON_WIDTH,
    Dashes,
    band,
    canvas,
    colour_of,
    drawable,
    empty,
    shorten,
)
from twinrun.figures.thinned import KEPT, RANGES, summed_up
from twinrun.figures.whole_numbers import whole_numbers
from twinrun.run_files import failure_of, read_run, verified

LONGEST = 24  # letters, as high as a panel
MOST_PANELS = 6  # as the page and curves.rst say
PHASES: dict[str, Dashes] = {"train": "solid", "val": (0, (3, 1.5))}


def curves(runs: Sequence[str | Path], *, variants: Sequence[str], output: str | Path) -> None:
    """Draw the first metrics per epoch, training and validation; name the others.

    The band is the range over the runs; of a long training also that of each hundredth.

    Lines grow thinner from variant to variant, so that those that coincide stay visible.

    Args:
        runs: run.json of any number of runs a variant; the table of epochs lies beside it.
        variants: all variants of the config, in its order.
        output: path of the SVG.
    """
    title = "Training (solid) and validation (dashed) per epoch"
    # A training that failed has no epochs; the page names it elsewhere.
    trained = [Path(run) for run in runs if failure_of(run) is None]
    if not trained:
        empty(output, title=title, reason=f"not run: {failure_of(runs[0])}")
        return
    metrics = pd.concat([_metrics(run) for run in trained], ignore_index=True)
    if metrics.empty:
        reason = "No epoch has a finite metric: what the module logs in its steps is drawn here."
        empty(output, title=title, reason=reason)
        return
    names, others = panels(list(metrics["metric"].unique()), MOST_PANELS)
    drawn = list(metrics["variant"].unique())
    height = 0.8 + 0.2 * (len(drawn) + others.count("\n")) + 1.75 * len(names)
    with canvas(output, title=title, height=height, rows=len(names), share_x=True) as (
        figure,
        grid,
    ):
        for axes, name in zip(grid[:, 0], names, strict=True):
            _draw_metric(axes, metrics[metrics["metric"] == name], drawn, variants)
            axes.set(ylabel=shorten(name, LONGEST), xlabel="")
        for variant in drawn:
            grid[0, 0].plot([], color=colour_of(variant, variants), linewidth=2.5, label=variant)
        is_whole = metrics["epoch"].nunique() <= RANGES * KEPT
        drawn_of = "" if is_whole else " (of each hundredth: median, and least to most)"
        grid[-1, 0].set_xlabel(f"epoch{drawn_of}{others}")
        whole_numbers(grid[-1, 0].xaxis)
        figure.legend(loc="outside lower left", ncols=1 if len(drawn) > 2 else 2)


def panels(logged: Sequence[str], most: int) -> tuple[list[str], str]:
    """Return the metrics that are drawn, and the others in lines below an axis.

    The last are those that Lightning has under a second name (`on_step` and `on_epoch`).

    >>> panels(["loss", "loss_step", "loss_epoch", "iou", "mae"], 3)
    (['loss', 'iou', 'mae'], '\\n2 more, in epochs.csv of each run: loss_step, loss_epoch')
    >>> panels(["mae_step"], 3)
    (['mae_step'], '')
    """

    def is_again(name: str) -> bool:
        return name.endswith(("_step", "_epoch")) and name.rpartition("_")[0] in logged

    names = sorted(logged, key=is_again)
    if len(names) <= most:
        return names, ""
    others = ", ".join(map(shorten, names[most:]))
    said = f"{len(names) - most} more, in epochs.csv of each run: {others}"
    lines = textwrap.wrap(said, REASON_WIDTH, max_lines=3, placeholder=" …")
    return names[:most], "".join(f"\n{line}" for line in lines)


def _draw_metric(
    axes: Axes, metric: pd.DataFrame, drawn: Sequence[str], variants: Sequence[str]
) -> None:
    # A metric of no phase has NaN there, whose rows pandas would leave out.
    for (variant, phase), rows in metric.groupby(["variant", "phase"], sort=False, dropna=False):
        # Equal curves cover each other: a thin line on a thick one shows both.
        width = 4.5 / (1 + drawn.index(variant)) ** 0.8
        band(
            axes,
            summed_up(rows, x="epoch", y="value"),
            x="epoch",
            y="value",
            colour=colour_of(variant, variants),
            dashes=PHASES.get(phase, "solid"),
            width=width,
            # A line of one point is invisible.
            marker="o" if rows["epoch"].nunique() == 1 else None,
        )


def _metrics(run: Path) -> pd.DataFrame:
    """Return a run's metrics in long form: variant, epoch, phase, metric, value; finite ones."""
    variant = read_run(run)["variant"]
    table = artifacts.read_csv(verified(run, "epochs.csv"), ["epoch"]).melt(
        id_vars="epoch", var_name="name"
    )
    # A metric may be inf, whose axis has no end, or a word.
    table["value"] = drawable(pd.to_numeric(table["value"], errors="coerce"))
    parts = table["name"].astype(str).str.extract(r"^(?:(?P<phase>train|val)[_/])?(?P<metric>.+)$")
    return table.join(parts).dropna(subset="value").assign(variant=variant)
