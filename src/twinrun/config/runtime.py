"""What jobs ask of time: by the seconds that a workload's steps took in the rehearsal.

Steps times seconds, for the slowest node and the longest training that the config allows, and what
only the first step took (compiling, warming up, downloading) once: a job
that ends early gives its time back, one that is ended by its time has to wait in the queue again.
Without a measurement, and for all that is shorter, a job asks for FLOOR. Does without torch.
"""

import math
from collections.abc import Collection
from typing import Literal, NamedTuple

from twinrun.config.definitions import Timing, Variant, Workload
from twinrun.config.memory import Measured, is_plain, times_wider

FLOOR = 120  # minutes of a training or a timing
REST = 30  # minutes for the start, the data, and all that is done once; what a comparison asks for
OF_A_SEED = 2  # minutes, of a comparison and of a location
OF_A_GIGABYTE = 2.0  # minutes to compare so much of a side; 0.8 were measured where they differ
# ASSUME the slowest node takes twice as long as where it was rehearsed, and tracing a quarter more.
SLOWER = 2.5
# Of fast steps: 15 short trainings of 18 steps, half of them in float64, and minutes to compile.
PROVING, COMPILING = 600, 20
WARMING_UP = 100  # steps of a timing before its rounds, of each variant and phase
ENOUGH = 0.3  # seconds, to which a round of short steps is prolonged
# A location replays a step 21 times, each operation with its fingerprints.
REPLAYED, OPERATION_BY_OPERATION = 21, 20

What = Literal["step", "validation", "evaluation"]


def of_training(found: Measured | None, workload: Workload, variant: Variant) -> int:
    """Return the minutes of a run."""
    if found is None:
        return FLOOR
    needed = _training(found, workload, variant) + _once_if_fast(found, variant)
    needed += _slower(found, variant) * _evaluation(found, workload)
    # A run that is stopped on purpose may have to begin again.
    return _asked(needed * (1 if variant.stop == "none" else 2))


def of_timing(
    found: Measured | None, workload: Workload, timing: Timing, variants: Collection[Variant]
) -> int:
    """Return the minutes of a timing; each size is taken to need what the workload's own needs."""
    if found is None:
        return FLOOR
    needed = 0.0
    for variant in variants:
        step = _slower(found, variant) * _later(found, "step")
        rounds = timing.rounds * max(timing.steps * step, ENOUGH) + WARMING_UP * step
        needed += len(timing.phases) * rounds + _once_if_fast(found, variant)
        needed += _slower(found, variant) * _once(found, "step")
    return _asked(needed * max(len(timing.sizes), 1))


def of_location(found: Measured | None, workload: Workload, variant: Variant, seeds: int) -> int:
    """Return the minutes of a location: seeds follow each other, each with its training.

    Where a pair diverges is not known before, so the training is the whole one.
    """
    least = REST + OF_A_SEED * seeds
    if found is None:
        return least
    step = _slower(found, variant) * _later(found, "step")
    replays = REPLAYED * OPERATION_BY_OPERATION * step
    return least + math.ceil(seeds * (_training(found, workload, variant) + replays) / 60)


def of_comparison(found: Measured | None, *, pairs: int, seeds: int = 0) -> int:
    """Return the minutes in which pairs of runs are compared, byte by byte."""
    least = REST + OF_A_SEED * seeds
    if found is None:
        return least
    return least + math.ceil(pairs * OF_A_GIGABYTE * found["sizes"]["parameters_bytes"] / 2**30)


class _Length(NamedTuple):
    """Of the longest training that the config allows."""

    batches: int
    """Mini-batches of the whole; 0 of a stream that no number ends."""
    epochs: int
    """In which they are trained; of a stream as many as it may have, or one."""
    of_epoch: float
    """Mini-batches of one."""


def _length(found: Measured, workload: Workload) -> _Length:
    told = workload.trainer
    of_epoch = found["steps_per_epoch"]
    most = told.batches_of_steps()
    limits = [] if most is None else [most]
    if of_epoch is not None and workload.epochs != -1:
        limits.append(workload.epochs * of_epoch)
    batches = min(limits, default=0)
    if of_epoch is not None:
        return _Length(batches, math.ceil(batches / max(of_epoch, 1)), of_epoch)
    # Nobody knows where a stream ends. It has a batch at least, so that epochs are no more.
    epochs = 1 if workload.epochs == -1 else max(min(workload.epochs, batches), 1)
    return _Length(batches, epochs, min(batches / epochs, _interval(workload) or math.inf))


def _training(found: Measured, workload: Workload, variant: Variant) -> float:
    """Return the seconds of the steps and of validation."""
    length = _length(found, workload)
    if not length.batches:
        return 0.0
    seconds = length.batches * _later(found, "step") + _once(found, "step")
    if variant.validation:
        each = found["sizes"]["validation_batches"]
        each = length.of_epoch if each is None else each
        validated = _validations(workload, length) * each
        seconds += validated * _later(found, "validation") + _once(found, "validation")
    return _slower(found, variant) * seconds


def _validations(workload: Workload, length: _Length) -> float:
    """Return how often a training is validated."""
    if (interval := _interval(workload)) is not None:
        return length.batches / interval
    told = workload.trainer
    return length.epochs / (told.check_val_every_n_epoch or 1) / (told.val_check_interval or 1.0)


def _interval(workload: Workload) -> int | None:
    """Return the mini-batches from one validation to the next, where these are counted."""
    told = workload.trainer.val_check_interval
    return told if isinstance(told, int) and told > 0 else None


def _evaluation(found: Measured, workload: Workload) -> float:
    """Return the seconds of test and prediction; as many batches as an epoch's where not known."""
    batches = found["sizes"]["evaluation_batches"]
    if batches is None:
        batches = _length(found, workload).of_epoch
    return batches * _later(found, "evaluation") + _once(found, "evaluation")


def _once_if_fast(found: Measured, variant: Variant) -> float:
    """Return the seconds in which fast steps are compiled and proven."""
    if is_plain(variant):
        return 0.0
    proving = PROVING * _slower(found, variant) * _later(found, "step")
    return proving + 60 * COMPILING


def _slower(found: Measured, variant: Variant) -> float:
    """Return how much longer than in the rehearsal a step may take: by node, threads, precision."""
    # ASSUME half the threads take twice as long at most, numbers of twice the width too, and a GPU
    # no longer than the CPU.
    wider = max(times_wider(found, variant.precision))
    return SLOWER * wider * max(1.0, found["sizes"]["threads"] / max(variant.threads, 1))


def _later(found: Measured, what: What) -> float:
    """Return the seconds of a later step, validation or evaluation: of the first if no other is.

    >>> def of(first, later=None):
    ...     return {"sizes": {"step_seconds": first, "later_step_seconds": later}}
    >>> _later(of(0.22), "step"), _later(of(30.2, 0.001), "step"), _later(of(0.22, 0.23), "step")
    (0.22, 0.001, 0.23)
    """
    first, later = _clocked(found, what)
    return first if later is None else later


def _once(found: Measured, what: What) -> float:
    """Return the seconds that the first one took more than later ones."""
    first, later = _clocked(found, what)
    return 0.0 if later is None else max(first - later, 0.0)


def _clocked(found: Measured, what: What) -> tuple[float, float | None]:
    sizes = found["sizes"]
    if what == "step":
        return sizes["step_seconds"], sizes["later_step_seconds"]
    if what == "validation":
        return sizes["validation_seconds"], sizes["later_validation_seconds"]
    return sizes["evaluation_seconds"], sizes["later_evaluation_seconds"]


def _asked(seconds: float) -> int:
    return max(FLOOR, REST + math.ceil(seconds / 60))
