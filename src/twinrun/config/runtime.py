"""What jobs ask of time: by the seconds that a workload's first step took in the rehearsal.

Steps times seconds, for the slowest node and the longest training that the config allows, and what
was slow in the first step alone (compiling, warming up, downloading) once: a job
that ends early gives its time back, one that is ended by its time has to wait in the queue again.
Without a measurement, and for all that is shorter, a job asks for FLOOR. Does without torch.
"""

import math
from collections.abc import Collection
from typing import Literal

from twinrun.config.definitions import Timing, Variant, Workload
from twinrun.config.memory import Measured, is_plain, times_wider

FLOOR = 120  # minutes of a training or a timing
REST = 30  # minutes for the start, the data, and all that is done once; what a comparison asks for
OF_A_SEED = 2  # minutes, of a comparison and of a location
OF_A_GIGABYTE = 2.0  # minutes to compare so much of a side; 0.8 were measured where they differ
# ASSUME what a fast first step does once (memory, threads, kernels) takes no longer than WARM_UP,
# and that it takes at most LEAST times as long as a later one. After a slow one, later ones are
# clocked.
WARM_UP, LEAST = 0.2, 10
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
    needed += _slower(found, variant) * _evaluation(found)
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


def _training(found: Measured, workload: Workload, variant: Variant) -> float:
    """Return the seconds of the steps and of validation; 0 of a stream that no number ends."""
    sizes, told = found["sizes"], workload.trainer
    number = told.accumulation()
    first, most = (number[0], max(number.values())) if isinstance(number, dict) else (number,) * 2
    batches = None if found["steps_per_epoch"] is None else found["steps_per_epoch"] * first
    limits = [told.max_steps * most] if told.max_steps != -1 else []
    if batches is not None and workload.epochs != -1:
        limits.append(workload.epochs * batches)
    if not limits:
        return 0.0
    steps = min(limits)
    seconds = steps * _later(found, "step") + _once(found, "step")
    if variant.validation:
        of_epoch = batches or steps
        each = sizes["validation_batches"]
        each = of_epoch if each is None else each
        validated = _validations(workload, steps, of_epoch) * each
        seconds += validated * _later(found, "validation") + _once(found, "validation")
    return _slower(found, variant) * seconds


def _validations(workload: Workload, steps: int, of_epoch: int) -> float:
    """Return how often a training is validated."""
    interval, every = workload.trainer.val_check_interval, workload.trainer.check_val_every_n_epoch
    if isinstance(interval, int) and interval > 0:
        return steps / interval
    epochs = math.ceil(steps / max(of_epoch, 1))
    return epochs / (every or 1) / (interval or 1.0)


def _evaluation(found: Measured) -> float:
    """Return the seconds of test and prediction; as many batches as an epoch's where not known."""
    sizes = found["sizes"]
    batches = sizes["evaluation_batches"]
    if batches is None:
        batches = found["steps_per_epoch"] or 0
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
    """Return the seconds of a later step, validation or evaluation.

    >>> def of(first, later=None):
    ...     return {"sizes": {"step_seconds": first, "later_step_seconds": later}}
    >>> _later(of(0.15), "step"), _later(of(1.2), "step"), _later(of(30.2), "step")
    (0.015, 1.0, 30.0)
    >>> _later(of(30.2, 0.001), "step"), _later(of(30.2, 31.0), "step")
    (0.001, 30.0)
    """
    first, later = _clocked(found, what)
    estimated = max(first - WARM_UP, first / LEAST)
    return estimated if later is None else min(estimated, later)


def _once(found: Measured, what: What) -> float:
    """Return the seconds that a slow first one took more than later ones."""
    first, later = _clocked(found, what)
    return 0.0 if later is None else first - _later(found, what)


def _clocked(found: Measured, what: What) -> tuple[float, float | None]:
    sizes = found["sizes"]
    if what == "step":
        return sizes["step_seconds"], sizes["later_step_seconds"]
    if what == "validation":
        return sizes["validation_seconds"], sizes["later_validation_seconds"]
    return sizes["evaluation_seconds"], sizes["later_evaluation_seconds"]


def _asked(seconds: float) -> int:
    return max(FLOOR, REST + math.ceil(seconds / 60))
