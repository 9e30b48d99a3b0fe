"""How the runs of a pair diverge: the distance between their parameters after each step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from twinrun import artifacts
from twinrun.comparison.pair_records import Comparison, read_comparisons
from twinrun.figures.style import (
    band,
    canvas,
    colour_of,
    dashes_of,
    log_axis,
    note,
    note_alone,
)
from twinrun.figures.thinned import thinned
from twinrun.figures.whole_numbers import whole_numbers
from twinrun.formatting import count

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
    pairs = {}
    for path in map(Path, comparisons):
        found = read_comparisons(path)
        steps = artifacts.read_csv(path.with_suffix(".steps.csv"), COLUMNS)
        pairs[found[0]["variant"]] = _Pairs(found=found, steps=steps)
    title = "Distance between the runs of a pair after each step"
    with canvas(output, title=title, height=2.7 + 0.2 * len(pairs)) as (figure, grid):
        axes = grid[0, 0]
        axes.set(xlabel="step", ylabel="relative L2 distance")
        _draw(axes, pairs, variants)
        whole_numbers(axes.xaxis)
        figure.legend(loc="outside lower left", ncols=1)


@dataclass(frozen=True, kw_only=True)
class _Pairs:
    """The pairs of a variant, and what is known of them."""

    found: list[Comparison]
    """A seed each."""
    steps: pd.DataFrame
    """The steps that were compared; none of a pair that was refused, or not traced."""

    @property
    def compared(self) -> list[Comparison]:
        """Those of two networks."""
        return [of for of in self.found if of["answer"] in ("equal", "differs")]

    @property
    def is_whole(self) -> bool:
        """Whether every step was traced."""
        return not any("traced" in of for of in self.compared)

    @property
    def end_apart(self) -> bool:
        """Whether one ends in other parameters: no step need show it."""
        return any(of["parameters"]["elements_differing"] for of in self.compared)

    def divergence(self) -> str:
        """Say where they are apart, as far as that is known."""
        if not self.compared:
            return self.found[0]["answer"]
        if self.steps.empty:
            return f"{'apart' if self.end_apart else 'equal'} at the end, no step was compared"
        apart = self.steps.loc[~self.steps["parameters_equal"], "step"]
        if apart.empty:
            end = ", apart at the end" if self.end_apart else ""
            return f"equal after every {'step' if self.is_whole else 'traced step'}{end}"
        first = int(apart.min())
        said = f"apart from step {count(first)} on"
        before = self.steps["step"][self.steps["step"] < first]
        since = 1 + (int(before.max()) if len(before) else 0)
        return said if since == first else f"{said}, if not since step {count(since)}"


def _draw(axes: Axes, pairs: Mapping[str, _Pairs], variants: Sequence[str]) -> None:
    compared = [of for of in pairs.values() if of.compared]
    drawn = [of for of in compared if not of.steps.empty]
    are_equal = all(of.steps["parameters_equal"].all() for of in drawn)
    for variant, of in pairs.items():
        colour, dashes = colour_of(variant, variants), dashes_of(variant, variants)
        if not of.steps.empty:
            # Of a long training not every step has a distance.
            steps = of.steps.dropna(subset="relative_l2")
            # A logarithmic axis has no 0, so a line begins where the pair diverges.
            visible = steps if are_equal else steps[steps["relative_l2"] > 0]
            visible = thinned(visible, x="step", y="relative_l2")
            band(axes, visible, x="step", y="relative_l2", colour=colour, dashes=dashes)
        # An empty line for the legend: `band` draws none for a variant that has no distance.
        axes.plot([], label=f"{variant}: {of.divergence()}", color=colour, linestyle=dashes)
    if not drawn:
        note_alone(axes, "no step was compared" if compared else "no pair")
    elif are_equal:
        axes.set_yticks([0], ["0"])
        step = "step" if all(of.is_whole for of in compared) else "step that was traced"
        # What no step shows may have come behind the last one, or where nobody looked.
        are_apart = any(of.end_apart for of in compared)
        equal = f"every pair is equal, bit for bit, after every {step}"
        note(axes, f"no {step} shows a distance" if are_apart else equal)
    # Not finite where nothing was drawn: differences may lie outside of the sampled elements.
    elif np.isfinite(axes.dataLim.y1):
        log_axis(axes.yaxis)
