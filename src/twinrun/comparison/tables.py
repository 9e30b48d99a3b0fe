"""The tables of a run, read and checked, and the two tables of a pair: its tensors and its steps.

A run's steps.csv has one fingerprint a step of each quantity; fingerprints.npz has those of each
tensor and random number generator. S steps, T parameters, B buffers, R generators.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from twinrun import artifacts, run_files
from twinrun.comparison.comparable import are_comparable, batches, equal_as_far_as_known
from twinrun.comparison.distances import differences, relative, squares
from twinrun.comparison.kept_steps import rows_of
from twinrun.comparison.pair_records import NonFiniteLoss
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
KEPT = ("detail_steps", "sample_steps")
FINGERPRINT_DIGITS = 16
NOTHING = 0  # the fingerprint of what is None
PART = 16_384  # rows of a steps.csv that are read at once
# fmt: off
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
    weights: artifacts.StoredTensors
    """Parameters and buffers by name; bfloat16 as its uint16 bits."""
    steps: pd.DataFrame
    """steps.csv, S rows; its fingerprints as numbers, uint64."""
    fingerprints: Mapping[str, np.ndarray]
    """fingerprints.npz, as `StepTables.arrays` describes it."""


def read_tables(run: str | Path, manifest: RunManifest) -> Run:
    """Read the files of a run.

    Args:
        run: its run.json.
        manifest: what that says.

    Raises:
        TwinrunError: if one of them is not what the run wrote, or not of the form that runs write.
    """
    size = rows_of_trace(manifest)
    return Run(
        manifest=manifest,
        weights=artifacts.StoredTensors(run_files.verified(run, "weights.safetensors")),
        steps=read_steps(run_files.verified(run, "steps.csv"), size),
        fingerprints=_read_fingerprints(run_files.verified(run, "fingerprints.npz"), size),
    )


def rows_of_trace(manifest: RunManifest) -> int:
    """Count the steps of a run that were traced."""
    return run_files.variant_of(manifest).traced.number(manifest["steps"])


def read_steps(path: Path, size: int) -> pd.DataFrame:
    """Read a steps.csv of `size` steps, its fingerprints as numbers, uint64.

    Raises:
        TwinrunError: if it is not of the form that a run writes.
    """
    columns = [*QUANTITIES.values(), "samples"]
    # As text: pandas would make numbers of fingerprints that happen to have no letter, or infinity
    # of those like 12e4567890123456.
    types: dict[Hashable, str] = dict.fromkeys(columns, "str")
    types |= {"step": "int64", "epoch": "int64", "loss": "float64"}
    try:
        # In parts: as texts a million steps would take gigabytes.
        with pd.read_csv(path, dtype=types, chunksize=PART, **artifacts.to_the_bit()) as parts:
            table = pd.concat([_with_numbers(part, columns) for part in parts])
    # What pandas raises on files that are no such table, and `int` of cells that are missing.
    except (ValueError, KeyError, TypeError):
        raise _not_whole(path, size, "a fingerprint") from None
    if len(table) != size:
        raise _not_whole(path, size, "a fingerprint")
    return table


def _with_numbers(part: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Make numbers of fingerprints.

    Raises:
        ValueError: if one is missing, or none.
    """
    # Traces of older versions have the settings of the optimizers in `optimizer`, and no buffers
    # from before a step.
    for column in ("settings", "buffers_before"):
        if column not in part:
            part[column] = f"{NOTHING:0{FINGERPRINT_DIGITS}x}"
    if (
        not part[columns]
        .apply(lambda column: column.str.len())
        .eq(FINGERPRINT_DIGITS)
        .all(axis=None)
    ):
        raise ValueError
    numbers = {
        column: np.array([int(text, 16) for text in part[column]], dtype=np.uint64)
        for column in columns
    }
    return part.assign(**numbers)


def _read_fingerprints(path: Path, size: int) -> dict[str, np.ndarray]:
    arrays = artifacts.read_arrays(path)
    needed = {*PER_STEP, *PER_STEP.values(), *INITIAL, *SAMPLES, "sample"}
    # Those of older versions have every step.
    sizes = {key: len(arrays[key]) if key in arrays else size for key in KEPT}
    lengths = {
        **dict.fromkeys(PER_STEP, sizes["detail_steps"]),
        "sample": sizes["sample_steps"],
        "num_samples": size,
    }
    # Names first: a length can be asked only of what is there. `samples_of_steps` has a length of
    # its own.
    if needed - set(arrays) or any(len(arrays[key]) != length for key, length in lengths.items()):
        raise _not_whole(path, size, "an array")
    return arrays


def _not_whole(path: Path, size: int, what: str) -> Exception:
    return run_files.corrupt(path, f"{what} is missing or steps are not {size}")


def non_finite_loss(run: Run) -> NonFiniteLoss | None:
    """Return the steps whose loss is infinite or NaN; None if there is none.

    A step that gives no loss, as with manual optimization, is written as NaN too: it is known by
    the fingerprint of nothing.
    """
    known = run.steps[run.steps["loss_fingerprint"] != NOTHING]
    broken = known["step"][~np.isfinite(known["loss"])]
    if broken.empty:
        return None
    first = int(broken.iloc[0])
    traced = run.steps["step"]
    return NonFiniteLoss(
        step=first,
        since=int(traced[traced < first].max() + 1) if (traced < first).any() else 1,
        number=len(broken),
        is_lasting=len(broken) == int((known["step"] >= first).sum()),
    )


def step_table(first: Run, second: Run) -> pd.DataFrame:
    """Compare the steps that both runs have, a row each with STEP_COLUMNS but `repeat`."""
    size = min(len(first.steps), len(second.steps))
    left, right = first.steps.iloc[:size], second.steps.iloc[:size]
    # NaN of steps without a sample.
    rows = np.full((size, 2), np.nan)
    for index, samples in _samples(first, second, left["step"].to_numpy()):
        rows[index] = np.sqrt(squares(*samples, "float64"))
    apart, sizes = rows.T
    known = known_of(first, second, size)
    alike = {name: (left[of] == right[of]).to_numpy() for name, of in QUANTITIES.items()}
    alike["batch"] = batches(first.fingerprints, second.fingerprints, left, right)
    others = {} if _share_shards(first, second) else {"own_gradients_equal": np.ones(size, bool)}
    return pd.DataFrame(
        {
            "step": left["step"],
            "epoch": left["epoch"],
            **{
                f"{quantity}_equal": equal_as_far_as_known(
                    alike[quantity],
                    known[quantity],
                    apart if quantity == "parameters" else None,
                )
                for quantity in QUANTITIES
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


def known_of(first: Run, second: Run, size: int) -> dict[str, np.ndarray]:
    """Say of each quantity at which of the first steps it can be compared, (size,) bool each."""
    steps = first.steps["step"].to_numpy()[:size]
    arrays = first.fingerprints, second.fingerprints
    found = {name: are_comparable(*arrays, of, steps) for name, of in QUANTITIES.items()}
    if not _share_shards(first, second):
        found["own_gradients"] = np.ones(size, dtype=bool)
    return found


def _samples(
    first: Run, second: Run, steps: np.ndarray
) -> Iterator[tuple[int, tuple[np.ndarray, np.ndarray]]]:
    """Yield the samples of the steps that have one in both runs, each with the step's index."""
    left, right = (rows_of(run.fingerprints, "sample_steps", steps) for run in (first, second))
    for index in np.flatnonzero((left >= 0) & (right >= 0)):
        samples = (
            first.fingerprints["sample"][left[index]],
            second.fingerprints["sample"][right[index]],
        )
        # Of one type: a run in float64 keeps its sample in it, one in float32 does not.
        yield int(index), (samples[0].astype(np.float64), samples[1].astype(np.float64))


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
    runs = (first, second)
    steps = first.steps["step"].to_numpy()[:size]
    names = [list(run.fingerprints["rng_state_names"]) for run in runs]
    both = [name for name in names[0] if name in names[1]]
    # ASSUME runs that have not the same generators draw alike at the steps of which single ones
    # are not kept: on a GPU and on a CPU the first steps differ already.
    equal = np.ones(size, dtype=bool)
    if names[0] == names[1]:
        equal = (first.steps[key][:size] == second.steps[key][:size]).to_numpy(copy=True)
    rows = [rows_of(run.fingerprints, "detail_steps", steps) for run in runs]
    detailed = (rows[0] >= 0) & (rows[1] >= 0)
    left, right = (
        run.fingerprints[key][own_rows[detailed]][:, [own.index(name) for name in both]]
        for run, own, own_rows in zip(runs, names, rows, strict=True)
    )
    equal[detailed] = (left == right).all(axis=1)
    return equal
