"""How the runs of a pair diverge: the distance between their parameters after each step."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from twinrun import artifacts
from twinrun.comparison.pair_records import read_comparisons
from twinrun.figures.style import (
    band,
    canvas,
    colour_of,
    dashes_of,
    log_axis,
    note,
    note_alone,
)
from twinrun.figures.whole_numbers import whole_numbers
from twinrun.formatting import count

MOST_STEPS = 400  # the figure is 360 points wide

COLUMNS = ("step", "parameters_equal", "relative_l2")


def growth(
    comparisons: Sequence[str | Path], *, variants: Sequence[str], output: str | Path
) -> None:
    """Draw how far the runs of each pair are apart after each step; band: range over the pairs.

    Args:
        comparisons: JSON of the comparisons of each variant, a seed each; their table of steps
            lies beside it.
        variants: all variants of the config, in its order.
        output: path of the SVG.
    """
    tables, answers = {}, {}
    for path in map(Path, comparisons):
        found = read_comparisons(path)[0]
        tables[found["variant"]] = artifacts.read_csv(path.with_suffix(".steps.csv"), COLUMNS)
        answers[found["variant"]] = found["answer"]
    title = "Distance between the runs of a pair after each step"
    with canvas(output, title=title, height=2.7 + 0.2 * len(tables)) as (figure, grid):
        axes = grid[0, 0]
        axes.set(xlabel="step", ylabel="relative L2 distance")
        _draw(axes, tables, answers, variants)
        whole_numbers(axes.xaxis)
        figure.legend(loc="outside lower left", ncols=1)


def _draw(
    axes: Axes,
    steps_by_variant: Mapping[str, pd.DataFrame],
    answers: Mapping[str, str],
    variants: Sequence[str],
) -> None:
    # The table of pairs that were refused, or whose training failed, is empty.
    tables = {variant: steps for variant, steps in steps_by_variant.items() if len(steps)}
    are_equal = all(steps["parameters_equal"].all() for steps in tables.values())
    for variant in steps_by_variant:
        colour, dashes = colour_of(variant, variants), dashes_of(variant, variants)
        what = answers[variant]
        if variant in tables:
            what = _divergence(tables[variant])
            steps = _thin(tables[variant])
            # A logarithmic axis has no 0, so a line begins where the pair diverges.
            visible = steps if are_equal else steps[steps["relative_l2"] > 0]
            band(axes, visible, x="step", y="relative_l2", colour=colour, dashes=dashes)
        # An empty line for the legend: `band` draws none for a variant that has no distance.
        axes.plot([], label=f"{variant}: {what}", color=colour, linestyle=dashes)
    if not tables:
        note_alone(axes, "no pair")
    elif are_equal:
        axes.set_yticks([0], ["0"])
        are_whole = all(len(np.unique(t["step"])) == t["step"].max() for t in tables.values())
        steps = "step" if are_whole else "step that was traced"
        note(axes, f"every pair is equal, bit for bit, after every {steps}")
    # Not finite where nothing was drawn: differences may lie outside of the sampled elements.
    elif np.isfinite(axes.dataLim.y1):
        log_axis(axes.yaxis)


def _divergence(steps: pd.DataFrame) -> str:
    apart = steps.loc[~steps["parameters_equal"], "step"]
    if apart.empty:
        is_whole = len(np.unique(steps["step"])) == steps["step"].max()
        return f"equal after every {'step' if is_whole else 'traced step'}"
    return f"apart from step {count(apart.min())} on"


def _thin(steps: pd.DataFrame) -> pd.DataFrame:
    """Keep so many steps as a line can show, evenly spaced, the last included."""
    # Of a long training not every step has a distance.
    steps = steps.dropna(subset="relative_l2")
    numbers = np.unique(steps["step"])
    stride = max(-(-len(numbers) // MOST_STEPS), 1)  # rounded up
    return steps[steps["step"].isin(numbers[::-1][::stride])]
