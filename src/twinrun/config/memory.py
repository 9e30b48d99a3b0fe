"""What jobs ask of memory: by what a step of their workload took in the rehearsal.

Each is a sum of what the job holds at once, and SPARE on top of it: for what is compiled, and for
the allocator. Without a measurement, and for all that is smaller, a job asks for FLOOR. Does
without torch.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypedDict

from twinrun.config.definitions import Timing, Variant
from twinrun.errors import TwinrunError

SIZES = Path(".snakemake/twinrun/sizes.json")  # beside Snakemake's own memory of the folder
FLOOR = 4000
SPARE = 1.25
STEP = 100  # to whose multiples numbers are rounded up
TRACE = 100  # of a run of any length
# Bytes of a forked data worker beside its batch, measured: 9 MiB; it shares what was imported.
WORKER = 10 * 2**20
# What a timing keeps of a loader: see `initial_state`.
KEPT_BYTES, KEPT_BATCHES = 2**28, 1000

# Bytes of a parameter, and of what the passes of a step keep, by precision.
WIDTHS = {
    "64-true": (8, 8),
    "32-true": (4, 4),
    "16-mixed": (4, 2),
    "bf16-mixed": (4, 2),
    "bf16-true": (2, 2),
}


class Sizes(TypedDict):
    """What a step of a workload needs."""

    parameters: int
    """How many numbers are learned."""
    parameters_bytes: int
    """Bytes of parameters and buffers."""
    optimizer_bytes: int
    """Bytes of the optimizers' state after the first step."""
    batch_bytes: int
    """Bytes of the tensors of the first training batch."""
    loader_workers: int
    """Processes that loaders start whatever the variant says: of training, and most beside it."""
    loader_batches: int
    """How many batches these may have ready."""
    worker_bytes: int
    """The most that one of them had for itself; 0 without any."""
    peak_memory_mb: int
    """The most memory that the process had until then; imports alone take some 400 MiB."""
    step_seconds: float
    """Of the first training step, with the loading of its batch."""
    later_step_seconds: float | None
    """Of a step after the first, as `LaterSteps` has it; None where no other one follows."""
    validation_seconds: float
    """Of a validation of one batch; 0 of none."""
    later_validation_seconds: float | None
    """Of the one after it; None where it was not done again."""
    validation_batches: int | None
    """Of a whole one; None for a loader without a length."""
    evaluation_seconds: float
    """Of test and prediction, a batch of each."""
    later_evaluation_seconds: float | None
    """Of those after them; None likewise."""
    evaluation_batches: int | None
    """Of the longer of both, likewise."""
    threads: int
    """With which these were done."""


class Foreseen(TypedDict):
    """What a training may hold otherwise than its rehearsal did."""

    precision: str
    """Of the rehearsal."""
    base_memory_mb: int
    """The most memory before data and module were made: of imports."""
    gradients_bytes: int
    """Of those that come only in later steps."""
    optimizer_bytes: int
    """Of the states that come only in later steps."""
    callbacks_bytes: int
    """Of the tensors that callbacks hold beside the module's, as an average of the weights."""


class Measured(TypedDict):
    """What jobs ask by."""

    sizes: Sizes
    """Of the workload."""
    foreseen: Foreseen
    """Likewise."""
    steps_per_epoch: int | None
    """Mini-batches of an epoch; None for a stream."""


def measured_of(workload: str) -> Measured | None:
    """Return what the last rehearsal measured of a workload; None if it did not come to a step.

    Of a sweep's trials only some are rehearsed: for another one speaks the largest of its sweep.
    """
    try:
        known = _read(SIZES.absolute(), SIZES.stat().st_mtime_ns)
    except (OSError, TwinrunError):  # none, or one of another version
        return None
    if workload in known:
        return known[workload]
    base = workload.partition("~")[0]
    of_sweep = [found for name, found in known.items() if name.partition("~")[0] == base]
    return max(of_sweep, key=lambda found: found["sizes"]["peak_memory_mb"], default=None)


@lru_cache(maxsize=1)  # asked for each of thousands of jobs
def _read(path: Path, _: int) -> dict[str, Measured]:
    from twinrun.artifacts import read_record  # imports NumPy

    return read_record(path, dict[str, Measured])


def write(found: Mapping[str, Measured], path: Path = SIZES) -> None:
    """Write what a rehearsal measured, by workload and trial."""
    from twinrun.artifacts import write_record

    write_record(path, dict(found), dict[str, Measured])


@dataclass(frozen=True)
class _Held:
    """What a step holds under a precision, in bytes."""

    peak: float
    """The most, with what comes in later steps."""
    parameters: float
    """Of the parameters."""
    optimizer: float
    """Of the optimizer's states, with those that come later."""
    callbacks: float
    """Of what callbacks hold."""


def _held(found: Measured, precision: str) -> _Held:
    """Return what a step holds; a narrower precision than the rehearsal's is taken to be no less.

    Parameters, gradients and the optimizer's state are as many times wider as a parameter is. The
    rest, without the imports, is what the passes keep.
    """
    sizes, foreseen = found["sizes"], found["foreseen"]
    wider, passes_wider = times_wider(found, precision)
    states = sizes["optimizer_bytes"]
    peak = sizes["peak_memory_mb"] * 2**20
    above = max(peak - foreseen["base_memory_mb"] * 2**20, 0)
    learned = min(above, 2 * sizes["parameters_bytes"] + states)
    later = foreseen["gradients_bytes"] + foreseen["optimizer_bytes"]
    more = (wider - 1) * learned + wider * later + (passes_wider - 1) * (above - learned)
    return _Held(
        peak=peak + more,
        parameters=wider * sizes["parameters_bytes"],
        optimizer=wider * (states + foreseen["optimizer_bytes"]),
        callbacks=wider * foreseen["callbacks_bytes"],
    )


def times_wider(found: Measured, precision: str) -> tuple[float, float]:
    """Return how many times wider than in the rehearsal a parameter is, and what passes keep."""
    rehearsed = WIDTHS[found["foreseen"]["precision"]]
    wider, passes_wider = (
        max(one / other, 1.0) for one, other in zip(WIDTHS[precision], rehearsed, strict=True)
    )
    return wider, passes_wider


def of_training(found: Measured | None, variant: Variant) -> int:
    """Return the MiB of a run: of one worker times their number.

    What the rehearsal's step took holds parameters, gradients, the optimizer's state, what
    callbacks hold, and what forward and backward pass keep. Its weights and checkpoints a run
    writes from there. One that is resumed reads a checkpoint, of gradients too, before it has any,
    and keeps the states of optimizer and callbacks once more until they are put back; and a
    ModelCheckpoint of a user's makes all bytes of its file first. Beside it there are data
    workers. Fast steps are proven before, in float64: everything twice, and initial and last
    parameters beside it.
    """
    if found is None:
        return FLOOR * variant.devices
    held = _held(found, variant.precision)
    read = held.parameters + held.optimizer + 2 * held.callbacks
    needed = TRACE + _mib(held.peak + read + _loading(found, variant.data_workers))
    if not is_plain(variant):
        exact = _held(found, "64-true")
        twice = 2 * _held(found, found["foreseen"]["precision"]).peak
        proven = max(twice, exact.peak) + 2 * exact.parameters
        needed = max(needed, _mib(proven + _loading(found)))
    return _asked(needed) * variant.devices


def _loading(found: Measured, data_workers: int = 0) -> float:
    """Return the bytes of data workers: a process, the batch it makes, and those it has ready.

    Args:
        found: with what the loaders start by themselves, and what one of these was seen to hold.
        data_workers: of the variant, which the rehearsal leaves out: of a training's loader, and of
            a validation's at the same time, with torch's two batches ready.
    """
    sizes = found["sizes"]
    batch = sizes["batch_bytes"]
    each = max(sizes["worker_bytes"], WORKER + batch)
    own = sizes["loader_workers"] * each + sizes["loader_batches"] * batch
    loaders = 1 if sizes["validation_batches"] == 0 else 2
    return own + loaders * data_workers * (WORKER + 3 * batch)


def is_plain(variant: Variant) -> bool:
    """Say whether a variant's steps are as Lightning does them: others are proven before."""
    plain = ("none", "default", "default", False)
    return (variant.compile, variant.layout, variant.optimizer, variant.cuda_graph) == plain


def of_replay(found: Measured | None, variant: Variant) -> int:
    """Return the MiB of a location: a step, its start as it was saved, and the optimizer's twice.

    The start has parameters, gradients and the optimizer's state; each repeat puts it back.
    """
    if found is None:
        return FLOOR
    held = _held(found, variant.precision)
    start = 2 * held.parameters + held.optimizer
    return _asked(TRACE + _mib(held.peak + start + held.optimizer + _loading(found)))


def of_timing(found: Measured | None, timing: Timing, variants: Collection[Variant]) -> int:
    """Return the MiB of a timing, whose variants are all there at once.

    Each has a training of its own, one more under the Trainer where that is timed, a module to
    predict with, and its batches; beside them there are the initial weights and the loaded batches.
    """
    if found is None:
        return FLOOR
    each = [_held(found, variant.precision) for variant in variants]
    rehearsed = _held(found, found["foreseen"]["precision"])
    batch = found["sizes"]["batch_bytes"]
    trainings = 1 + ("trainer" in timing.phases)
    # As many as an epoch has, until they are enough: the last may go beyond.
    batches = min(found["steps_per_epoch"] or KEPT_BATCHES, KEPT_BATCHES) * batch
    kept = 2 * min(batches, KEPT_BYTES + batch)  # of training and of prediction
    of_variants = sum(
        trainings * (2 * held.parameters + held.optimizer) + held.parameters + kept for held in each
    )
    peak = max(held.peak for held in [rehearsed, *each])
    alone = max((of_training(found, variant) // variant.devices for variant in variants), default=0)
    held_once = peak + rehearsed.parameters + kept + _loading(found)
    return max(_asked(_mib(held_once + of_variants)), alone)


def _mib(size: float) -> float:
    return size / 2**20


def _asked(needed: float) -> int:
    return max(FLOOR, STEP * math.ceil(SPARE * needed / STEP))
