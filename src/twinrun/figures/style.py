"""What all figures share: size, ink, colours of variants, and how a figure is saved.

A figure is 5 inches wide with letters of 10 points, so that it is still legible when a phone
scales it to two thirds. The colours are seaborn's colour-blind safe ones, given to the variants in
the order of the config: a variant has one colour in every figure. INK, MUTED, GRID and PAPER occur
in the SVG as they stand here; a page may replace them to follow its own light or dark theme.
"""

import textwrap
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import matplotlib as mpl
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from twinrun.artifacts import atomic
from twinrun.errors import sentence_of
from twinrun.formatting import power_of_ten
from twinrun.process.machine_faults import is_machine_fault

INK, MUTED, GRID, PAPER = "#1f2328", "#59636e", "#d1d9e0", "#ffffff"
WIDTH_INCHES = 5.0
REASON_WIDTH, REASON_LINES = 58, 8  # letters and lines of a sentence that stands for a figure
DECADES = (-300, 300)  # that matplotlib's axes have room for
_MARGIN = 0.03  # of an axis, for half of a mark that would lie at its end
GAP = 2  # pixels between the images of a mosaic

# matplotlib's: a name, or an offset and the lengths of ink and gap in points.
Dashes: TypeAlias = str | tuple[float, tuple[float, ...]]
# Vermilion and blue come first: a study of two variants needs no others. seaborn's light pink (6)
# and yellow (8) are left out, too pale on white.
# ASSUME at most 8 variants: the ninth has the colour and the dashes of the first.
_COLOURS = [sns.color_palette("colorblind").as_hex()[i] for i in (3, 0, 2, 4, 5, 7, 1, 9)]
_DASHES: list[Dashes] = ["solid", (0, (4, 1.5)), (0, (1.5, 1)), (0, (6, 1, 1.5, 1))]
_SETTINGS: Mapping[str, object] = {
    **sns.axes_style("whitegrid"),
    # Text stays text, which a reader can search and select.
    "svg.fonttype": "none",
    # Without a salt matplotlib makes random ids, and the same figure has other bytes.
    "svg.hashsalt": "twinrun",
    # Names come from configs and modules: a dollar sign in one is a dollar sign.
    "text.parse_math": False,
    "axes.unicode_minus": True,
    # Measured with the first, which ships with matplotlib; the others are no wider.
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial"],
    "font.family": ["sans-serif"],
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.labelsize": 9.5,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.fontsize": 9.5,
    "legend.frameon": False,
    "figure.titlesize": 10.5,
    "figure.titleweight": "bold",
    "figure.facecolor": PAPER,
    # PAPER is drawn once, so that a page has one rectangle to colour.
    "axes.facecolor": "none",
    "text.color": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.edgecolor": MUTED,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "figure.constrained_layout.h_pad": 0.06,
}


@contextmanager
def canvas(
    output: str | Path,
    *,
    title: str,
    height: float,
    rows: int = 1,
    columns: int = 1,
    share_x: bool = False,
    share_y: bool = False,
    row_heights: Sequence[float] | None = None,
) -> Iterator[tuple[Figure, np.ndarray]]:
    """Yield a figure and its axes (rows, columns) to draw on; save it when the body ends well.

    Args:
        output: path of the SVG.
        title: what the figure shows, drawn above it and kept as the SVG's own title for those who
            cannot see it.
        height: in inches.
        rows: of axes.
        columns: of axes.
        share_x: one horizontal axis for all.
        share_y: one vertical axis for all.
        row_heights: of the rows relative to each other; all equal where it is None.
    """
    with mpl.rc_context(dict(_SETTINGS)):
        # Not pyplot's: that would pick a backend and keep each figure open. Legends with a `loc` of
        # "outside ..." need the constrained layout.
        figure = Figure(figsize=(WIDTH_INCHES, height), layout="constrained")
        figure.suptitle(title, x=0.01, ha="left")
        axes = figure.subplots(
            rows,
            columns,
            squeeze=False,
            sharex=share_x,
            sharey=share_y,
            height_ratios=row_heights,
        )
        # A body that raises leaves no file: the lines below are not in a `finally`.
        yield figure, axes
        # Date and matplotlib's version would change the bytes of a figure that shows the same.
        metadata = {"Title": title, "Date": None, "Creator": None}
        with atomic(output) as temporary:
            figure.savefig(temporary, format="svg", metadata=metadata)


def colour_of(variant: str, variants: Sequence[str]) -> str:
    """Return the colour of a variant, by its position among all variants of the config."""
    return _COLOURS[variants.index(variant) % len(_COLOURS)]


def dashes_of(variant: str, variants: Sequence[str]) -> Dashes:
    """Return the dashes of a variant's line, for those who see no colours and for overlaps."""
    return _DASHES[variants.index(variant) % len(_DASHES)]


def note(axes: Axes, text: str) -> None:
    """Write a sentence in the middle of axes that have little else to show."""
    box = {"facecolor": PAPER, "edgecolor": "none", "pad": 3}
    axes.text(
        0.5, 0.72, text, transform=axes.transAxes, ha="center", va="center", color=INK, bbox=box
    )


def note_alone(axes: Axes, text: str) -> None:
    """Write a sentence in place of what could not be drawn.

    Without ticks and grid: from 0 to 1, as matplotlib has them by itself, they look as measured.
    """
    axes.set(xticks=[], yticks=[])
    note(axes, text)


def empty(output: str | Path, *, title: str, reason: str) -> None:
    """Save a figure that says why nothing is drawn.

    Args:
        output: path of the SVG.
        title: what would be drawn.
        reason: a sentence, of any length.
    """
    lines = textwrap.wrap(reason, REASON_WIDTH, max_lines=REASON_LINES, placeholder=" …")
    with canvas(output, title=title, height=1.4 + 0.2 * len(lines)) as (_, grid):
        note_alone(grid[0, 0], "\n".join(lines))


@contextmanager
def reason_instead(output: str | Path) -> Iterator[None]:
    """Draw in the body; what cannot be drawn leaves a figure with the reason.

    Names, values and sizes come from modules of others, and no page should be lost for a picture.
    The traceback is in the job's log.

    Args:
        output: path of the SVG that the body draws.

    Raises:
        Exception: a fault of the machine, as it came: a corrupt file is named, to be made again.
    """
    try:
        yield
    except Exception as error:
        if is_machine_fault(error):
            raise
        # The page has room for one sentence only; this is for mending it.
        traceback.print_exc()
        empty(output, title="This figure could not be drawn", reason=sentence_of(error))


def shorten(name: str, most: int = 28) -> str:
    """Cut a long tensor name in its middle, where it says least."""
    if len(name) <= most:
        return name
    return f"{name[: most // 3]}…{name[-(most - most // 3 - 1) :]}"


def band(
    axes: Axes,
    table: pd.DataFrame,
    *,
    x: str,
    y: str,
    colour: str,
    dashes: Dashes,
    width: float = 1.5,
    marker: str | None = None,
) -> None:
    """Draw the median of `y` over `x` and, where there are several values, their range.

    Args:
        axes: to draw on.
        table: in long form; rows with the same `x` are summed up.
        x: name of a column.
        y: name of a column.
        colour: of line and band.
        dashes: of the line.
        width: of the line, in points.
        marker: at each point, as matplotlib names it.
    """
    # seaborn's percentile interval of 100 %: from the smallest to the largest value.
    errorbar = ("pi", 100) if table[x].duplicated().any() else None
    sns.lineplot(
        table,
        x=x,
        y=y,
        estimator="median",
        errorbar=errorbar,
        ax=axes,
        legend=False,
        color=colour,
        linestyle=dashes,
        linewidth=width,
        marker=marker,
    )


def drawable(values: pd.Series) -> pd.Series:
    """Leave out what no axis is long enough for: infinity, and what is near the largest float."""
    return values.where(values.abs() < 10.0 ** DECADES[1])


def log_axis(axis: Axis) -> None:
    """Make an axis logarithmic, from decade to decade of what is drawn, with plain-text ticks."""
    name = "x" if axis is axis.axes.xaxis else "y"
    axis.axes.set(**{f"{name}scale": "log"})
    # Draw first, then call this: empty axes have an interval from inf to -inf.
    first, last = np.clip(np.log10(axis.get_data_interval()), *DECADES)
    low, high = np.floor(first), np.ceil(last)
    high = max(high, low + 1)  # at least one decade: equal limits are no axis
    margin = _MARGIN * (high - low)
    low -= margin if first - low < margin else 0
    high += margin if high - last < margin else 0
    axis.axes.set(**{f"{name}lim": tuple(10.0 ** np.clip([low, high], *DECADES))})
    axis.set_major_locator(LogLocator(numticks=7))
    # matplotlib's own labels are mathtext, which `text.parse_math` leaves as dollars.
    axis.set_major_formatter(FuncFormatter(lambda value, _: power_of_ten(round(np.log10(value)))))
    axis.set_minor_formatter(NullFormatter())


def show_mosaic(
    axes: Axes,
    images: np.ndarray,
    *,
    highest: float,
    rows: Sequence[str],
    columns: Sequence[str] = (),
) -> None:
    """Show images, grey or in colour, in rows and columns as one picture.

    Args:
        axes: filled by the picture.
        images: (rows, columns, height, width) from 0 to `highest`; in colour (..., width, 3).
        highest: the value that is white.
        rows: what stands beside each row.
        columns: what stands above each column.
    """
    if images.ndim == 4:
        images = np.repeat(images[..., None], 3, axis=-1)  # (R, C, H, W, 3)
    num_rows, num_columns, height, width, _ = images.shape
    framed = np.zeros((num_rows, num_columns, height + GAP, width + GAP, 4))  # gaps show the page
    framed[:, :, GAP:, GAP:, :3] = np.clip(images / highest, 0, 1)
    framed[:, :, GAP:, GAP:, 3] = 1
    # One picture, not an axes for each image: a contact sheet has up to 200.
    # (R, C, H, W, 4) to (R, H, C, W, 4), then to (R x H, C x W, 4).
    pixels = framed.swapaxes(1, 2).reshape(num_rows * (height + GAP), -1, 4)
    axes.imshow(pixels, interpolation="none")
    axes.grid(visible=False)
    axes.set_frame_on(False)
    axes.tick_params(length=0, labeltop=True, labelbottom=False)
    axes.set_yticks(_centres(num_rows, height), rows)
    axes.set_xticks(_centres(num_columns, width) if columns else [], columns)


def _centres(number: int, size: int) -> np.ndarray:
    # imshow puts the centre of pixel k at k, not at k + 1/2.
    return np.arange(number) * (size + GAP) + GAP + (size - 1) / 2
