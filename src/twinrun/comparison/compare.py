"""Runs of one seed held against the first of them: byte by byte, and step by step.

Two tensors are equal when their bytes are (see `distances`). What differed first is read from the
fingerprints that the runs took at every step, in the order of cause and effect (see `causes`). Runs
that are no pair (other data, settings, code, versions or machine, or not finished) are not
compared: the answer is `not comparable`, with the reason, and the tables are empty. A pair is equal
if all its tensors and all its steps are, and both did as many steps. Does without torch.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from twinrun import artifacts, run_files
from twinrun.comparison.causes import cause_of
from twinrun.comparison.distances import (
    differences,
    differing_elements,
    distances,
    relative,
    squares,
    values,
)
from twinrun.run_files import PER_STEP

__all__ = ["compare", "compare_seeds", "differing_elements", "values"]

# Columns of a run's steps.csv in the order in which one causes the next.
QUANTITIES = {
    "before": "before",
    "random": "random",
    "batch": "batch",
    "random_after": "random_after",
    "buffers": "buffers",
    "loss": "loss_fingerprint",
    "own_gradients": "own_gradients",
    "gradients": "gradients",
    "optimizer": "optimizer",
    "parameters": "parameters",
}
# What they are called where another word than their own is clearer; see `causes`.
WORDS = {
    "before": "parameters before the step",
    "random": "random streams",
    "random_after": "random streams after the step",
    "own_gradients": "workers' own gradients",
    "optimizer": "optimizer state",
}
# Arrays of fingerprints.npz and the names of their columns.
INITIAL = {"initial": "names", "initial_buffers": "buffer_names"}
STREAMS = ("random", "random_after")
SAMPLES = ("samples_of_steps", "num_samples")
FINGERPRINT_DIGITS = 16
# fmt: off
TENSOR_COLUMNS = [
    "repeat", "tensor", "kind", "shape", "dtype", "elements", "elements_differing", "share",
    "max_abs", "max_ulp", "relative_l2", "equal",
]
STEP_COLUMNS = [
    "repeat", "step", "epoch", *(f"{quantity}_equal" for quantity in QUANTITIES),
    "loss_difference", "relative_l2",
]
# fmt: on


@dataclass(frozen=True, kw_only=True)
class Run:
    """The files of a run, as far as a comparison needs them."""

    manifest: Mapping[str, Any]
    """run.json."""
    weights: Mapping[str, np.ndarray]
    """Parameters and buffers by name; bfloat16 as its uint16 bits."""
    steps: pd.DataFrame
    """steps.csv."""
    fingerprints: Mapping[str, np.ndarray]
    """fingerprints.npz, as `Tracer.arrays` describes it."""


def compare(
    runs: Sequence[str | Path],
    *,
    summary: str | Path,
    tensors: str | Path,
    steps: str | Path,
    across: bool = False,
) -> None:
    """Compare every further run with the first and write the summary and two tables.

    Args:
        runs: run.json of the repeats, the first first; the other files of a run lie beside it.
        summary: path of the JSON.
        tensors: path of the table of tensors, a row for each repeat and tensor.
        steps: path of the table of steps, a row for each repeat and step that both runs have.
        across: hold a run of another variant or seed against the first: these may differ, and the
            instruction set, which a variant can choose, nothing else. The summary then names the
            second run's variant, `against` the first's.

    Raises:
        TwinrunError: if a file of a run is corrupt or missing.
    """
    compared, tensor_table, step_table = _compared(runs, across=across)
    artifacts.write_csv(tensors, tensor_table)
    artifacts.write_csv(steps, step_table)
    artifacts.write_json(summary, compared)


def compare_seeds(
    runs: Sequence[str | Path],
    *,
    summary: str | Path,
    tensors: str | Path,
    steps: str | Path,
    across: bool = False,
) -> None:
    """Compare the runs of each seed as `compare` does: a list of summaries, `seed` in the tables.

    Args:
        runs: run.json of all seeds; of each, the one to hold the others against first.
        summary: as for `compare`.
        tensors: as for `compare`.
        steps: as for `compare`.
        across: as for `compare`.

    Raises:
        TwinrunError: as for `compare`.
    """
    seeds: dict[int, list[str | Path]] = {}
    for run in runs:
        seeds.setdefault(run_files.read_run(run)["seed"], []).append(run)
    compared, *tables = zip(
        *(_compared(group, across=across) for group in seeds.values()), strict=True
    )
    for path, found in zip((tensors, steps), tables, strict=True):
        table = pd.concat(found, keys=seeds, names=["seed"]).reset_index("seed")
        artifacts.write_csv(path, table)
    artifacts.write_json(summary, list(compared))


def _compared(
    runs: Sequence[str | Path], *, across: bool
) -> tuple[dict[str, Any], pd.DataFrame, pd.DataFrame]:
    """Give the summary and the tables of tensors and steps."""
    files = ("weights.safetensors", "steps.csv", "fingerprints.npz")
    manifests = [run_files.read_run(run, *files) for run in runs]
    folders = [Path(run).parent for run in runs]
    found = (_refusal(manifests[0], other, across=across) for other in manifests[1:])
    reason = next(filter(None, found), None)
    tensor_rows: list[dict[str, Any]] = []
    step_tables = [pd.DataFrame(columns=STEP_COLUMNS)]
    first_differences, distances_l2 = [], []
    if reason is None:
        first = _read(folders[0], manifests[0])
        for folder, manifest in zip(folders[1:], manifests[1:], strict=True):
            other, repeat = _read(folder, manifest), {"repeat": manifest["repeat"]}
            tensor_rows += [repeat | row for row in _tensor_rows(first, other)]
            step_tables.append(_step_table(first, other).assign(**repeat))
            first_differences += [repeat | found for found in _first_difference(first, other)]
            distances_l2.append(_relative_l2(first, other))
    table = pd.DataFrame(tensor_rows, columns=TENSOR_COLUMNS)
    differs = bool(first_differences) or not table["equal"].all()
    parameters = table[table["kind"] == "parameter"]
    summary = {
        **{key: manifests[-1][key] for key in ("workload", "variant", "seed")},
        **({"against": manifests[0]["variant"]} if across else {}),
        "answer": "not comparable" if reason else "differs" if differs else "equal",
        "reason": reason,
        "repeats": len(runs),
        "steps": manifests[0]["steps"],
        "parameters": _counts(parameters),
        "buffers": _counts(table[table["kind"] == "buffer"]),
        "max_abs": None if reason else float(max(parameters["max_abs"], default=0)),
        "max_ulp": None if reason else int(max(parameters["max_ulp"], default=0)),
        "relative_l2": None if reason else max(distances_l2),
        "first_difference": min(first_differences, key=lambda d: d["step"], default=None),
        "runs": [str(folder) for folder in folders],
    }
    return summary, table, pd.concat(step_tables[1:] or step_tables)[STEP_COLUMNS]


# Which runs are a pair


def _refusal(first: Mapping[str, Any], second: Mapping[str, Any], *, across: bool) -> str | None:
    """Say why two runs are no pair; None if they are one."""
    # Two runs of one variant are told apart by their repeats, others by their variants.
    key = "variant" if across else "repeat"
    for manifest in (first, second):
        if manifest["ended"] != "finished":
            return f"ended is {manifest['ended']!r} in {key} {manifest[key]}, not 'finished'"
    identities = (_identity(manifest, across=across) for manifest in (first, second))
    for path, left, right in _unequal(*identities):
        return (
            f"{path} is {left!r} in {key} {first[key]} and {right!r} in {key} {second[key]}: the "
            f"runs are no pair"
        )
    return None


def _identity(manifest: Mapping[str, Any], *, across: bool) -> dict[str, Any]:
    """Give what two runs must share to be a pair."""
    data = manifest["data"]
    machine = manifest["environment"]["identity"]
    if across:
        how = {"settings": {"workload": manifest["settings"]["workload"]}}
        machine = {key: value for key, value in machine.items() if key != "cpu_capability"}
    else:
        how = {key: manifest[key] for key in ("variant", "settings", "seed")}
    return {
        "workload": manifest["workload"],
        **how,
        "data": data and {"sha256": data["sha256"]},
        "source_sha256": manifest["source_sha256"],
        "environment": machine,
        "tensors": {
            tensor["name"]: f"{tensor['kind']} {tensor['dtype']} {_shape(tensor)}"
            for tensor in manifest["tensors"]
        },
    }


def _unequal(left: Any, right: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Walk two nested mappings; give the dotted key and both values wherever they differ."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        for key in {**left, **right}:
            yield from _unequal(left.get(key), right.get(key), f"{path}.{key}".lstrip("."))
    elif repr(left) != repr(right):  # 1 and 1.0 are not the same setting, a NaN is
        yield path, left, right


def _shape(tensor: Mapping[str, Any]) -> str:
    return "x".join(map(str, tensor["shape"])) or "scalar"


def _read(folder: Path, manifest: Mapping[str, Any]) -> Run:
    return Run(
        manifest=manifest,
        weights=artifacts.read_tensors(folder / "weights.safetensors"),
        steps=_read_steps(folder / "steps.csv", manifest["steps"]),
        fingerprints=_read_fingerprints(folder / "fingerprints.npz", manifest["steps"]),
    )


def _read_steps(path: Path, size: int) -> pd.DataFrame:
    columns = [*QUANTITIES.values(), "samples"]
    types = {"step": "int64", "epoch": "int64", "loss": "float64", **dict.fromkeys(columns, "str")}
    try:
        table = pd.read_csv(path, dtype=types)
        is_whole = len(table) == size and (
            table[columns]
            .apply(lambda column: column.str.len())
            .eq(FINGERPRINT_DIGITS)
            .all(axis=None)
        )
    except (ValueError, KeyError):  # what pandas raises on files that are no such table
        is_whole = False
    if not is_whole:
        raise run_files.corrupt(path, f"a fingerprint is missing or steps are not {size}")
    return table


def _read_fingerprints(path: Path, size: int) -> dict[str, np.ndarray]:
    arrays = artifacts.read_arrays(path)
    needed = {*PER_STEP, *PER_STEP.values(), *INITIAL, *SAMPLES, "sample"}
    if needed - set(arrays) or any(
        len(arrays[key]) != size for key in (*PER_STEP, "num_samples", "sample")
    ):
        raise run_files.corrupt(path, f"an array is missing or steps are not {size}")
    return arrays


# How two runs of a pair differ


def _tensor_rows(first: Run, second: Run) -> Iterator[dict[str, Any]]:
    for tensor in first.manifest["tensors"]:
        name, dtype = tensor["name"], tensor["dtype"]
        yield {
            "tensor": name,
            "kind": tensor["kind"],
            "shape": _shape(tensor),
            "dtype": dtype,
            **distances(first.weights[name], second.weights[name], dtype),
        }


def _step_table(first: Run, second: Run) -> pd.DataFrame:
    """Hold the steps that both runs have against each other."""
    size = min(len(first.steps), len(second.steps))
    left, right = first.steps.iloc[:size], second.steps.iloc[:size]
    samples = [run.fingerprints["sample"][:size].astype(np.float64) for run in (first, second)]
    losses = [table["loss"].to_numpy(np.float64) for table in (left, right)]
    rows = [squares(a, b, "float64") for a, b in zip(*samples, strict=True)]
    apart, sizes = np.sqrt(np.reshape(rows, (size, 2))).T
    return pd.DataFrame(
        {
            "step": left["step"],
            "epoch": left["epoch"],
            **{
                f"{quantity}_equal": left[column] == right[column]
                for quantity, column in QUANTITIES.items()
            },
            **{f"{key}_equal": _streams_equal(first, second, key, size) for key in STREAMS},
            "loss_difference": differences(*losses, "float64"),
            "relative_l2": relative(apart, sizes),
        }
    )


def _streams_equal(first: Run, second: Run, key: str, size: int) -> np.ndarray:
    """Hold the random streams that both runs have against each other, step by step."""
    names = [list(run.fingerprints["stream_names"]) for run in (first, second)]
    both = [name for name in names[0] if name in names[1]]
    left, right = (
        run.fingerprints[key][:size, [own.index(name) for name in both]]
        for run, own in zip((first, second), names, strict=True)
    )
    return (left == right).all(axis=1)


def _first_difference(first: Run, second: Run) -> list[dict[str, Any]]:
    """Name the first step that differs, what differed first in it, and its cause; [] if none."""
    workers = first.manifest["settings"]["variant"].get("devices", 1)
    found = _initial_difference(first, second) or _difference_in_steps(first, second)
    return [place | {"cause": cause_of(place, workers=workers)} for place in found]


def _initial_difference(first: Run, second: Run) -> list[dict[str, Any]]:
    for key, names in INITIAL.items():
        tensor = _differing_name(first, second, key, names)
        if tensor is not None:
            quantity = "initial parameters" if key == "initial" else "initial buffers"
            return [{"step": 0, "epoch": 0, "quantity": quantity, "tensor": tensor}]
    return []


def _difference_in_steps(first: Run, second: Run) -> list[dict[str, Any]]:
    table = _step_table(first, second)
    equal = table[[f"{quantity}_equal" for quantity in QUANTITIES]].to_numpy()
    if equal.all():
        return _other_length(first.steps, second.steps)
    row = int((~equal).any(axis=1).argmax())
    quantity = list(QUANTITIES)[int((~equal[row]).argmax())]
    tensor = None
    if quantity in PER_STEP:
        tensor = _differing_name(first, second, quantity, PER_STEP[quantity], row)
    words = WORDS.get(quantity, quantity)
    if quantity == "batch":
        words = f"{'order' if _is_other_order(first, second, row) else 'content'} of the batch"
    place = {key: int(table[key].iloc[row]) for key in ("step", "epoch")}
    return [{**place, "quantity": words, "tensor": tensor}]


def _differing_name(
    first: Run, second: Run, key: str, names: str, row: int | None = None
) -> str | None:
    """Name the tensor or stream that differed first among those of a quantity, if one did."""
    left, right = (
        dict(zip(run.fingerprints[names], values if row is None else values[row], strict=True))
        for run in (first, second)
        for values in [run.fingerprints[key]]
    )
    differing = [str(name) for name in left if name in right and left[name] != right[name]]
    # ASSUME the module's order is that of its forward pass. The backward pass goes the other
    # way, so of the gradients that differ the last one was computed first.
    return differing[-1 if key == "gradients" else 0] if differing else None


def _is_other_order(first: Run, second: Run, row: int) -> bool:
    """Say of two batches that differ whether the same samples came at another place or time.

    ASSUME they did if most of the samples that one batch has and the other has not are elsewhere in
    the other run's epoch; a last partial batch that is dropped leaves a few out. Beyond the samples
    that a run keeps, only an order inside the batch is told from another content.
    """
    if first.steps["samples"][row] == second.steps["samples"][row]:
        return True
    own, other = (np.split(*_samples_of_steps(run))[row] for run in (first, second))
    epoch = (second.steps["epoch"] == first.steps["epoch"][row]).to_numpy()
    others = second.fingerprints["samples_of_steps"][
        np.repeat(epoch, second.fingerprints["num_samples"])
    ]
    moved = np.isin(np.setdiff1d(own, other), others)
    return len(own) > 0 and (not len(moved) or bool(moved.mean() > 0.5))


def _samples_of_steps(run: Run) -> tuple[np.ndarray, np.ndarray]:
    samples, sizes = (run.fingerprints[key] for key in SAMPLES)
    return samples, np.cumsum(sizes)[:-1]


def _other_length(first: pd.DataFrame, second: pd.DataFrame) -> list[dict[str, Any]]:
    """Name the first step that only one of two runs has; [] if both have as many."""
    if len(first) == len(second):
        return []
    longer = max(first, second, key=len)
    row = longer.iloc[min(len(first), len(second))]
    place = {key: int(row[key]) for key in ("step", "epoch")}
    return [{**place, "quantity": "number of steps", "tensor": None}]


def _relative_l2(first: Run, second: Run) -> float:
    """Give the relative L2 distance over all parameters together."""
    total = np.zeros(2)
    for tensor in first.manifest["tensors"]:
        if tensor["kind"] == "parameter":
            name, dtype = tensor["name"], tensor["dtype"]
            total += squares(first.weights[name], second.weights[name], dtype)
    return float(relative(*np.sqrt(total)))


def _counts(table: pd.DataFrame) -> dict[str, int]:
    """Count tensors and elements, and of each those that differ in the worst repeat."""
    counts = {"tensors": 0, "elements": 0, "tensors_differing": 0, "elements_differing": 0}
    for _, rows in table.groupby("repeat"):
        found = {
            "tensors": len(rows),
            "elements": rows["elements"].sum(),
            "tensors_differing": (~rows["equal"].astype(bool)).sum(),
            "elements_differing": rows["elements_differing"].sum(),
        }
        counts = {key: max(value, int(found[key])) for key, value in counts.items()}
    return counts
