"""Where the arrays of a trace have a step: of long trainings not every step is there."""

from collections.abc import Mapping
from typing import Literal

import numpy as np

Kept = Literal["detail_steps", "sample_steps"]
"""The steps with fingerprints of single tensors and generators; those with a sample."""


def rows_of(arrays: Mapping[str, np.ndarray], kept: Kept, steps: np.ndarray) -> np.ndarray:
    """Return the row of each step, -1 where it has none; int64.

    Args:
        arrays: of fingerprints.npz; those of an older version have every step.
        kept: which rows.
        steps: their numbers, from 1.

    >>> rows_of({"detail_steps": np.array([1, 2, 10])}, "detail_steps", np.array([2, 3, 10]))
    array([ 1, -1,  2])
    """
    if kept not in arrays:
        return steps - 1
    numbers = arrays[kept]
    rows = np.searchsorted(numbers, steps)
    # An index beyond the last would be an error: 0 is no step.
    is_kept = np.append(numbers, 0)[rows] == steps
    return np.where(is_kept, rows, -1)


def row_of(arrays: Mapping[str, np.ndarray], kept: Kept, step: int) -> int | None:
    """Return the row of a step; None if it has none."""
    row = int(rows_of(arrays, kept, np.array([step]))[0])
    return None if row < 0 else row
