"""How the runs of a pair part: the distance between their parameters after each step."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from twinrun.artifacts import read_json
from twinrun.figures.style import band, canvas, colour_of, dashes_of, log_axis, note
from twinrun.formatting import count

MOST_STEPS = 400


def growth(
    comparisons: Sequence[str | Path], *, variants: Sequence[str], output: str | Path
) -> None:
    """Draw how far the runs of each pair are apart after each step; band: range over the pairs.

    Args:
        comparisons: JSON of the comparisons, of one or several seeds a variant; the table of
            steps lies beside it.
        variants: all variants of the config, in its order.
        output: path of the SVG.
    """
    summaries = [(read_json(path), Path(path).with_suffix(".steps.csv")) for path in comparisons]
    tables = [
        pd.read_csv(path).assign(variant=summary["variant"], seed=summary["seed"])
        for summary, path in summaries
    ]
    steps = pd.concat(tables, ignore_index=True)
    title = "Distance between the runs of a pair after each step"
    with canvas(output, title=title, height=3.1) as (figure, grid):
        axes = grid[0, 0]
        figure.suptitle(title, x=0.01, ha="left")
        axes.set(xlabel="step", ylabel="relative L2 distance")
        _draw_growth(axes, _thin(steps), variants)
        axes.xaxis.set_major_locator(MaxNLocator(7, integer=True))
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        figure.legend(loc="outside lower left", ncols=1)


def _draw_growth(axes: Axes, steps: pd.DataFrame, variants: Sequence[str]) -> None:
    is_equal = bool(steps["parameters_equal"].all())
    for variant, rows in steps.groupby("variant", sort=False):
        visible = rows if is_equal else rows[rows["relative_l2"] > 0]
        style = {"color": colour_of(variant, variants), "linestyle": dashes_of(variant, variants)}
        band(axes, visible, x="step", y="relative_l2", **style)
        axes.plot([], label=f"{variant}: {_parting(rows)}", **style)
    if is_equal:
        axes.set_yticks([0], ["0"])
        note(axes, "every pair is equal, bit for bit, after every step")
    else:
        log_axis(axes.yaxis)


def _parting(steps: pd.DataFrame) -> str:
    apart = steps.loc[~steps["parameters_equal"].astype(bool), "step"]
    return "equal, bit for bit" if apart.empty else f"apart from step {count(apart.min())} on"


def _thin(steps: pd.DataFrame) -> pd.DataFrame:
    """Keep so many steps as a line can show, evenly spaced, the last included."""
    last = steps["step"].max()
    stride = -(-last // MOST_STEPS)
    return steps[(last - steps["step"]) % stride == 0]
