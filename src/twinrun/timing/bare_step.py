"""A training step without the Trainer's loop around it: what the phase `train` is.

lean    `training_step`, backward pass and update, where nothing stands between them
hooked  the same with what the module brings along: hooks between the passes and around the step,
        clipping, an `optimizer_step` or callbacks of its own, manual optimization, an optimizer
        that is not torch's and may use a closure. Lightning's own code for one step calls them

Loading, transfer, logging and schedules are left to the phase `trainer`. Hooks of epochs are called
between what is timed (see `pass_epoch`).
"""

import inspect
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Protocol

import pytorch_lightning as pl
import torch
from pytorch_lightning.plugins.precision import Precision
from pytorch_lightning.trainer import call
from pytorch_lightning.utilities.model_helpers import is_overridden

from twinrun.acceleration import between
from twinrun.acceleration.placement import lay_out
from twinrun.acceleration.steps import TrainingStep, with_index
from twinrun.acceleration.under_trainer import Speed
from twinrun.acceleration.whole_step import Step
from twinrun.config.definitions import Variant
from twinrun.run_records import CompilationCounts
from twinrun.timing.fit import Fit
from twinrun.timing.initial_state import InitialState

AROUND = ("on_train_batch_start", "on_train_batch_end")


class Call(Protocol):
    """What is timed: a call with a batch and its index."""

    def __call__(self, batch: object, index: int) -> object:
        """Do a step."""

    def counts(self) -> CompilationCounts | None:
        """Return the counts of what was compiled; None for what compiles nothing."""


def bare_step(initial: InitialState, variant: Variant) -> tuple[Fit, Call]:
    """Return a training that has begun, and its step.

    Raises:
        TwinrunError: if the settings contradict each other, the device, the module or the
            optimizer.
    """
    fit = Fit(initial, initial.module(), variant)
    if any(True for _ in _brought_along(fit)):
        module = initial.module()
        speed = Speed(module, variant)
        fit = Fit(initial, module, variant, callbacks=[speed])
        step: Call = HookedStep(fit.trainer, module, speed)
    else:
        step = LeanStep(fit, variant)
    fit.begin()
    fit.begin_epoch()
    # After what is logged before the first step. In it a log belongs to the Trainer's loop.
    vars(fit.module).update(OUTSIDE_OF_A_LOOP)
    return fit, step


def pass_epoch(fit: Fit) -> None:
    """Have an epoch of bare steps end and the next one begin, outside of the clock.

    A module may gather what its steps return until its epoch ends: without an end it would gather
    all that a timing does.
    """
    for name in OUTSIDE_OF_A_LOOP:
        del vars(fit.module)[name]
    try:
        fit.pass_epoch()
    finally:
        vars(fit.module).update(OUTSIDE_OF_A_LOOP)


class LeanStep:
    """A step of a plain loop, as fast as a variant makes it."""

    def __init__(self, fit: Fit, variant: Variant) -> None:
        """Take the steps of a fit."""
        module, trainer = fit.module, fit.trainer
        assert fit.optimizer is not None  # noqa: S101  a fit without one is refused
        lay_out(module, variant.layout)
        within = in_precision(module.training_step, trainer.precision_plugin)
        self._step = TrainingStep(within, fit.optimizer, variant, module)
        # What `global_step` counts, which a module may read in its step.
        self._updates = trainer.fit_loop.epoch_loop.automatic_optimization.optim_progress.optimizer
        self._loop = trainer.fit_loop

    def __call__(self, batch: object, index: int) -> object:
        """Do a step."""
        self._loop.epoch_loop.batch_progress.is_last_batch = index + 1 == self._loop.max_batches
        loss = self._step(batch, index)
        self._updates.step.increment_completed()
        return loss

    def counts(self) -> CompilationCounts | None:
        """Return the counts of what was compiled; None for a step that compiles nothing."""
        return self._step.counts()


class HookedStep:
    """A step by Lightning's own code, which calls what the module brings along."""

    def __init__(self, trainer: pl.Trainer, module: pl.LightningModule, speed: Speed) -> None:
        """Take the steps of a Trainer that was set up with `speed` among its callbacks."""
        self._trainer, self._speed = trainer, speed
        self._is_automatic = module.automatic_optimization
        self._loop = trainer.fit_loop.epoch_loop
        self._done = 0

    def __call__(self, batch: object, index: int) -> object:
        """Do a step, unless `on_train_batch_start` skips it."""
        trainer, loop = self._trainer, self._loop
        if trainer.accumulate_grad_batches > 1:
            # By the number in the epoch, which may have more batches than go round.
            index = int(self._done % trainer.num_training_batches)
            self._done += 1
        loop.batch_progress.current.ready = index
        loop.batch_progress.increment_ready()
        loop.batch_progress.is_last_batch = index + 1 == trainer.num_training_batches
        call._call_callback_hooks(trainer, "on_train_batch_start", batch, index)
        if call._call_lightning_module_hook(trainer, "on_train_batch_start", batch, index) == -1:
            return None
        arguments = loop._build_kwargs(OrderedDict(), batch, index)
        if self._is_automatic:
            found = loop.automatic_optimization.run(trainer.optimizers[0], index, arguments)
        else:
            found = loop.manual_optimization.run(arguments)
        call._call_callback_hooks(trainer, "on_train_batch_end", found, batch, index)
        call._call_lightning_module_hook(trainer, "on_train_batch_end", found, batch, index)
        return found

    def counts(self) -> CompilationCounts | None:
        """Return the counts of what was compiled; None for a step that compiles nothing."""
        return self._speed.counts()


def in_precision(step: Callable[..., object], precision: Precision) -> Step:
    """Return a `training_step` or `predict_step` with what the precision puts around it.

    That is nothing where parameters, inputs and arithmetic have one precision: Lightning's empty
    context would only cost time.
    """
    indexed = with_index(step)
    if type(precision) is Precision:
        return indexed

    def within(batch: object, index: int) -> object:
        with precision.forward_context():
            return indexed(batch, index)

    return within


def _brought_along(fit: Fit) -> Iterator[str]:
    """Say what a module brings along that a lean step would leave out."""
    module, trainer = fit.module, fit.trainer
    if not module.automatic_optimization:
        yield "manual optimization"
    yield from between.of_module(module)
    yield from between.of_trainer(trainer)
    yield from (name for name in AROUND if is_overridden(name, module, pl.LightningModule))
    for callback in trainer.callbacks:  # pyrefly: ignore[missing-attribute]
        yield from (name for name in AROUND if is_overridden(name, callback, pl.Callback))
    for optimizer in trainer.optimizers:
        if _may_use_closure(optimizer):
            yield "an optimizer that may use a closure"


def _may_use_closure(optimizer: torch.optim.Optimizer) -> bool:
    """Say whether an optimizer may do more with a closure than to call it once, at first.

    Lightning always gives it one, for a second pass, say, also where it could do without. A step
    without it would then be another one.
    """
    kind = type(optimizer)
    # Torch's own call it once, at first; but LBFGS, which insists on it, as often as it likes.
    if not kind.__module__.startswith("torch.optim.") or kind is torch.optim.LBFGS:
        return True
    # A scheduler wraps it to see that it was called.
    own = vars(optimizer).get("step", kind.step)
    return inspect.unwrap(own) is not inspect.unwrap(kind.step)


def _log_nothing(*arguments: object, **options: object) -> None:
    """Stand for `log` and `log_dict`, which belong to the Trainer's loop."""


OUTSIDE_OF_A_LOOP = {"log": _log_nothing, "log_dict": _log_nothing}
