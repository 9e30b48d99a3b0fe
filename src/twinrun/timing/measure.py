"""Variants of one workload, measured in turn, round by round, in one process.

Each variant gets its own module from copies of the same initial weights, and batches that are
already on its device. Inside the clock of `train` is the LightningModule's own `training_step`, the
backward pass and the step of its own optimizer, as fast as the variant makes them; of `predict`,
its `predict_step`; of `trainer`, a training step through Lightning's Trainer, with loading,
transfer, hooks and logging. `transfer` (moving the batches) and `first_call` (compilation,
allocation and capture) are reported apart, and untimed calls follow them. A round measures every
variant once, the batches going round, and the next round begins with another variant. The
device is synchronised at both ends of the clock. Before all that each variant predicts the same
batch, and what it gives is compared with the baseline's.

What cannot run on this machine is reported with the reason, and the others are still measured.
"""

import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import pandas as pd
import torch

from twinrun import artifacts
from twinrun.acceleration.compilation import compiler_switches
from twinrun.config.definitions import Timing, Training, Variant, Workload
from twinrun.errors import TwinrunError, sentence_of
from twinrun.process import environment
from twinrun.process.fresh_process import report_progress
from twinrun.process.memory_limit import bounded_memory
from twinrun.timing import ratios, summary
from twinrun.timing.agreement import agreement
from twinrun.timing.timed_variant import InitialState, TimedVariant

PROGRESS_SECONDS = 10.0
TRAINER_EVERY = 3  # rounds at most: each of the Trainer's is a whole fit


def measure(
    *,
    name: str,
    timing: Timing,
    workload: Workload,
    variants: Mapping[str, Variant],
    dataset: str | None,
    search_path: list[str],
    seed: int = 1,
    outputs: Mapping[str, str],
) -> None:
    """Measure the variants of a workload and write every round and the summary.

    Args:
        name: of the timing.
        timing: rounds, steps, phases and sizes.
        workload: what is trained.
        variants: by name; the first is the baseline.
        dataset: path of the dataset's file.
        search_path: folders with the user's own modules.
        seed: of the initial weights and the data's order.
        outputs: paths of `rounds` (CSV) and `summary` (JSON).

    Raises:
        TwinrunError: if a number is not positive.
    """
    for key in ("rounds", "steps"):
        value = getattr(timing, key)
        if value < 1:
            raise TwinrunError(f"{name}.{key}: {value} is out of range, at least 1 is needed")
    described = environment.describe()
    baseline = next(iter(variants))
    training = Training(
        workload=workload,
        # The batches are loaded once, for all variants, in this process.
        variant=replace(variants[baseline], data_workers=0, persistent_workers=False),
        seed=seed,
        dataset=dataset,
        search_path=search_path,
    )
    found: dict[int | None, Measured] = {}
    with compiler_switches(), bounded_memory():
        for size in timing.sizes or [None]:
            label = name if size is None else f"{name}, {timing.size} {size}"
            # A dimension that had another size before, in the same lines of code, is one that
            # changes to torch, whose graph for every size is slower than that for one.
            torch.compiler.reset()
            # The Trainer's loop takes much the same at any size: it is timed at the largest.
            is_largest = size is None or size == max(timing.sizes)
            phases = [phase for phase in timing.phases if is_largest or phase != "trainer"]
            found[size] = measure_size(
                replace(training, workload=workload.with_hyperparameter(timing.size, size)),
                variants,
                replace(timing, phases=phases),
                # A prediction that is compiled only for this costs seconds of compilation.
                compares=is_largest or "predict" in phases,
                label=label,
            )
    identity = {"timing": name, "workload": timing.workload}
    rows = [{"size": size, **row} for size, measured in found.items() for row in measured.rows]
    columns = ["variant", "device", "size", "phase", "round", "steps", "seconds"]
    table = pd.DataFrame(rows, columns=columns)
    artifacts.write_csv(outputs["rounds"], table.assign(**identity)[[*identity, *columns]])
    summary.write(
        outputs["summary"],
        {
            "timing": name,
            "workload": timing.workload,
            "baseline": baseline,
            "settings": {
                "timing": asdict(timing),
                "workload": asdict(workload),
                "variants": {variant: asdict(values) for variant, values in variants.items()},
                "seed": seed,
            },
            "environment": described,
            "medians": ratios.medians(table),
            "ratios": ratios.ratios(table, baseline),
            "trainer": ratios.overheads(table),
            "compilation": [
                summary.Compilation(size=size, **row)
                for size, measured in found.items()
                for row in measured.compilation
            ],
            "agreement": [
                summary.Agreement(size=size, **row)
                for size, measured in found.items()
                for row in measured.agreement
            ],
            "extents": [
                summary.Extent(size=size, **measured.extent)
                for size, measured in found.items()
                if measured.extent
            ],
            "skipped": [
                {"variant": variant, "size": size, "reason": reason}
                for size, measured in found.items()
                for variant, reason in measured.skipped.items()
            ],
        },
    )


def _of_round(phases: Sequence[str], number: int, rounds: int) -> list[str]:
    """Leave the Trainer out of two rounds in three, or of so few that it gets an interval."""
    every = max(min(rounds // ratios.FEWEST_ROUNDS, TRAINER_EVERY), 1)
    is_with_trainer = (number - 1) % every == 0
    return [phase for phase in phases if is_with_trainer or phase != "trainer"]


@dataclass(kw_only=True)
class Measured:
    """What was measured of the variants at one size."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    """A row for each measurement; a variant that fails on the way leaves none."""
    skipped: dict[str, str] = field(default_factory=dict)
    """For each variant that failed, the reason."""
    compilation: list[dict[str, Any]] = field(default_factory=list)
    """For each compiled variant and phase, calls, compilations and reasons."""
    extent: dict[str, int | None] = field(default_factory=dict)
    """Batches of an epoch of training, and of the whole prediction."""
    agreement: list[dict[str, Any]] = field(default_factory=list)
    """For each variant but the baseline, how far its prediction is off."""


def measure_size(
    training: Training,
    variants: Mapping[str, Variant],
    timing: Timing,
    *,
    compares: bool,
    label: str,
) -> Measured:
    """Measure variants in turn, at one size.

    Args:
        training: where the initial weights and the batches come from.
        variants: by name; the first is the baseline.
        timing: rounds, steps and phases.
        compares: whether the predictions of the variants are compared with the baseline's.
        label: for progress.
    """
    try:
        initial = InitialState(training)
    except Exception as error:  # a size may be too large, or none that the workload has
        traceback.print_exc()
        return Measured(skipped=dict.fromkeys(variants, sentence_of(error)))
    return measure_rounds(initial, variants, timing, compares=compares, label=label)


def measure_rounds(
    initial: InitialState,
    variants: Mapping[str, Variant],
    timing: Timing,
    *,
    compares: bool,
    label: str,
) -> Measured:
    """Measure variants of one initial in turn; see `measure_size`."""
    timed: dict[str, TimedVariant] = {}
    rows: dict[str, list[dict[str, Any]]] = {}
    outputs: dict[str, list[torch.Tensor]] = {}
    reasons: dict[str, str] = {}

    def attempt(name: str, act: Callable[[], list[dict[str, Any]]]) -> None:
        try:
            rows.setdefault(name, []).extend({"variant": name, **row} for row in act())
        except Exception as error:  # a user's module, a compiler or a device may raise anything
            traceback.print_exc()
            reasons[name] = sentence_of(error)
            # There is something to pop: `setdefault` was called before `act`.
            rows.pop(name)
            timed.pop(name, None)
            report_progress(f"{label}: {name} is skipped, {reasons[name]}")

    def enter(name: str) -> list[dict[str, Any]]:
        timed_variant = TimedVariant(
            initial, variants[name], phases=timing.phases, steps=timing.steps
        )
        if compares:
            # First: the steps of the warm-up change the weights.
            outputs[name] = timed_variant.output()
        warmed_up = timed_variant.warm_up()
        timed[name] = timed_variant
        return warmed_up

    for name in variants:
        report_progress(f"{label}: first call of {name}")
        attempt(name, lambda name=name: enter(name))
    progress = _Progress(label, timing.rounds)
    for number in range(1, timing.rounds + 1):
        phases = _of_round(timing.phases, number, timing.rounds)
        for name in _rotated(list(timed), number):
            attempt(
                name,
                lambda e=timed[name], n=number, p=phases: [e.round(phase, n) for phase in p],
            )
        progress.say(number)
    return Measured(
        rows=[row for found in rows.values() for row in found],
        skipped=reasons,
        compilation=[
            {"variant": name, **row}
            for name, timed_variant in timed.items()
            for row in timed_variant.compilation()
        ],
        extent={phase: initial.extent(phase) for phase in ("train", "predict")},
        agreement=list(agreement(outputs, variants)),
    )


def _rotated(names: Sequence[str], number: int) -> list[str]:
    """Begin with another one in each round: caches depend on which variant ran before."""
    start = number % len(names) if names else 0
    return [*names[start:], *names[:start]]


class _Progress:
    """Says every few seconds how far the rounds are."""

    def __init__(self, label: str, rounds: int) -> None:
        self._label, self._rounds = label, rounds
        self._started = self._said = time.monotonic()

    def say(self, done: int) -> None:
        now = time.monotonic()
        if now - self._said >= PROGRESS_SECONDS:
            self._said = now
            left = (now - self._started) * (self._rounds / done - 1)
            report_progress(
                f"{self._label}: round {done} of {self._rounds}, about {left:.0f} s left"
            )
