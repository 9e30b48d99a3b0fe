"""The rounds of a timing at one size: who takes part, and what is measured of each.

What fails is left out, as little as can be: a phase rather than a variant, a variant rather than
the timing, each with its reason. A variant with fast steps proves them before it is timed; one that
computes something else is refused.
"""

import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TypeVar, cast

from twinrun.acceleration.placement import device_of
from twinrun.acceleration.steps import calls_to_warm_up, is_fast
from twinrun.config.definitions import Timing, Training, Variant
from twinrun.errors import JobError, TwinrunError, sentence_of
from twinrun.process.determinism import State
from twinrun.process.fresh_process import report_progress
from twinrun.process.machine_faults import is_disturbance, lacks_memory
from twinrun.timing.agreement import Outputs, agreement
from twinrun.timing.conditions import conditions
from twinrun.timing.initial_state import InitialState
from twinrun.timing.measured import Measured, VariantRow
from twinrun.timing.round_length import steps_of_round
from twinrun.timing.round_progress import RoundProgress
from twinrun.timing.summary import (
    Agreement,
    Compilation,
    Extent,
    Skipped,
    Uneven,
)
from twinrun.timing.timed_variant import (
    MOST_BATCHES,
    WARM_UP_CALLS,
    Phase,
    Row,
    TimedVariant,
)
from twinrun.timing.uneven import positions, unevenness
from twinrun.training.prove import OtherComputationError
from twinrun.training.remembered_proofs import proof_of

# The order in which phases are prepared: predictions are made by the module that `train` prepared.
ORDER: Sequence[Phase] = ("trainer", "train", "predict")
# The Trainer's steps are compared with the bare ones of the same variant.
TOGETHER: Sequence[tuple[Phase, ...]] = (("trainer", "train"), ("predict",))

Found = TypeVar("Found")


def measure_size(
    training: Training,
    variants: Mapping[str, Variant],
    timing: Timing,
    *,
    size: int | None,
    compares: bool,
    label: str,
    before: State | None = None,
) -> Measured:
    """Measure variants in turn, at one size.

    Args:
        training: where the initial weights and the batches come from.
        variants: by name; the first is the baseline.
        timing: rounds, steps and phases.
        size: the value of the hyperparameter that the timing varies.
        compares: whether the predictions of the variants are compared with the baseline's.
        label: for progress.
        before: torch's switches before the user's code was imported.
    """
    try:
        initial = InitialState(training, before)
    except Exception as error:  # a size may be too large, or none that the workload has
        if is_disturbance(error):
            raise
        traceback.print_exc()
        reason = sentence_of(error)
        return Measured(
            skipped=[Skipped(variant=v, size=size, phase=None, reason=reason) for v in variants]
        )
    with closing(initial):
        rounds = Rounds(initial, training, variants, timing, size=size, label=label)
        found = rounds.measure(compares=compares)
        found.batches = initial.fingerprint(timing.size)
        return found


class Rounds:
    """Variants of one initial state, measured in turn."""

    def __init__(
        self,
        initial: InitialState,
        training: Training,
        variants: Mapping[str, Variant],
        timing: Timing,
        *,
        size: int | None,
        label: str,
    ) -> None:
        """See `measure_size`."""
        self._initial, self._training, self._variants = initial, training, variants
        self._timing, self._size, self._label = timing, size, label
        self._phases = {name: cast(list[Phase], list(timing.phases)) for name in variants}
        self._timed: dict[str, TimedVariant] = {}
        self._measured = Measured()

    def measure(self, *, compares: bool) -> Measured:
        """Prove, prepare and warm up each variant; then measure all, round by round."""
        found = self._measured
        self._prove()
        outputs: Outputs = {}
        for name in list(self._phases):
            report_progress(f"{self._label}: first call of {name}")
            self._enter(name, outputs, compares=compares)
        progress = RoundProgress(self._label, self._timing.rounds)
        for number in range(1, self._timing.rounds + 1):
            steps = self._steps_of_round()
            for name in _rotated(list(self._timed), number):
                self._measure_round(name, number, steps)
            progress.say(number)
        for name, timed in self._timed.items():
            found.rows += [self._row(name, row) for row in timed.once()]
            if (why := timed.without_epoch_hooks) is not None and "train" in self._phases[name]:
                row = Skipped(variant=name, size=self._size, phase="train", reason=why)
                found.without_epoch_hooks.append(row)
            found.compiled += timed.compiled.rows(name, self._size)
            found.had.append({"variant": name, "size": self._size, **timed.had()})
            found.compilation += [
                Compilation(variant=name, size=self._size, phase=phase, **counts)
                for phase, counts in timed.compilation()
            ]
        # In the order in which the variants were named; a variant's own rows keep theirs.
        order = list(self._variants)
        found.rows.sort(key=lambda row: (order.index(row["variant"]), row["round"] > 0))
        train, predict = (self._initial.extent(phase) for phase in ("train", "predict"))
        extent = Extent(size=self._size, train=train, predict=predict)
        if uneven := dict(self._uneven()):
            extent["uneven"] = uneven
        found.extents.append(extent)
        found.agreement += [
            Agreement(variant=name, size=self._size, tolerance=tolerance, **apart._asdict())
            for name, apart, tolerance in agreement(outputs, next(iter(self._variants)))
        ]
        return found

    def _uneven(self) -> Iterator[tuple[str, Uneven]]:
        """Yield the phases whose batches are not of one size, where rounds were measured."""
        calls = max(map(calls_to_warm_up, self._variants.values()))
        start = self._initial.trainer_arguments.with_whole_updates(calls) + WARM_UP_CALLS
        for together in TOGETHER:
            phase, steps = together[-1], Counter[tuple[str, str]]()
            for row in self._measured.rows:
                if row["phase"] in together and row["round"]:
                    steps[row["variant"], row["phase"]] += row["steps"]
            sizes = self._initial.sizes(phase)
            measured = positions(start, max(steps.values(), default=0), len(sizes))
            if (found := unevenness(sizes, measured)) is not None:
                yield phase, found

    def _prove(self) -> None:
        """Have fast steps prove themselves, before anything is compiled for the clock."""
        for name, variant in self._variants.items():
            if not is_fast(variant) or not {"train", "trainer"} & {*self._timing.phases}:
                continue
            report_progress(f"{self._label}: proof of {name}")
            proof, refusal = None, None
            if self._attempt(name, None, partial(device_of, variant)) is None:
                continue
            try:
                # Its process inherits the variable by which cuBLAS sizes its workspaces.
                with conditions(variant):
                    proof = proof_of(replace(self._training, variant=variant))
            except OtherComputationError as error:
                refusal = str(error)
                self._drop(name, None, f"refused: {error}")
            except TwinrunError as error:
                # It was killed, say, and another start may prove it; what is too large never will.
                if isinstance(error, JobError) and not lacks_memory(error):
                    raise
                self._drop(name, None, str(error))
                continue
            self._measured.proofs.append(
                {"variant": name, "size": self._size, "proof": proof, "refused": refusal}
            )

    def _enter(self, name: str, outputs: Outputs, *, compares: bool) -> None:
        variant, calls = self._variants[name], max(map(calls_to_warm_up, self._variants.values()))
        make = partial(TimedVariant, self._initial, variant, warm_up_calls=calls)
        timed = self._attempt(name, None, make)
        if timed is None:
            return
        self._timed[name] = timed
        asked = self._phases_left(name)
        is_predicted = compares and self._initial.has("predict")
        if is_predicted and "predict" not in asked:
            asked.append("predict")
        for phase in sorted(asked, key=ORDER.index):
            # To compare predictions one batch is enough.
            most = MOST_BATCHES if phase in self._phases[name] else 1
            self._attempt(name, phase, partial(timed.prepare, phase, most=most))
        if is_predicted and not self._is_lost(name, "predict"):
            # First: the steps of the warm-up change the weights.
            output = self._attempt(name, "predict", timed.output)
            if output is not None:
                outputs[name] = output, timed.epsilon
        if "predict" not in self._phases_left(name):
            timed.forget("predict")
        for phase in self._phases_left(name):
            self._attempt(name, phase, partial(timed.warm_up, phase))
        timed.compiled.begin()

    def _steps_of_round(self) -> dict[Phase, int]:
        """Return how many steps of each phase all variants do in the round that comes."""
        found: dict[Phase, int] = {}
        for together in TOGETHER:
            seconds = [
                timed.seconds_per_step[phase]
                for name, timed in self._timed.items()
                for phase in self._phases_left(name)
                if phase in together
            ]
            number = steps_of_round(self._timing.steps, seconds or [1.0])
            found |= dict.fromkeys(together, number)
        return found

    def _measure_round(self, name: str, number: int, steps: Mapping[Phase, int]) -> None:
        timed, stretch = self._timed[name], self._timing.steps
        for phase in self._phases_left(name):
            act = partial(timed.round, phase, number, steps[phase], stretch=stretch)
            row = self._attempt(name, phase, act)
            if row is not None:
                self._measured.rows.append(self._row(name, row))

    def _attempt(self, name: str, phase: Phase | None, act: Callable[[], Found]) -> Found | None:
        try:
            return act()
        except Exception as error:  # a user's module, a compiler or a device may raise anything
            if is_disturbance(error):
                raise
            traceback.print_exc()
            self._drop(name, phase, sentence_of(error))
            return None

    def _drop(self, name: str, phase: Phase | None, reason: str) -> None:
        """Leave out a phase of a variant, or the variant where no phase is left."""
        found, reasons = self._measured, {}
        left = [] if phase is None else [p for p in self._phases.get(name, []) if p != phase]
        found.rows = [r for r in found.rows if (r["variant"], r["phase"]) != (name, phase)]
        if left:
            self._phases[name] = left
            if name in self._timed and phase is not None:
                self._timed[name].forget(phase)
        else:
            earlier = [row for row in found.skipped if row["variant"] == name]
            reasons = {str(row["phase"]): row["reason"] for row in earlier} | {str(phase): reason}
            # Each once: phases often fail for one reason.
            reason = "; ".join(dict.fromkeys(reasons.values()))
            found.skipped = [row for row in found.skipped if row["variant"] != name]
            found.rows = [row for row in found.rows if row["variant"] != name]
            self._phases.pop(name, None)
            self._timed.pop(name, None)
            phase = None
        row = Skipped(variant=name, size=self._size, phase=phase, reason=reason)
        if len({*reasons.values()}) > 1:
            row["reasons"] = reasons
        found.skipped.append(row)
        what = name if phase is None else f"{phase} of {name}"
        report_progress(f"{self._label}: {what} is skipped, {reason}")

    def _phases_left(self, name: str) -> list[Phase]:
        """Return a list of one's own: a phase may be dropped while one goes through it."""
        return list(self._phases.get(name, []))

    def _is_lost(self, name: str, phase: Phase) -> bool:
        return any(
            row["variant"] == name and row["phase"] in (None, phase)
            for row in self._measured.skipped
        )

    def _row(self, name: str, row: Row) -> VariantRow:
        return {"variant": name, "size": self._size, **row}


def _rotated(names: Sequence[str], number: int) -> Iterator[str]:
    """Begin with another one in each round: caches depend on which variant ran before."""
    start = number % len(names) if names else 0
    yield from [*names[start:], *names[:start]]
