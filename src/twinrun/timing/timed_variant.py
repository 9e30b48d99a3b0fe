"""One variant of a timing, made ready phase by phase and called under its own switches.

Every variant begins with the same initial weights, so that all of them compute the same. A phase
that cannot be is left out, and the others are still measured (see `rounds`).
"""

import traceback
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Literal, TypedDict

import pytorch_lightning as pl
import torch
from pytorch_lightning.utilities.model_helpers import is_overridden
from torch.utils.benchmark import timer  # synchronises the device, then reads the clock

from twinrun.acceleration.compilation import empty_cache, wake_compiler
from twinrun.acceleration.in_effect import must_take_effect
from twinrun.acceleration.placement import device_of, lay_out, lay_out_batch
from twinrun.acceleration.roundings import epsilon_of
from twinrun.acceleration.steps import Prediction, calls_to_warm_up, check
from twinrun.batches import tensors
from twinrun.config.definitions import Variant
from twinrun.copied_batches import copied
from twinrun.errors import sentence_of
from twinrun.run_records import CompilationCounts
from twinrun.timing.bare_step import Call, bare_step, in_precision, pass_epoch
from twinrun.timing.circulating import Circulating, shapes_of
from twinrun.timing.compiled_in_rounds import CompiledInRounds
from twinrun.timing.conditions import OwnConditions, wake
from twinrun.timing.fit import Fit
from twinrun.timing.initial_state import MOST_BATCHES, InitialState
from twinrun.timing.summary import SwitchesHad
from twinrun.timing.trainer_loop import TrainerLoop
from twinrun.training.switched import departures_of_switches, switches

WARM_UP_CALLS = 2  # after those that compile or allocate

Phase = Literal["train", "predict", "trainer"]


class Row(TypedDict):
    """A measurement."""

    device: str
    """torch's type of the device."""
    phase: str
    """A phase, or `transfer` or `first_call`."""
    round: int
    """From 1; 0 of what is measured once."""
    steps: int
    """Steps, or batches, that were timed at once."""
    seconds: float
    """Seconds of all these steps together."""


class TimedVariant:
    """A variant's training and prediction."""

    def __init__(self, initial: InitialState, variant: Variant, *, warm_up_calls: int = 0) -> None:
        """Find the device; `prepare` does the rest.

        Args:
            initial: what all variants start from.
            variant: its settings.
            warm_up_calls: the most that a variant of the timing needs; all do as many.

        Raises:
            TwinrunError: if the settings contradict each other, the device or this torch, or the
                module cannot be constructed under them.
            JobError: if the device is missing.
        """
        self._device = device_of(variant)
        check(variant)
        self._initial, self._variant = initial, variant
        self._own = OwnConditions(variant, initial.switches_before, initial.switches_after)
        self._first_calls = calls_to_warm_up(variant)
        calls = max(self._first_calls, warm_up_calls)
        self._warming_up = initial.trainer_arguments.with_whole_updates(calls)
        self._fits: dict[str, Fit] = {}
        self._loop: TrainerLoop | None = None
        self._calls: dict[Phase, Call] = {}
        self._batches: dict[str, Circulating] = {}
        self._since_epoch = 0
        self.compiled = CompiledInRounds()
        """What torch compiles inside the clock of the rounds."""
        self.without_epoch_hooks: str | None = None
        """Why no epoch ended between bare steps, where a hook failed that waits for more."""
        self._transfer = self._first_call = self._first_prediction = 0.0
        self.seconds_per_step: dict[Phase, float] = {}
        """Of each phase, when it was called last."""
        with self._conditions():
            initial.construct()
        self.epsilon = epsilon_of(variant.precision, variant.accelerator)
        """How far 1 and the next number are apart in what `output` was computed with."""

    def prepare(self, phase: Phase, *, most: int = MOST_BATCHES) -> None:
        """Make what a phase calls, and move its batches; `train` before `predict`.

        Args:
            phase: which.
            most: batches that are kept.

        Raises:
            Exception: whatever the user's module raises.
        """
        with self._conditions():
            if self._variant.compile != "none":
                wake_compiler(self._device.type)
            if phase == "trainer":
                # A module of its own: neither loop may train the other's weights.
                self._loop = TrainerLoop(self._initial, self._variant)
                return
            if phase == "train":
                self._fits[phase], self._calls[phase] = bare_step(self._initial, self._variant)
            else:
                fit = self._fits[phase] = self._predicting_fit()
                step = in_precision(fit.module.predict_step, fit.trainer.precision_plugin)
                self._calls[phase] = Prediction(step, self._variant)
            self._move(phase, most)

    def warm_up(self, phase: Phase) -> None:
        """Do the first calls, clocked, and then as many as any later call may need.

        First calls are those that compile, allocate or capture something. Every batch shape is
        seen before the first round: a new one may cost a compilation.
        """
        with self._conditions():
            if phase == "trainer":
                with self._must_take_effect(phase):
                    self._seconds(phase, self._warming_up)
                    last = self._seconds(phase, WARM_UP_CALLS)
                self.seconds_per_step[phase] = last / WARM_UP_CALLS
                return
            if phase == "train":
                with self._cache(), self._must_take_effect(phase):
                    self._first_call += self._seconds(phase, self._first_calls)
                self._seconds(phase, self._warming_up - self._first_calls)
            batches = self._batches[phase]
            shapes = [shapes_of(batch) for batch in batches.batches]
            # Each shape once, in the order of the batches: that of a set is left to chance.
            for shape in dict.fromkeys(shapes):
                for _ in range(self._warming_up):
                    batches.next = shapes.index(shape)
                    self._seconds(phase, 1)
            batches.trust()
            # The jumps to the shapes are undone: all variants begin their rounds with the same
            # batch, and bare steps with that of the Trainer's loop.
            batches.next = self._warming_up
            self.seconds_per_step[phase] = self._seconds(phase, WARM_UP_CALLS) / WARM_UP_CALLS

    def output(self) -> list[torch.Tensor]:
        """Predict the first batch, clocked, before any step changes the weights."""
        with self._conditions():
            self.epsilon = epsilon_of(self._variant.precision, self._variant.accelerator)
            fit, predict = self._fits["predict"], self._calls["predict"]
            batch = self._batches["predict"].first()
            with fit.predicting(), self._cache():
                started = timer()
                result = predict(batch, 0)
                self._first_prediction = timer() - started
        return [tensor.cpu() for tensor in tensors(result)]

    def forget(self, phase: Phase) -> None:
        """Let go of a phase that failed, or is not timed."""
        self._batches.pop(phase, None)
        self._calls.pop(phase, None)

    def once(self) -> list[Row]:
        """Return what was measured once: the transfer of the batches, and the first calls."""
        batches = sum(map(len, self._batches.values()))
        if not batches:
            return []
        first = self._first_call + (self._first_prediction if "predict" in self._calls else 0.0)
        return [
            self._row("transfer", 0, batches, self._transfer),
            self._row("first_call", 0, 1, first),
        ]

    def round(self, phase: Phase, number: int, steps: int, *, stretch: int) -> Row:
        """Measure one round of a phase, in stretches of steps: an epoch may end between them."""
        with self._conditions():
            # ASSUME a sum of short measurements is as good as a long one: each is synchronised.
            seconds = sum(self._seconds(phase, stretch) for _ in range(steps // stretch))
        self.seconds_per_step[phase] = seconds / steps
        return self._row(phase, number, steps, seconds)

    def had(self) -> SwitchesHad:
        """Return torch's switches as the variant has them now, and where it asks for others."""
        with self._conditions():
            found = switches()
        return {"switches": found, "departures": departures_of_switches(found, self._variant)}

    def compilation(self) -> list[tuple[Phase, CompilationCounts]]:
        """Return the counts of each compiled phase so far; [] of a variant in eager mode."""
        counts = {phase: call.counts() for phase, call in self._calls.items()}
        return [(phase, found) for phase, found in counts.items() if found is not None]

    def _predicting_fit(self) -> Fit:
        """Return the fit of the bare steps, or one of prediction alone.

        That is where there are no bare steps, and where `setup` may make something else for
        prediction, or make its layers anew, which would take them from the optimizer.
        """
        trained = self._fits.get("train")
        if trained is not None and not is_overridden("setup", trained.module, pl.LightningModule):
            return trained
        fit = Fit(self._initial, self._initial.module(), self._variant)
        fit.set_up_prediction()
        lay_out(fit.module, self._variant.layout)
        return fit

    def _move(self, phase: Phase, most: int) -> None:
        """Move the batches of a phase to the device and into the variant's layout, clocked."""
        trainer = (fit := self._fits[phase]).trainer
        # Hooks and batches of a class of their own may change what they are given in place. Loaded
        # and copied before the clock starts: neither is transfer.
        batches = [copied(batch) for batch in self._initial.batches(phase, trainer, most)]
        self._initial.data.trainer = trainer
        trainer.training, trainer.predicting = phase == "train", phase == "predict"
        started = timer()
        moved = [self._moved(batch, fit) for batch in batches]
        self._transfer += timer() - started
        self._batches[phase] = Circulating(moved)
        trainer.training = True

    def _moved(self, batch: object, fit: Fit) -> object:
        """Pass a batch through what Lightning does before a step, in its order."""
        batch = fit.trainer.precision_plugin.convert_input(batch)
        batch = fit.module._on_before_batch_transfer(batch, dataloader_idx=0)
        batch = fit.trainer.strategy.batch_to_device(batch, dataloader_idx=0)
        return lay_out_batch(batch, self._variant.layout)

    def _cache(self) -> AbstractContextManager[None]:
        """Have only what is clocked compile in an empty cache: a run may have compiled the rest."""
        return nullcontext() if self._variant.compile == "none" else empty_cache()

    def _must_take_effect(self, phase: Phase) -> AbstractContextManager[None]:
        """Refuse, after the first steps, a form of the step that never was: see `in_effect`."""
        variant = self._variant
        if (variant.optimizer, variant.layout) == ("default", "default"):
            return nullcontext()
        fit = self._fits[phase] if self._loop is None or phase != "trainer" else self._loop.fit
        if phase in self._batches:
            return must_take_effect(variant, fit.module, self._batches[phase].batches)
        (batch,) = self._initial.batches("train", fit.trainer, 1)
        return must_take_effect(variant, fit.module, [lay_out_batch(copied(batch), variant.layout)])

    @contextmanager
    def _conditions(self) -> Iterator[None]:
        # Switches belong to the process: every variant sets its own and puts the former ones back.
        with self._own():
            wake(self._device)
            yield

    def _seconds(self, phase: Phase, calls: int) -> float:
        """Call a phase on the batches that come next, and return the seconds it took."""
        if phase == "trainer":
            assert self._loop is not None  # noqa: S101  `prepare` has made it
            fit = self._loop.fit
            with self.compiled.counting(phase, lambda: fit.untimed_graphs):
                return self._loop.seconds(calls)
        fit, call, batches = self._fits[phase], self._calls[phase], self._batches[phase]
        if phase == "train":
            self._count(calls)
        seconds = 0.0
        for some in fit.until_over(calls) if phase == "train" else [calls]:
            for part in batches.parts(some):
                predicting = fit.predicting() if phase == "predict" else nullcontext()
                with predicting, self.compiled.counting(phase):
                    started = timer()
                    for batch, index in part:
                        call(batch, index)
                    seconds += timer() - started
        return seconds

    def _count(self, calls: int) -> None:
        """Let an epoch end before these steps, where those before have been as many as it has.

        Not in the midst of them: each look at the clock waits for the device.
        """
        fit = self._fits["train"]
        is_over = self._since_epoch >= fit.trainer.num_training_batches
        if is_over and self.without_epoch_hooks is None:
            try:
                pass_epoch(fit)
            except Exception as error:  # a hook may read what only the Trainer's loop has logged
                traceback.print_exc()
                self.without_epoch_hooks = sentence_of(error)
            self._since_epoch = 0
        self._since_epoch += calls

    def _row(self, phase: str, number: int, steps: int, seconds: float) -> Row:
        return {
            "device": self._device.type,
            "phase": phase,
            "round": number,
            "steps": steps,
            "seconds": seconds,
        }
