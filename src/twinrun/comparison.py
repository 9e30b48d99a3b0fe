"""Repeats of a run held against the first: byte by byte, and step by step.

Two tensors are equal when their bytes are: -0.0 differs from 0.0, and a NaN equals a NaN of the
same bits. Where they differ, `distances` tells how far. What differed first is read from the
fingerprints that the runs took, in the order of cause and effect. Runs that are no pair (other
data, settings, code, versions or machine) are not compared: the answer is `not comparable`, with
the reason. Does without torch.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from twinrun import artifacts
from twinrun.jobs import TwinrunError

# What must be equal in the manifests of a pair.
PAIR_FIELDS = ("settings", "data", "source_sha256", "environment.identity")
# Columns of steps.csv in the order in which one causes the next.
QUANTITIES = {
    "batch": "batch",
    "loss": "loss_fingerprint",
    "gradients": "gradients",
    "parameters": "parameters",
}
# fmt: off
TENSOR_COLUMNS = [
    "repeat", "tensor", "kind", "shape", "dtype", "elements", "elements_differing", "share",
    "max_abs", "max_ulp", "relative_l2", "equal",
]
STEP_COLUMNS = [
    "repeat", "step", "epoch", "batch_equal", "loss_equal", "gradients_equal", "parameters_equal",
    "loss_difference", "relative_l2",
]
# fmt: on


def compare(
    runs: Sequence[str | Path], *, summary: str | Path, tensors: str | Path, steps: str | Path
) -> None:
    """Compare every further run with the first and write the summary and two tables.

    Args:
        runs: run.json of the repeats, the first first; the other files of a run lie beside it.
        summary: path of the JSON.
        tensors: path of the table of tensors, a row for each repeat and tensor.
        steps: path of the table of steps, a row for each repeat and step.

    Raises:
        TwinrunError: if a file of a run is corrupt.
    """
    manifests = [artifacts.read_json(run) for run in runs]
    folders = [Path(run).parent for run in runs]
    reason = next(filter(None, (_refusal(manifests[0], other) for other in manifests[1:])), None)
    tensor_rows: list[dict[str, Any]] = []
    step_rows: list[pd.DataFrame] = []
    first_differences, apart = [], [0.0]
    if reason is None:
        first = _read_run(folders[0], manifests[0])
        for folder, manifest in zip(folders[1:], manifests[1:], strict=True):
            other = _read_run(folder, manifest)
            repeat = manifest["repeat"]
            apart.append(_relative_l2(first, other))
            tensor_rows += [{"repeat": repeat, **row} for row in _tensor_rows(first, other)]
            step_rows.append(_step_table(first, other, repeat))
            first_differences.append(_first_difference(first, other, repeat))
    table = pd.DataFrame(tensor_rows, columns=TENSOR_COLUMNS)
    found = [difference for difference in first_differences if difference is not None]
    differs = bool(found) or not table["equal"].all()
    artifacts.write_csv(tensors, table)
    artifacts.write_csv(
        steps, pd.concat(step_rows) if step_rows else pd.DataFrame(columns=STEP_COLUMNS)
    )
    artifacts.write_json(
        summary,
        {
            **{key: manifests[0][key] for key in ("workload", "variant", "seed")},
            "answer": "not comparable" if reason else "differs" if differs else "equal",
            "reason": reason,
            "repeats": len(runs),
            "steps": manifests[0]["steps"],
            **_summary(table),
            "relative_l2": max(apart),
            "first_difference": min(found, key=lambda d: d["step"], default=None),
            "runs": [str(folder) for folder in folders],
        },
    )


# Arithmetic of two tensors


def distances(first: np.ndarray, second: np.ndarray, dtype: str) -> dict[str, Any]:
    """Measure how far two tensors of one shape and dtype are apart.

    Args:
        first: of any shape; bfloat16 as its uint16 bits.
        second: likewise.
        dtype: torch's name of the type, such as float32.

    Returns:
        elements, elements_differing (in their bytes), share, max_abs (of finite elements, in
        float64), max_ulp, relative_l2 (|a - b| / |a|; of finite elements), equal.

    >>> distances(np.float32([1, 2]), np.float32([1, 2.0000002]), "float32")["max_ulp"]
    1
    >>> distances(np.float32([0.0]), np.float32([-0.0]), "float32")["equal"]
    False
    """
    first, second = np.atleast_1d(first), np.atleast_1d(second)
    differing = int(differing_elements(first, second).sum())
    with np.errstate(all="ignore"):
        difference = values(second, dtype) - values(first, dtype)
        finite = np.isfinite(difference)
        norm = float(np.linalg.norm(values(first, dtype)[finite]))
    distance = float(np.linalg.norm(difference[finite]))
    return {
        "elements": first.size,
        "elements_differing": differing,
        "share": differing / first.size if first.size else 0.0,
        "max_abs": float(np.abs(difference[finite]).max(initial=0.0)),
        "max_ulp": max_ulp(first, second, dtype),
        "relative_l2": distance / norm if norm else (float("inf") if distance else 0.0),
        "equal": differing == 0,
    }


def differing_elements(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Mark the elements whose bytes differ, flat, bool.

    >>> differing_elements(np.float32([0.0, 1.0]), np.float32([-0.0, 1.0])).tolist()
    [True, False]
    """
    size = first.dtype.itemsize
    pairs = (np.ascontiguousarray(a).reshape(-1).view(np.uint8) for a in (first, second))
    left, right = (a.reshape(-1, size) for a in pairs)
    return (left != right).any(axis=1)


def max_ulp(first: np.ndarray, second: np.ndarray, dtype: str) -> int:
    """Count the steps between neighbouring numbers from one value to the other; give the most.

    For floating-point types the numbers of a type are counted through in order: -0.0 and 0.0 are
    one step apart, infinities stand after the largest finite numbers, NaN after them by its bits.
    For integers it is the absolute difference.

    >>> max_ulp(np.float32([-0.0]), np.float32([0.0]), "float32")
    1
    >>> max_ulp(np.float64([1.0]), np.nextafter([1.0], 2), "float64")
    1
    """
    if not first.size:
        return 0
    # Python's integers: the distance of two float64 or int64 can exceed every fixed width.
    low, high = _ordered(first, dtype), _ordered(second, dtype)
    larger, smaller = np.maximum(low, high), np.minimum(low, high)
    gaps = larger.view(np.uint64) - smaller.view(np.uint64)  # exact modulo 2**64, and positive
    return int(gaps.max())


def values(array: np.ndarray, dtype: str) -> np.ndarray:
    """Give the elements, flat, in float64.

    >>> values(np.uint16([0x3F80]), "bfloat16").tolist()
    [1.0]
    """
    flat = array.reshape(-1)
    if dtype == "bfloat16":  # the upper half of a float32
        flat = (flat.astype(np.uint32) << 16).view(np.float32)
    return flat.astype(np.float64)


def _ordered(array: np.ndarray, dtype: str) -> np.ndarray:
    """Map values to int64 in their order, neighbours to neighbours."""
    flat = np.ascontiguousarray(array).reshape(-1)
    if not (np.issubdtype(flat.dtype, np.floating) or dtype == "bfloat16"):
        return flat.astype(np.int64)
    bits = flat.view(f"i{flat.dtype.itemsize}").astype(np.int64)
    # A negative number has its sign bit set and its magnitude growing upwards: turn those around.
    lowest = np.int64(-(2 ** (8 * flat.dtype.itemsize - 1)))
    return np.where(bits < 0, lowest - (bits + 1), bits)


# Two runs


def _refusal(first: Mapping[str, Any], second: Mapping[str, Any]) -> str | None:
    """Say why two runs are no pair."""
    for manifest in (first, second):
        if manifest["ended"] != "finished":
            return f"repeat {manifest['repeat']} did not finish: {manifest['ended']}"
    for field in PAIR_FIELDS:
        left, right = first, second
        for key in field.split("."):
            left, right = left[key], right[key]
        for path, a, b in _unequal(left, right, field):
            return (
                f"{path} is {a!r} in repeat {first['repeat']} and {b!r} in repeat "
                f"{second['repeat']}: the runs are no pair"
            )
    return None


def _unequal(left: Any, right: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        for key in {**left, **right}:
            yield from _unequal(left.get(key), right.get(key), f"{path}.{key}")
    elif left != right:
        yield path, left, right


def _read_run(folder: Path, manifest: Mapping[str, Any]) -> dict[str, Any]:
    weights = folder / "weights.safetensors"
    found = artifacts.sha256(weights)
    if found != manifest["weights_sha256"]:
        raise TwinrunError(
            f"{weights} is corrupt: its sha256 is {found}, its run recorded "
            f"{manifest['weights_sha256']}; delete its folder and the run is made again"
        )
    return {
        "manifest": manifest,
        "weights": artifacts.read_tensors(weights),
        "steps": pd.read_csv(folder / "steps.csv", dtype=dict.fromkeys(QUANTITIES.values(), str)),
        "fingerprints": artifacts.read_arrays(folder / "fingerprints.npz"),
    }


def _tensor_rows(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for tensor in first["manifest"]["tensors"]:
        name = tensor["name"]
        measured = distances(first["weights"][name], second["weights"][name], tensor["dtype"])
        shape = "x".join(map(str, tensor["shape"])) or "scalar"
        yield {
            "tensor": name,
            **{key: tensor[key] for key in ("kind", "dtype")},
            "shape": shape,
            **measured,
        }


def _step_table(first: Mapping[str, Any], second: Mapping[str, Any], repeat: int) -> pd.DataFrame:
    """Hold two runs' steps against each other, as far as both have them."""
    left, right = first["steps"], second["steps"]
    size = min(len(left), len(right))
    left, right = left.iloc[:size], right.iloc[:size]
    samples = [run["fingerprints"]["sample"][:size] for run in (first, second)]
    with np.errstate(all="ignore"):
        apart = np.linalg.norm(samples[1] - samples[0], axis=1)
        relative = apart / np.linalg.norm(samples[0], axis=1)
    return pd.DataFrame(
        {
            "repeat": repeat,
            "step": left["step"],
            "epoch": left["epoch"],
            **{
                f"{quantity}_equal": left[column] == right[column]
                for quantity, column in QUANTITIES.items()
            },
            "loss_difference": (left["loss"] - right["loss"]).abs(),
            "relative_l2": np.where(apart == 0, 0.0, relative),
        }
    )


def _first_difference(
    first: Mapping[str, Any], second: Mapping[str, Any], repeat: int
) -> dict[str, Any] | None:
    """Name the first step whose fingerprints differ, and what differed first in it."""
    left, right = first["fingerprints"], second["fingerprints"]
    differing = left["initial"] != right["initial"]
    if differing.any():
        name = str(left["names"][differing.argmax()])
        place = {"step": 0, "epoch": 0, "quantity": "initial parameters", "tensor": name}
        return {"repeat": repeat, **place}
    table = _step_table(first, second, repeat)
    equal = table[[f"{quantity}_equal" for quantity in QUANTITIES]].to_numpy()
    if equal.all():
        return _other_length(first, second, repeat)
    row = int((~equal).any(axis=1).argmax())
    quantity = list(QUANTITIES)[int((~equal[row]).argmax())]
    tensor = None
    if quantity in left:
        differing = left[quantity][row] != right[quantity][row]
        tensor = str(left["names"][differing.argmax()])
    step, epoch = (int(table[key].iloc[row]) for key in ("step", "epoch"))
    return {"repeat": repeat, "step": step, "epoch": epoch, "quantity": quantity, "tensor": tensor}


def _other_length(
    first: Mapping[str, Any], second: Mapping[str, Any], repeat: int
) -> dict[str, Any] | None:
    """One run did more steps than the other: it differs from the first of those on."""
    lengths = len(first["steps"]), len(second["steps"])
    if lengths[0] == lengths[1]:
        return None
    longer = first["steps"] if lengths[0] > lengths[1] else second["steps"]
    row = longer.iloc[min(lengths)]
    place = {"step": int(row["step"]), "epoch": int(row["epoch"])}
    return {"repeat": repeat, **place, "quantity": "number of steps", "tensor": None}


def _summary(table: pd.DataFrame) -> dict[str, Any]:
    """Sum up the table of tensors: counts of the worst repeat, and how far it is off."""
    parameters = table[table["kind"] == "parameter"]
    counts = {}
    for name, part in (("parameters", parameters), ("buffers", table[table["kind"] == "buffer"])):
        by_repeat = part.assign(tensors_differing=~part["equal"].astype(bool)).groupby("repeat")
        sums = by_repeat[["elements", "tensors_differing", "elements_differing"]].sum()
        counts[name] = {
            "tensors": int(part["tensor"].nunique()),
            **{column: int(sums[column].max() if len(sums) else 0) for column in sums},
        }
    return {
        **counts,
        "max_abs": float(parameters["max_abs"].max()) if len(parameters) else 0.0,
        "max_ulp": int(parameters["max_ulp"].max()) if len(parameters) else 0,
    }


def _relative_l2(first: Mapping[str, Any], second: Mapping[str, Any]) -> float:
    """Give |a - b| / |a| over all parameters together, of finite elements."""
    squares = np.zeros(2)
    for tensor in first["manifest"]["tensors"]:
        if tensor["kind"] != "parameter":
            continue
        left, right = (
            values(run["weights"][tensor["name"]], tensor["dtype"]) for run in (first, second)
        )
        with np.errstate(all="ignore"):
            finite = np.isfinite(right - left)
        squares += [np.sum((right - left)[finite] ** 2), np.sum(left[finite] ** 2)]
    return float(np.sqrt(squares[0] / squares[1])) if squares[1] else 0.0
