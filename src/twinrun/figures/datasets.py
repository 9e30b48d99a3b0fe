"""What a workload was trained on."""

from pathlib import Path

import numpy as np

from twinrun.artifacts import read_arrays
from twinrun.figures.style import canvas, empty, shorten, show_mosaic

COLUMNS = 10
MOST_ROWS = 20  # more classes are left out: our choice
WHITE = 255  # of images in bytes


def contact_sheet(
    dataset: str | Path,
    *,
    images: str,
    rows: str,
    columns: str | None = None,
    output: str | Path,
) -> None:
    """Draw images of a dataset, one row a class; in each column those nearest to one value.

    Args:
        dataset: .npz with the arrays that are named.
        images: name of (N, height, width) or (N, height, width, 3), in bytes or from 0 to 1.
        rows: name of the classes (N,).
        columns: name of numbers (N,); None is the first images of each class.
        output: path of the SVG.
    """
    arrays = read_arrays(dataset)
    names = [name for name in (images, rows, columns) if name is not None]
    title = f"{shorten(images)} by {' and '.join(shorten(name) for name in names[1:])}"
    problem = _problem(arrays, images, names[1:])
    if problem:
        empty(output, title=title, reason=problem)
        return
    classes = np.unique(arrays[rows])[:MOST_ROWS]
    members = [np.flatnonzero(arrays[rows] == label) for label in classes]
    if columns is None:
        # Rows of one picture are equally long, so the smallest class sets their length.
        values, number = [], min(COLUMNS, *map(len, members))
        chosen = [indices[:number] for indices in members]
    else:
        numbers = arrays[columns].astype(np.float64)
        # ASSUME that classes share one range: a class without a value shows its nearest image,
        # and may show it in several columns.
        values = np.linspace(numbers.min(), numbers.max(), COLUMNS)
        chosen = [_nearest(indices, numbers, values) for indices in members]
    shown = arrays[images][np.stack(chosen)]
    # Of what is shown, not of each image: a dark image stays dark.
    white = WHITE if shown.dtype == np.uint8 else max(1.0, float(shown.max()))
    with canvas(output, title=title, height=0.7 + 0.45 * len(classes)) as (_, grid):
        # `axes.unicode_minus` holds for matplotlib's own labels only.
        above = [f"{value:.3g}".replace("-", "−") for value in values]
        beside = [shorten(str(label), 12) for label in classes]
        show_mosaic(grid[0, 0], shown, highest=white, rows=beside, columns=above)


def _nearest(indices: np.ndarray, numbers: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return for each value that of some indices whose number is nearest to it."""
    # (M,) - (C, 1) is (C, M): an index for each of C columns.
    return indices[np.abs(numbers[indices] - values[:, None]).argmin(1)]


def _problem(arrays: dict[str, np.ndarray], images: str, others: list[str]) -> str | None:
    """Say why nothing can be drawn; None if it can."""
    missing = [name for name in (images, *others) if name not in arrays]
    if missing:
        return f"no array is called {' or '.join(missing)}"
    shape = arrays[images].shape
    if 0 in shape or not (len(shape) == 3 or (len(shape) == 4 and shape[3] == 3)):
        return f"{images} holds no images: {shape}"
    wrong = [name for name in others if arrays[name].shape != shape[:1]]
    return f"{wrong[0]} is no number for each image: {arrays[wrong[0]].shape}" if wrong else None
