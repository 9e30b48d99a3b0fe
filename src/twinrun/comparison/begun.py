"""What a run begins with: weights, first mini-batches, RNG states, which its seed usually decides.

A module may seed itself in part: of what no seed moves the luck was not measured.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TypedDict

import numpy as np

from twinrun import artifacts
from twinrun.comparison.kept_steps import row_of
from twinrun.run_files import verified
from twinrun.run_records import RunManifest

MOST_BATCHES = 100  # of one epoch: two orders of samples are apart in the first ones already
_OF_NONE = "2d06800538d394c2"  # the fingerprint of no tensor


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


UNKNOWN = Begun(weights=None, batches=None, random=None, random_after=None)
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
    )


def _of_torch(arrays: Mapping[str, np.ndarray], key: str) -> str | None:
    """Return the states of torch's generators in step 1, those of GPUs included."""
    row = row_of(arrays, "detail_steps", 1)
    if row is None or key not in arrays or row >= len(arrays[key]):
        return None
    named = zip(arrays["rng_state_names"].tolist(), arrays[key][row].tolist(), strict=True)
    found = [f"{state:016x}" for name, state in named if not name.startswith(("python", "numpy"))]
    return "".join(found) or None
