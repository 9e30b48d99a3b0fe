"""The operations of the step in which two runs diverge, and how far each differs."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from twinrun import artifacts
from twinrun.comparison.pair_records import Location, Operation, read_locations
from twinrun.figures.style import INK, MUTED, canvas, colour_of, log_axis, note_alone, shorten
from twinrun.formatting import count

COLUMNS = ("seed", "position", "phase", "outputs_equal", "relative_l2")


def operations(
    locations: Sequence[str | Path], *, variants: Sequence[str], output: str | Path
) -> None:
    """Draw the operations of each located step: those that differ as points, the others as ticks.

    Args:
        locations: JSON of the locations of each variant, a seed each; their table of operations
            lies beside it. Of a variant the first that was located is drawn.
        variants: all variants of the config, in its order.
        output: path of the SVG.
    """
    located: dict[str, tuple[Location, Operation, pd.DataFrame]] = {}
    for path in map(Path, locations):
        for found in read_locations(path):
            # ASSUME that one seed stands for a variant; the table of the page counts the others.
            is_drawn = found["answer"] == "located" and found["variant"] not in located
            if is_drawn and found["op"] is not None:
                table = artifacts.read_csv(path.with_suffix(".operations.csv"), COLUMNS)
                # The table holds all seeds: the index starts anew, to count in this step.
                table = table[table["seed"] == found["seed"]].reset_index()
                located[found["variant"]] = found, found["op"], table
    rows = max(len(located), 1)
    title = "Operations of the step in which two runs diverge"
    with canvas(output, title=title, height=0.8 + 2.5 * rows, rows=rows) as (_, grid):
        if not located:
            note_alone(grid[0, 0], "no operation was located")
        for axes, (variant, (found, op, table)) in zip(grid[:, 0], located.items(), strict=False):
            _draw(axes, op, table, colour_of(variant, variants))
            name = op["op"] + (f", {shorten(op['parameter'])}" if op["parameter"] else "")
            step = "" if found["step"] is None else f": step {count(found['step'])}"
            where = "circled" if op["position"] else "one process alone has it"
            axes.set_title(f"{shorten(variant)}{step}\nfirst ({where}): {name}", pad=16)
            axes.set_ylabel("relative L2 distance")
        grid[-1, 0].set_xlabel("operation, in the order of the step")


def _draw(axes: Axes, op: Operation, table: pd.DataFrame, colour: str) -> None:
    """Draw the operations of one step; `table` has a row for each, in their order."""
    sizes = table["relative_l2"].where(np.isfinite(table["relative_l2"]) & (table.relative_l2 > 0))
    drawn = sizes.notna()
    axes.plot(
        table["position"][drawn], sizes[drawn], "o", color=colour, markersize=4, gid="differing"
    )
    axes.set_xlim(0, len(table) + 1)
    # Before the circle, which may stand at this axis' lower end.
    if drawn.any():
        log_axis(axes.yaxis)
    same = table["position"][table["outputs_equal"]]
    # x in data, y as a fraction of the axes: 0 has no place on a logarithmic axis.
    foot = axes.get_xaxis_transform()
    axes.plot(same, np.full(len(same), 0.03), "|", color=MUTED, transform=foot, gid="equal")
    starts = table.groupby("phase")["position"].agg(["min", "max"])
    for phase, (first, last) in starts.iterrows():
        axes.axvline(first - 0.5, color=MUTED, linewidth=0.6)
        if last - first > len(table) / 12:  # else its name has no room
            axes.text(first, 1.02, str(phase), transform=foot, color=MUTED, fontsize="small")
    circled = (
        table["position"] == op["position"]
    )  # none of them where the table lacks the operation
    # An operation may differ by nothing that has a size (signed zeros, NaN): circled at the foot.
    heights = sizes[circled].fillna(axes.get_ylim()[0])
    axes.plot(
        table["position"][circled],
        heights,
        "o",
        color=INK,
        markersize=9,
        markerfacecolor="none",
        gid="first",
    )
