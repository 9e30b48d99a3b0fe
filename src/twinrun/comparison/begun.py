"""What a run begins with: weights and first mini-batches, which its seed usually decides.

A module may seed itself in part: of seeds that move neither, the luck was not measured.
"""

import hashlib
from pathlib import Path
from typing import TypedDict

from twinrun import artifacts
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


UNKNOWN = Begun(weights=None, batches=None)


def begun_with(run: Path, manifest: RunManifest) -> Begun:
    """Read what a run that finished began with.

    Args:
        run: its run.json.
        manifest: what that holds.

    Raises:
        TwinrunError: if its steps.csv is missing, or is none.
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
    return Begun(
        weights=None if before == _OF_NONE else f"{before}{buffers}",
        batches=None if manifest["not_fingerprinted"] else batches,
    )
