"""What a workload was trained on."""

from pathlib import Path

import numpy as np

from twinrun.artifacts import read_arrays
from twinrun.figures.style import canvas, show_mosaic

ANGLES_DEGREES = range(-45, 46, 10)


def contact_sheet(dataset: str | Path, *, output: str | Path) -> None:
    """Draw digits, one row a class; in each column those nearest to one angle.

    Args:
        dataset: .npz with train_images (N, height, width) uint8, train_labels (N,) and
            train_angles (N,) in degrees.
        output: path of the SVG.
    """
    arrays = read_arrays(dataset)
    labels = np.unique(arrays["train_labels"])
    images = np.stack([_by_angle(arrays, label) for label in labels])
    title = "Digits by class and angle in degrees"
    with canvas(output, title=title, height=0.7 + 0.45 * len(labels)) as (_, grid):
        columns = [f"{angle}".replace("-", "−") for angle in ANGLES_DEGREES]
        show_mosaic(
            grid[0, 0], images, highest=255, rows=[str(label) for label in labels], columns=columns
        )


def _by_angle(arrays: dict[str, np.ndarray], label: int) -> np.ndarray:
    """Return the images of a class nearest to each angle (angles, height, width)."""
    images, angles = (
        arrays[name][arrays["train_labels"] == label] for name in ("train_images", "train_angles")
    )
    return np.stack([images[np.abs(angles - angle).argmin()] for angle in ANGLES_DEGREES])
