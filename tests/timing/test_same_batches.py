"""Sizes are judged as one where nothing tells their batches apart, and nowhere else."""

from contextlib import closing
from pathlib import Path

import pytest
import pytorch_lightning as pl
from example_trainings import VARIANT

from twinrun.config.definitions import Training, Variant, Workload
from twinrun.timing.initial_state import InitialState
from twinrun.timing.measured import Measured
from twinrun.timing.same_batches import judged_once


def fingerprint_of(size, loaders):
    workload = Workload(
        module="lasting_steps:Lasting",
        data="batches_to_tell_apart:Kinds",
        dataset=None,
        hyperparameters={**loaders, "size": size},
        epochs=1,
    )
    folders = [str(Path(__file__).parent)]
    variant = Variant(**{**VARIANT, "deterministic": False})
    training = Training(
        workload=workload, variant=variant, seed=1, dataset=None, search_path=folders
    )
    quiet = {"enable_progress_bar": False, "enable_checkpointing": False, "logger": False}
    trainer = pl.Trainer(accelerator="cpu", **quiet)
    with closing(InitialState(training)) as initial:
        for phase in ("train", "predict")[: len(loaders)]:
            initial.batches(phase, trainer)
        return initial.fingerprint("size")


@pytest.mark.parametrize(
    ("sizes", "loaders", "is_one"),
    [
        ((60, 600), {"train": "samples"}, True),
        ((20, 60), {"train": "samples"}, False),
        ((20, 60), {"train": "objects"}, False),
        ((1100, 1200), {"train": "more batches than are kept"}, False),
        ((1100, 1200), {"train": "several loaders"}, False),
        ((60, 600), {"train": "short stream"}, True),
        ((1100, 1200), {"train": "stream"}, False),
        ((20, 60), {"train": "samples", "predict": "samples"}, False),
        ((60, 600), {"train": "samples", "predict": "samples"}, True),
    ],
    ids=lambda value: str(value),
)
def test_sizes_are_one_where_nothing_tells_their_batches_apart(sizes, loaders, is_one):
    """Seen red: objects that nobody looks into, and epochs that begin alike, were one."""
    first, second = (fingerprint_of(size, loaders) for size in sizes)
    assert (first is not None and first == second) == is_one


@pytest.mark.parametrize("sizes", [(60, 600, 6000), (6000, 600, 60), (600, 6000, 60)])
def test_the_largest_size_is_kept_where_most_was_measured(sizes):
    """Seen red: of sizes in descending order the phase of the largest was lost."""
    found = [(size, Measured(rows=[row(size, size == max(sizes))], batches=7)) for size in sizes]
    judged = list(judged_once(found, "batch_size", ["plain"]))
    assert [(row["phase"], row["size"]) for one in judged for row in one.rows] == [("trainer", 60)]
    skipped = [row for one in judged for row in one.skipped]
    assert {row["size"] for row in skipped} == {600, 6000}
    assert all(row["reason"].endswith("gives the batches of batch_size 60") for row in skipped)


def row(size, is_largest):
    phase = "trainer" if is_largest else "train"
    return {"variant": "plain", "size": size, "phase": phase, "round": 1, "seconds": 1.0}
