"""The tables of a run, read and checked, and the two tables of a pair: its tensors and its steps.

A run's steps.csv has one fingerprint a step of each quantity; fingerprints.npz has those of each
tensor and random number generator. S steps, T parameters, B buffers, R generators.
"""

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from twinrun import artifacts, run_files
from twinrun.comparison.distances import differences, distances, relative, squares, values
from twinrun.comparison.pair import shape_of
from twinrun.comparison.pair_records import Counts
from twinrun.run_records import PER_STEP, RunManifest

# Quantities of a step, in the order in which one causes the next, and their columns in a steps.csv.
QUANTITIES = {
    "before": "before",
    "buffers_before": "buffers_before",
    "random": "random",
    "batch": "batch",
    "random_after": "random_after",
    "buffers": "buffers",
    # The column `loss` is the number, from which distances are taken.
    "loss": "loss_fingerprint",
    "own_gradients": "own_gradients",
    "gradients": "gradients",
    "settings": "settings",
    "optimizer": "optimizer",
    "parameters": "parameters",
}
# Arrays of fingerprints.npz from before the first step, and the names of their columns.
INITIAL = {"initial": "names", "initial_buffers": "buffer_names"}
RNG_STATES = ("random", "random_after")
SAMPLES = ("samples_of_steps", "num_samples")
FINGERPRINT_DIGITS = 16
NOTHING = "0" * FINGERPRINT_DIGITS
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

    manifest: RunManifest
    """run.json."""
    weights: Mapping[str, np.ndarray]
    """Parameters and buffers by name; bfloat16 as its uint16 bits."""
    steps: pd.DataFrame
    """steps.csv, S rows."""
    fingerprints: Mapping[str, np.ndarray]
    """fingerprints.npz, as `Tracer.arrays` describes it."""


def read_tables(run: str | Path, manifest: RunManifest) -> Run:
    """Read the files of a run.

    Args:
        run: its run.json.
        manifest: what that says.

    Raises:
        TwinrunError: if one of them is not what the run wrote, or not of the form that runs write.
    """
    return Run(
        manifest=manifest,
        weights=artifacts.read_tensors(run_files.verified(run, "weights.safetensors")),
        steps=read_steps(run_files.verified(run, "steps.csv"), manifest["steps"]),
        fingerprints=_read_fingerprints(
            run_files.verified(run, "fingerprints.npz"), manifest["steps"]
        ),
    )


def read_steps(path: Path, size: int) -> pd.DataFrame:
    """Read a steps.csv of `size` steps, its fingerprints as text.

    Raises:
        TwinrunError: if it is not of the form that a run writes.
    """
    columns = [*QUANTITIES.values(), "samples"]
    # As text: pandas would make numbers of fingerprints that happen to have no letter, or infinity
    # of those like 12e4567890123456.
    types: dict[Hashable, str] = dict.fromkeys(columns, "str")
    types |= {"step": "int64", "epoch": "int64", "loss": "float64"}
    try:
        table = pd.read_csv(path, dtype=types)
        # Traces of older versions have the settings of the optimizers in `optimizer`, and no
        # buffers from before a step.
        for column in ("settings", "buffers_before"):
            if column not in table:
                table[column] = NOTHING
        # A cell that is missing is NaN, and so is its length: it equals nothing.
        is_whole = len(table) == size and (
            table[columns]
            .apply(lambda column: column.str.len())
            .eq(FINGERPRINT_DIGITS)
            .all(axis=None)
        )
    except (ValueError, KeyError):  # what pandas raises on files that are no such table
        raise _not_whole(path, size, "a fingerprint") from None
    if not is_whole:
        raise _not_whole(path, size, "a fingerprint")
    return table


def _read_fingerprints(path: Path, size: int) -> dict[str, np.ndarray]:
    arrays = artifacts.read_arrays(path)
    needed = {*PER_STEP, *PER_STEP.values(), *INITIAL, *SAMPLES, "sample"}
    # Names first: a length can be asked only of what is there. `samples_of_steps` has a length of
    # its own.
    if needed - set(arrays) or any(
        len(arrays[key]) != size for key in (*PER_STEP, "num_samples", "sample")
    ):
        raise _not_whole(path, size, "an array")
    return arrays


def _not_whole(path: Path, size: int, what: str) -> Exception:
    return run_files.corrupt(path, f"{what} is missing or steps are not {size}")


def tensor_rows(first: Run, second: Run) -> Iterator[dict[str, object]]:
    """Compare the tensors of two runs, a row each with TENSOR_COLUMNS but `repeat`."""
    for tensor in first.manifest["tensors"]:
        # Two runs with other names, types or shapes are no pair, and never come here.
        name, dtype = tensor["name"], tensor["dtype"]
        yield {
            "tensor": name,
            "kind": tensor["kind"],
            "shape": shape_of(tensor),
            "dtype": dtype,
            **distances(first.weights[name], second.weights[name], dtype),
        }


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


def relative_l2(first: Run, second: Run) -> float:
    """Return the relative L2 distance over all parameters together."""
    # Squares add up over the tensors. A mean of their distances would count a bias like a layer.
    total = np.zeros(2)
    for tensor in first.manifest["tensors"]:
        if tensor["kind"] == "parameter":
            name, dtype = tensor["name"], tensor["dtype"]
            total += squares(first.weights[name], second.weights[name], dtype)
    return float(relative(*np.sqrt(total)))


def first_non_finite_loss(run: Run) -> int | None:
    """Return the first step whose loss is infinite or NaN; None if there is none.

    A step that gives no loss, as with manual optimization, is written as NaN too: it is known by
    the fingerprint of nothing.
    """
    is_known = run.steps["loss_fingerprint"] != NOTHING
    broken = run.steps["step"][is_known & ~np.isfinite(run.steps["loss"])]
    return None if broken.empty else int(broken.iloc[0])


def non_finite_parameters(run: Run) -> int:
    """Count the elements of parameters that are infinite or NaN."""
    return sum(
        int((~np.isfinite(values(run.weights[tensor["name"]], tensor["dtype"]))).sum())
        for tensor in run.manifest["tensors"]
        if tensor["kind"] == "parameter"
    )


def step_table(first: Run, second: Run) -> pd.DataFrame:
    """Compare the steps that both runs have, a row each with STEP_COLUMNS but `repeat`."""
    size = min(len(first.steps), len(second.steps))
    left, right = first.steps.iloc[:size], second.steps.iloc[:size]
    # Of one type: a run in float64 keeps its sample in it, one in float32 does not.
    samples = [run.fingerprints["sample"][:size].astype(np.float64) for run in (first, second)]
    rows = [squares(a, b, "float64") for a, b in zip(*samples, strict=True)]
    others = {} if _share_shards(first, second) else {"own_gradients_equal": np.ones(size, bool)}
    # reshape, since without a step the list is empty and has no second dimension.
    apart, sizes = np.sqrt(np.reshape(rows, (size, 2))).T
    return pd.DataFrame(
        {
            "step": left["step"],
            "epoch": left["epoch"],
            **{
                f"{quantity}_equal": left[column] == right[column]
                for quantity, column in QUANTITIES.items()
            },
            # In place of those above: the joined fingerprint of a run on a GPU has a generator
            # more.
            **{f"{key}_equal": _rng_states_equal(first, second, key, size) for key in RNG_STATES},
            **others,
            "loss_difference": differences(
                left["loss"].to_numpy(), right["loss"].to_numpy(), "float64"
            ),
            "relative_l2": relative(apart, sizes),
        }
    )


def _share_shards(first: Run, second: Run) -> bool:
    """Say whether a worker of two runs has the same samples in both.

    If not, its own gradients are others, and one worker alone has none. That is no difference of
    what is computed: the sums over the workers are.
    """
    left, right = (run_files.variant_of(run.manifest) for run in (first, second))
    return (left.devices, left.sharding) == (right.devices, right.sharding)


def _rng_states_equal(first: Run, second: Run, key: str, size: int) -> np.ndarray:
    """Compare the RNG states that both runs have, step by step; (S,) bool.

    A run on a GPU has the GPU's generator too, which one on the CPU lacks.
    """
    names = [list(run.fingerprints["rng_state_names"]) for run in (first, second)]
    both = [name for name in names[0] if name in names[1]]
    left, right = (
        run.fingerprints[key][:size, [own.index(name) for name in both]]
        for run, own in zip((first, second), names, strict=True)
    )
    return (left == right).all(axis=1)
