"""Predictions of two runs compared, a part of each at a time: gigabytes of them fit anywhere.

Without torch.
"""

import math
from collections.abc import Iterator

import numpy as np

from twinrun.artifacts import PART, StoredTensors
from twinrun.comparison.distances import differing_elements, squares, values


def shape_of(stored: StoredTensors, name: str) -> tuple[int, ...] | None:
    """Return the shape of a prediction, None where it is missing."""
    form = stored.form(name)
    return None if form is None else form[0]


def size_of(stored: StoredTensors, name: str) -> int:
    """Count the values of a prediction; 0 where it is missing."""
    shape = shape_of(stored, name)
    return 0 if shape is None else math.prod(shape)


def number_of(stored: StoredTensors, name: str) -> int:
    """Count predictions: rows, or else values."""
    shape = shape_of(stored, name) or ()
    return shape[0] if are_rows(stored, name) else size_of(stored, name)


def is_floating(stored: StoredTensors, name: str) -> bool:
    """Say whether a prediction is of floating-point numbers."""
    form = stored.form(name)
    return form is not None and "float" in type_of(form[1])


def are_rows(stored: StoredTensors, name: str) -> bool:
    """Say whether a prediction is rows of floating-point numbers, (N, C): scores, perhaps."""
    form = stored.form(name)
    return form is not None and is_floating(stored, name) and len(form[0]) == 2 and form[0][1] > 1


def are_alike(first: StoredTensors, second: StoredTensors, name: str) -> bool:
    """Say whether both predict it in one shape, and both or neither in floating-point numbers."""
    one, other = ((shape_of(each, name), is_floating(each, name)) for each in (first, second))
    return one == other


def have_largest(first: StoredTensors, second: StoredTensors, name: str) -> bool:
    """Say whether the largest of each row of the second, (N, C), is a number, or the first's.

    Others of a row may be minus infinity: a class that is masked out, the logarithm of no
    probability. So may all of a row that pads, in both.
    """
    _, columns = shape_of(first, name) or (0, 1)
    parts = _parts(first, second, name, _whole_rows(columns))
    largest = ([_rows(part, columns).max(1) for part in both] for both in parts)
    return all((np.isfinite(other) | (other == one)).all() for one, other in largest)


def unequal(first: StoredTensors, second: StoredTensors, name: str) -> int:
    """Count the values of a prediction of which a byte differs.

    In another shape or type, or where one run lacks it, no value has a counterpart: all differ.
    """
    if first.form(name) is None or first.form(name) != second.form(name):
        return max(size_of(first, name), size_of(second, name))
    return sum(int(differing_elements(*both).sum()) for both in _parts(first, second, name, PART))


def are_same(first: StoredTensors, second: StoredTensors) -> bool:
    """Say whether two runs predict the same by name, to the bit."""
    return set(first.names()) == set(second.names()) and all(
        # One without values has nothing that differs but its form.
        first.form(name) == second.form(name) and not unequal(first, second, name)
        for name in first.names()
    )


def squares_of(
    first: StoredTensors, second: StoredTensors, name: str, dtype: str | None = None
) -> np.ndarray:
    """Return `distances.squares` of the numbers of a tensor that both have in one shape.

    Args:
        first: the tensors of a run.
        second: those of another one.
        name: of the tensor.
        dtype: torch's name of its type; where None, each file says it.
    """
    found = np.zeros(2)
    for one, other in _parts(first, second, name, PART):
        left, right = (values(part, dtype or type_of(part.dtype)) for part in (one, other))
        # Sums of parts: of large tensors the last digits are not those of one sum.
        found = found + squares(left, right, "float64")
    return found


def share_changed(first: StoredTensors, second: StoredTensors, name: str) -> float:
    """Return the share of what both predict that is not the same.

    Of rows of floating-point numbers, (N, C), those whose largest number is another one; of all
    else the values of which a byte differs.
    """
    form, other = first.form(name), second.form(name)
    if form is None or other is None or form[0] != other[0]:
        return 1.0
    if are_rows(first, name):
        rows, columns = form[0]
        changed = sum(
            int((_largest(one, columns) != _largest(another, columns)).sum())
            for one, another in _parts(first, second, name, _whole_rows(columns))
        )
        return changed / rows if rows else 0.0
    if form != other:
        return 1.0
    size = size_of(first, name)
    return unequal(first, second, name) / size if size else 0.0


def are_whole(stored: StoredTensors, name: str) -> bool:
    """Say whether all numbers of a prediction are whole ones: classes, perhaps, or masks."""
    parts = (values(part, type_of(part.dtype)) for part in stored.parts(name, PART))
    return stored.form(name) is not None and all((part == np.rint(part)).all() for part in parts)


def rows_changed(first: StoredTensors, second: StoredTensors, name: str) -> tuple[int, int]:
    """Count the rows of what both predict in one shape that are not the same, and all of them."""
    columns = max(math.prod((shape_of(first, name) or ())[1:]), 1)
    changed = rows = 0
    for both in _parts(first, second, name, _whole_rows(columns)):
        if is_floating(first, name):  # of any type; 0 is -0
            one, other = (_rows(part, columns) for part in both)
            differ = one != other
        else:  # integers that float64 has not
            differ = differing_elements(*both).reshape(-1, columns)
        changed, rows = changed + int(differ.any(1).sum()), rows + len(differ)
    return changed, rows


def _parts(
    first: StoredTensors, second: StoredTensors, name: str, size: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    yield from zip(first.parts(name, size), second.parts(name, size), strict=True)


def _largest(part: np.ndarray, columns: int) -> np.ndarray:
    # argmax takes the first of equal numbers, and the first NaN, in both runs alike.
    return _rows(part, columns).argmax(1)


def _rows(part: np.ndarray, columns: int) -> np.ndarray:
    """Return floating-point predictions in float64, a row for each."""
    return values(part, type_of(part.dtype)).reshape(-1, columns)


def _whole_rows(columns: int) -> int:
    """Return how many values a part has that holds whole rows."""
    return max(PART // columns, 1) * columns


def type_of(dtype: np.dtype) -> str:
    """Return torch's name of the type of what is stored."""
    # ASSUME no network predicts uint16: reading has lost torch's name of the type.
    return "bfloat16" if dtype == np.uint16 else str(dtype)
