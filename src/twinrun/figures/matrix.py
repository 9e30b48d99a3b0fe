"""What each change of a baseline does: a map of words, coloured by how large the difference is."""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from twinrun.comparison.study_records import MatrixCell, read_matrix
from twinrun.figures.style import INK, MUTED, canvas, shorten
from twinrun.formatting import count, measure, percent

# What stands above each column, and how wide it is.
COLUMNS = {"Answer": 1.3, "Step": 0.6, "Cause": 1.6, "L2": 1.05, "Predicted": 1.0}
EDGES = np.concatenate([[0], np.cumsum(list(COLUMNS.values()))])
ROW_INCHES = 0.34
LONGEST_LABEL = 25  # letters
# Light enough for dark letters under both themes of the page, whose ink changes.
LETTERS = "#101418"
FILLS = {
    "equal": "#bfe3d3",
    "rounding": "#fbe3b5",
    "algorithmic": "#f3b79b",
    "undecided": "#dfe3e8",
    "none": "#dfe3e8",
}


def cells(matrix: str | Path, *, output: str | Path) -> None:
    """Draw a row for each cell, a box for each measure.

    Args:
        matrix: JSON of the matrix.
        output: path of the SVG.
    """
    rows = read_matrix(matrix)["cells"]
    title = "What each change of the baseline does"
    with canvas(output, title=title, height=0.7 + ROW_INCHES * len(rows)) as (_, grid):
        axes = grid[0, 0]
        # Words in boxes, not a colour bar: a cell's measures have no common scale.
        for position, row in enumerate(rows):
            for column, text in enumerate(_words(row)):
                _box(axes, column, position, text, FILLS[_class(row)])
        _frame(axes, [_label(row["label"]) for row in rows])


def _label(text: str) -> str:
    """Put a change of several settings on as many lines."""
    return "\n".join(shorten(line, LONGEST_LABEL) for line in text.split(", ", 1))


def _class(row: MatrixCell) -> str:
    if row["answer"] == "equal":
        return "equal"
    # No size: the cell was not run, or nothing can be said about how large it is.
    return row["size"] or "none"


def _words(row: MatrixCell) -> list[str]:
    if row["answer"] in ("not run", "not comparable"):
        return [row["answer"], "–", "–", "–", "–"]
    answer = row["size"] or row["answer"]
    step = "–" if row["first_step"] is None else count(row["first_step"])
    if "since" in row:  # the steps before it were not traced
        step = f"by {step}"
    share = row["predictions_changed"]
    return [
        answer,
        step,
        _cause(row),
        measure(row["relative_l2"], digits=2),
        "–" if share is None else percent(share),
    ]


def _cause(row: MatrixCell) -> str:
    # The one that no box is wide enough for.
    cause = row["cause"] or row["quantity"] or "–"
    return "training's end" if cause == "end of the training" else cause


def _box(axes: Axes, column: int, row: int, text: str, fill: str) -> None:
    left, right = EDGES[column : column + 2]
    corner, width = (left + 0.02, row + 0.05), right - left - 0.04
    axes.add_patch(Rectangle(corner, width, 0.9, color=fill, linewidth=0))
    axes.text(
        (left + right) / 2, row + 0.5, text, ha="center", va="center", color=LETTERS, fontsize=8.5
    )


def _frame(axes: Axes, labels: list[str]) -> None:
    # Upside down, so that the first cell of the config is on top.
    axes.set(xlim=(0, EDGES[-1]), ylim=(len(labels), 0))
    axes.set_xticks((EDGES[:-1] + EDGES[1:]) / 2, COLUMNS, color=MUTED, fontsize=8.5)
    axes.set_yticks(np.arange(len(labels)) + 0.5, labels, color=INK, fontsize=8.5, linespacing=1.0)
    axes.tick_params(length=0, labeltop=True, labelbottom=False)
    axes.grid(visible=False)
    axes.set_frame_on(False)
