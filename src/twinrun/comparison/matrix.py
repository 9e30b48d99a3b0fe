"""A matrix: what each change of the baseline did to the training, a row and a sentence a cell.

Every cell is a run held against the baseline's first one. If the baseline's repeat is not equal to
it, nothing can be said of any change, and the cells are `not comparable`.

The size of a difference is told by how far the losses are apart, relative to the baseline's loss,
the larger of the step where the runs parted and the next: the one shows what the forward pass did,
the other what an update made of it; later ones, how training enlarges anything. It is `rounding` up
to ROUNDING_UNITS relative spacings of the coarser run's numbers, if that is less than STREAM_SHARE
of what another seed does. What is larger is a `stream`: other batches, other random numbers or
other statistics.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from twinrun import artifacts, run_files
from twinrun.comparison.distances import differing_elements, values
from twinrun.formatting import count, measure, percent, plural

LOOK_STEPS = 2
ROUNDING_UNITS = 2**10  # a sum of n numbers rounds off by up to n of them, typically its root
STREAM_SHARE = 0.1
# Relative spacings by Lightning's names of the precision; cuDNN computes 32-true in TF32.
UNITS = {"64-true": 2**-52, "32-true": 2**-23, "16-mixed": 2**-10}
UNIT_TF32, UNIT_BFLOAT16 = 2**-10, 2**-7
SIZES = {"rounding": "no more than rounding explains", "stream": "more than rounding explains"}
# fmt: off
COLUMNS = [
    "cell", "label", "answer", "first_step", "quantity", "tensor", "cause", "relative_l2",
    "size", "predictions_changed", "predictions", "sentence",
]
# fmt: on


def tabulate(
    cells: Sequence[Mapping[str, Any]],
    comparisons: Sequence[str],
    *,
    identity: Mapping[str, Any],
    table: str | Path,
    summary: str | Path,
) -> None:
    """Write the table of a matrix, and the same as JSON with what all cells share.

    Args:
        cells: `name`, `label` of each, in order, and `not_run`, a reason or None.
        comparisons: the JSON of each one that was run, `<name>.json`; its tables lie beside it.
        identity: `workload`, `baseline` and `seed`.
        table: path of the CSV.
        summary: path of the JSON.
    """
    found = {Path(path).stem: Comparison(path) for path in comparisons}
    repeat, seed = found.get("repeat"), found.get("seed")
    doubt = None if repeat is None else _doubt(repeat)
    scale = None if seed is None else seed.loss_apart()
    rows = [
        {
            "cell": cell["name"],
            "label": cell["label"],
            **_row(cell, found.get(cell["name"]), doubt=doubt, scale=scale),
        }
        for cell in cells
    ]
    for row in rows:
        row["sentence"] = sentence(row)
    artifacts.write_csv(table, pd.DataFrame(rows)[COLUMNS])
    artifacts.write_json(
        summary,
        {
            **identity,
            "answer": "not run" if repeat is None else repeat.answer,
            "reason": doubt,
            "steps": None if repeat is None else repeat.found["steps"],
            "scale": scale,
            "cells": rows,
        },
    )


class Comparison:
    """A comparison of two runs, with what a matrix asks of it beyond its summary."""

    def __init__(self, path: str | Path) -> None:
        self.found: Mapping[str, Any] = artifacts.read_json(path)
        self.answer: str = self.found["answer"]
        self._path = Path(path)
        self._folders = [Path(folder) for folder in self.found["runs"]]

    def loss_apart(self) -> float | None:
        """Give |difference of the losses| / |loss|, the largest of the steps looked at."""
        first = self.found["first_difference"]
        if first is None:
            return None
        steps = pd.read_csv(self._path.with_suffix(".steps.csv"))["loss_difference"]
        losses = pd.read_csv(self._folders[0] / "steps.csv")["loss"]
        start = max(first["step"] - 1, 0)
        apart = (steps / losses.abs())[start : start + LOOK_STEPS].max()
        return None if math.isnan(apart) else float(apart)

    def size(self, scale: float | None) -> str | None:
        """Say `rounding` or `stream`; `scale` is how far another seed is apart."""
        apart = self.loss_apart()
        if apart is None:
            return None
        most = ROUNDING_UNITS * max(map(_unit, self._folders))
        return "rounding" if apart <= min(most, STREAM_SHARE * (scale or math.inf)) else "stream"

    def predictions(self) -> tuple[float | None, str]:
        """Give the share of predictions that change, and what is meant by one.

        Scores of classes, (N, C) floating-point numbers, count by the class that is predicted,
        everything else by its bytes; of several such tensors the one that changes most.
        """
        first, second = (
            artifacts.read_tensors(folder / "predictions.safetensors") for folder in self._folders
        )
        both = [name for name in first if name in second]
        shares = [(_changed(first[name], second[name]), first[name]) for name in both]
        classes = [share for share, array in shares if _is_scores(array)]
        if classes:
            return max(classes), "predicted classes"
        return max((share for share, _ in shares), default=None), "predicted values"


def _unit(folder: Path) -> float:
    """Give the relative spacing of the numbers that a run computed with."""
    variant = run_files.read_run(folder / "run.json")["settings"]["variant"]
    if variant["precision"] == "32-true" and variant["accelerator"] == "gpu":
        return UNIT_TF32
    return UNITS.get(variant["precision"], UNIT_BFLOAT16)


def _is_scores(array: np.ndarray) -> bool:
    is_floating = array.dtype.kind == "f" or array.dtype == np.uint16  # bfloat16 comes as its bits
    return is_floating and array.ndim == 2 and array.shape[1] > 1


def _changed(first: np.ndarray, second: np.ndarray) -> float:
    """Give the share of predictions that are not the same.

    >>> _changed(np.array([[0.1, 0.9], [0.8, 0.2]]), np.array([[0.2, 0.8], [0.4, 0.6]]))
    0.5
    """
    if _is_scores(first):
        dtypes = ("bfloat16" if a.dtype == np.uint16 else str(a.dtype) for a in (first, second))
        scores = (
            values(array, dtype).reshape(array.shape)
            for array, dtype in zip((first, second), dtypes, strict=True)
        )
        left, right = (array.argmax(1) for array in scores)
        return float((left != right).mean()) if len(left) else 0.0
    differing = differing_elements(first, second)
    return float(differing.mean()) if differing.size else 0.0


def _doubt(repeat: Comparison) -> str | None:
    """Say why no cell can be compared; None if the baseline repeats."""
    if repeat.answer == "equal":
        return None
    return repeat.found["reason"] or "the baseline does not repeat"


def _row(
    cell: Mapping[str, Any],
    comparison: Comparison | None,
    *,
    doubt: str | None,
    scale: float | None,
) -> dict[str, Any]:
    """Say what a cell's comparison says, and how large the difference is."""
    row: dict[str, Any] = {**dict.fromkeys(COLUMNS[2:]), "reason": None, "steps": None}
    if comparison is None:
        return row | {"answer": "not run", "reason": cell["not_run"]}
    found = comparison.found
    if found["answer"] == "not comparable" or (doubt and cell["name"] != "repeat"):
        return row | {"answer": "not comparable", "reason": found["reason"] or doubt}
    row |= {"answer": found["answer"], "relative_l2": found["relative_l2"], "steps": found["steps"]}
    row["predictions_changed"], row["predictions"] = comparison.predictions()
    first = found["first_difference"]
    if first is None:
        return row
    return row | {
        "size": comparison.size(scale),
        "first_step": first["step"],
        "quantity": first["quantity"],
        "tensor": first["tensor"],
        "cause": first.get("cause"),
    }


def sentence(row: Mapping[str, Any]) -> str:
    """Say a cell in plain words.

    >>> sentence({"label": "threads: 2", "answer": "equal", "steps": 30})
    'threads: 2: every bit of 30 steps stays the same.'
    """
    return f"{row['label']}: {'; '.join(_clauses(row))}."


def _clauses(row: Mapping[str, Any]) -> Iterator[str]:
    if row["answer"] in ("not run", "not comparable"):
        yield f"{row['answer']}, {row['reason']}"
        return
    if row["answer"] == "equal":
        yield f"every bit of {plural(row['steps'], 'step')} stays the same"
        return
    yield _parting(row)
    if row["size"] is not None:
        yield SIZES[row["size"]]
    yield f"at the end a relative L2 of {measure(row['relative_l2'])}"
    if row["predictions_changed"] is not None:
        yield f"{percent(row['predictions_changed'])} of the {row['predictions']} change"


def _parting(row: Mapping[str, Any]) -> str:
    if row["first_step"] is None:
        return "differs after the last step"
    of_tensor = f" of {row['tensor']}" if row["tensor"] else ""
    cause = f" (cause: {row['cause']})" if row["cause"] else ""
    when = "before training" if not row["first_step"] else f"from step {count(row['first_step'])}"
    return f"differs {when}, first in the {row['quantity']}{of_tensor}{cause}"
