"""What a run begins with: weights, first mini-batches, RNG states, which its seed usually decides.

A module may seed itself in part: of what no seed moves the luck was not measured. It may do so
later than in its first step, as in each validation, and what it draws may be of no generator that a
seed moves: so the states behind later steps are here, and which generators steps draw from.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypedDict

import numpy as np

from twinrun import artifacts
from twinrun.comparison.kept_steps import row_of
from twinrun.run_files import verified
from twinrun.run_records import RunManifest

MOST_BATCHES = 100  # of one epoch: two orders of samples are apart in the first ones already
_OF_NONE = "2d06800538d394c2"  # the fingerprint of no tensor
FIRST_STATES = (
    16  # steps whose states are read; behind them those of doubling numbers, and the last
)

Generators = Literal["torch", "cuda", "numpy", "python"]
"""The global generators: torch's of the CPU, torch's of GPUs, NumPy's, Python's."""


class Begun(TypedDict):
    """What a run begins with, as far as its first steps were traced."""

    weights: str | None
    """Fingerprints of parameters and buffers before the first step; None where nobody knows."""
    batches: str | None
    """Hash of the first mini-batches of its first epoch; None likewise."""
    random: str | None
    """Fingerprints of the states of torch's global generators as its first step starts; None
    likewise."""
    random_after: str | None
    """The same as its first step ends: a module may seed torch in it."""
    states: dict[str, dict[str, str]]
    """By generators and step, fingerprints of their states as steps end; of some steps whose states
    were kept, empty where those of none were."""
    drawn: list[str] | None
    """Generators that a step ends with in another state than it starts with, of the steps whose
    states were kept; None where nobody knows."""
    own: dict[str, str]
    """Of generators of the user's own that its first step draws from, the states before it, by
    where they are held; empty where nobody knows."""


UNKNOWN = Begun(
    weights=None, batches=None, random=None, random_after=None, states={}, drawn=None, own={}
)
_STATES = ("random", "random_after")


def begun_with(run: Path, manifest: RunManifest) -> Begun:
    """Read what a run that finished began with.

    Args:
        run: its run.json.
        manifest: what that holds.

    Raises:
        TwinrunError: if its steps.csv or its fingerprints.npz is missing, or is none.
    """
    columns = ["step", "epoch", "before", "batch"]
    table = artifacts.read_csv(verified(run, "steps.csv"), columns, types=str, rows=MOST_BATCHES)
    rows = zip(*(table[name] for name in columns), strict=True)
    first = [
        (before, batch)
        for index, (step, epoch, before, batch) in enumerate(rows, start=1)
        if (step, epoch) == (str(index), "1")
    ]
    if not first:  # not traced from the first step on
        return UNKNOWN
    # Traces of older versions have no buffers from before a step.
    buffers = table["buffers_before"][0] if "buffers_before" in table else ""
    before = first[0][0]
    batches = hashlib.sha256("".join(batch for _, batch in first).encode()).hexdigest()
    # Not from the table: there one fingerprint is of Python's and NumPy's generators, too.
    of = artifacts.read_arrays(
        verified(run, "fingerprints.npz"), ("detail_steps", "rng_state_names", *_STATES)
    )
    return Begun(
        weights=None if before == _OF_NONE else f"{before}{buffers}",
        batches=None if manifest["not_fingerprinted"] else batches,
        random=_of_torch(of, "random"),
        random_after=_of_torch(of, "random_after"),
        states=_later_states(of),
        drawn=_drawn(of),
        own=(manifest["own_generators"] or {}) if "own_generators" in manifest else {},
    )


def _of_torch(arrays: Mapping[str, np.ndarray], key: str) -> str | None:
    """Return the states of torch's generators in step 1, those of GPUs included."""
    row = row_of(arrays, "detail_steps", 1)
    if row is None or key not in arrays or row >= len(arrays[key]):
        return None
    found = _columns(arrays)
    columns = [*found.get("torch", ()), *found.get("cuda", ())]
    return _in_a_word(arrays[key][row, columns]) or None


def _columns(arrays: Mapping[str, np.ndarray]) -> dict[str, list[int]]:
    """Find the columns of each kind of generators that the trace has."""
    found: dict[str, list[int]] = {}
    for column, name in enumerate(arrays["rng_state_names"].tolist()):
        found.setdefault(name.partition(":")[0], []).append(column)  # "cuda:0"
    return found


def _later_states(arrays: Mapping[str, np.ndarray]) -> dict[str, dict[str, str]]:
    if "random_after" not in arrays or not len(arrays["random_after"]):
        return {}
    kept = _steps(arrays)
    rows = {*range(min(FIRST_STATES, len(kept))), len(kept) - 1}
    rows |= {2**power - 1 for power in range(len(kept).bit_length())}  # of the doubling numbers
    return {
        of: {
            f"{kept[row]}": _in_a_word(arrays["random_after"][row, columns]) for row in sorted(rows)
        }
        for of, columns in _columns(arrays).items()
    }


def _drawn(arrays: Mapping[str, np.ndarray]) -> list[str] | None:
    if any(key not in arrays or not len(arrays[key]) for key in _STATES):
        return None
    moved = arrays["random"] != arrays["random_after"]
    return [of for of, columns in _columns(arrays).items() if moved[:, columns].any()]


def _steps(arrays: Mapping[str, np.ndarray]) -> list[int]:
    """Return the numbers of the steps with states; an older trace has those of all."""
    every = np.arange(1, len(arrays["random_after"]) + 1)
    return arrays.get("detail_steps", every).tolist()


def _in_a_word(states: np.ndarray) -> str:
    return "".join(f"{state:016x}" for state in states.tolist())
