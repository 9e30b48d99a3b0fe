"""The tensors of a pair compared, a part of each at a time: gigabytes of weights fit anywhere."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from twinrun import run_files
from twinrun.artifacts import StoredTensors
from twinrun.comparison.distances import Distance, relative
from twinrun.comparison.pair import shape_of
from twinrun.comparison.pair_records import Comparison, Counts
from twinrun.run_records import TensorEntry

# fmt: off
TENSOR_COLUMNS = [
    "repeat", "tensor", "kind", "shape", "dtype", "elements", "elements_differing", "share",
    "max_abs", "max_ulp", "relative_l2", "equal",
]
# fmt: on


@dataclass(frozen=True, kw_only=True)
class ComparedTensors:
    """What the tensors of two runs show."""

    rows: list[dict[str, object]]
    """A row for each, with TENSOR_COLUMNS but `repeat`."""
    relative_l2: float
    """|second - first| / |first| of all parameters together."""
    non_finite: tuple[int, int]
    """Elements of parameters of each run that are infinite or NaN."""


def compare_tensors(
    tensors: Iterable[TensorEntry], first: StoredTensors, second: StoredTensors
) -> ComparedTensors:
    """Compare the tensors of two runs.

    Args:
        tensors: of both: two runs with other names, types or shapes are no pair.
        first: those of a run.
        second: those of another one.
    """
    rows, total, non_finite = [], np.zeros(2), np.zeros(2, dtype=np.int64)
    for tensor in tensors:
        found = distance_of(tensor, first, second)
        rows.append(
            {
                "tensor": tensor["name"],
                "kind": tensor["kind"],
                "shape": shape_of(tensor),
                "dtype": tensor["dtype"],
                **found.distances(),
            }
        )
        if tensor["kind"] == "parameter":
            # Squares add up over the tensors. A mean of their distances would count a bias like a
            # layer.
            total = total + found.squares  # of a wider type, perhaps
            non_finite += found.non_finite
    return ComparedTensors(
        rows=rows,
        relative_l2=float(relative(*np.sqrt(total))),
        non_finite=(int(non_finite[0]), int(non_finite[1])),
    )


def distance_of(tensor: TensorEntry, first: StoredTensors, second: StoredTensors) -> Distance:
    """Measure how far a tensor of two runs is apart."""
    found = Distance(tensor["dtype"])
    for left, right in zip(first.parts(tensor["name"]), second.parts(tensor["name"]), strict=True):
        found.add(left, right)
    return found


def counts(table: pd.DataFrame, kind: str) -> Counts:
    """Count tensors of a kind and their elements, and those that differ in the worst repeat."""
    found = Counts(tensors=0, elements=0, tensors_differing=0, elements_differing=0)
    # By repeat: the rows of several repeats are about the same tensors.
    for _, rows in table[table["kind"] == kind].groupby("repeat"):
        found = Counts(
            tensors=max(found["tensors"], len(rows)),
            elements=max(found["elements"], int(rows["elements"].sum())),
            tensors_differing=max(found["tensors_differing"], len(rows) - int(rows["equal"].sum())),
            elements_differing=max(
                found["elements_differing"], int(rows["elements_differing"].sum())
            ),
        )
    return found


def buffers_apart(found: Comparison) -> float | None:
    """Return the relative L2 distance of the buffers that differ after training, all together.

    Returns:
        None if none differs.
    """
    folders = [Path(run) for run in found["runs"]]
    manifest = run_files.read_run(folders[0] / "run.json")
    first, second = (
        StoredTensors(run_files.verified(folder / "run.json", "weights.safetensors"))
        for folder in folders
    )
    buffers = [tensor for tensor in manifest["tensors"] if tensor["kind"] == "buffer"]
    distances = [distance_of(tensor, first, second) for tensor in buffers]
    # Of equal ones nothing is told: constants, however many, must not hide what differs.
    total = sum((each.squares for each in distances if not each.distances()["equal"]), np.zeros(2))
    return float(relative(*np.sqrt(total))) if total[0] else None
