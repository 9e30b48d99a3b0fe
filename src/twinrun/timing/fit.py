"""A fit of Lightning's that is set up as always and then done step by step.

A timing measures variants in turn, and `Trainer.fit` cannot be left and entered again. So Lightning
sets a fit up: module, layers made in `setup` and `configure_model`, device, precision, optimizers
and schedules, hooks, loaders. Its two loops, which are a few lines each, are written out here from
Lightning 2.6 (`FitLoop.run` and `_TrainingEpochLoop.run`), so that a step can be waited for:
https://github.com/Lightning-AI/pytorch-lightning/blob/2.6.0/src/lightning/pytorch/loops/fit_loop.py

After the workload's epochs or steps the training begins again: schedules and counts go back to
where they started, which is all that a module sees of them; weights and the optimizer's state keep
what was learned.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import NoReturn

import pytorch_lightning as pl
import torch
from pytorch_lightning.core.optimizer import _MockOptimizer
from pytorch_lightning.loggers.logger import DummyLogger
from pytorch_lightning.loops.fetchers import _DataFetcher
from pytorch_lightning.strategies import SingleDeviceStrategy
from pytorch_lightning.trainer import call
from pytorch_lightning.trainer.states import TrainerFn, TrainerStatus
from pytorch_lightning.utilities.model_helpers import _ModuleMode, is_overridden
from torch.utils.benchmark import timer  # synchronises the device, then reads the clock
from torchmetrics import Metric

from twinrun.acceleration.placement import device_of
from twinrun.config.definitions import Variant
from twinrun.errors import TwinrunError
from twinrun.timing.beginning import Beginning, Recurring
from twinrun.timing.compiled_in_rounds import num_graphs
from twinrun.timing.initial_state import InitialState
from twinrun.training.assemble import trainer_of
from twinrun.training.without_checkpoints import without_checkpoints

# What a module may do with the metrics of validation while it trains.
READERS = ("on_train_epoch_start", "on_train_epoch_end", "lr_scheduler_step")


class Fit:
    """The training of one module under one variant."""

    def __init__(
        self,
        initial: InitialState,
        module: pl.LightningModule,
        variant: Variant,
        *,
        callbacks: Sequence[pl.Callback] = (),
    ) -> None:
        """Set it up, as far as the hook `on_fit_start`.

        Args:
            initial: where the data comes from.
            module: one of its modules, for this fit alone.
            variant: its settings.
            callbacks: of the fit, beside the module's own.

        Raises:
            TwinrunError: if the module has no optimizer, or the device no such precision.
            JobError: if the device is missing.
        """
        self.module = module
        self.untimed_seconds = 0.0
        """That were spent so far in what is no part of a training step."""
        self.untimed_graphs = 0
        """That torch compiled in it."""
        self._initial, self._data, self._epochs = initial, initial.data, initial.epochs
        self._recurring: Recurring | None = None
        without_checkpoints(module)
        with initial.seeded():  # layers that are made now get the same weights for each variant
            self.trainer = trainer_of(
                # Validation is decided on below. The clock is for the training step alone.
                replace(variant, checkpointing=False, logging=False),
                initial.trainer_arguments,
                root=initial.root,
                callbacks=list(callbacks),
                strategy=SingleDeviceStrategy(device_of(variant)),
                max_epochs=initial.epochs,
            )
            # Its code may write to a logger, and callbacks refuse to be without one.
            if variant.logging and not self.trainer.loggers:
                self.trainer.loggers = [DummyLogger()]
            self._set_up()
        if str(self.trainer.precision) != variant.precision:
            raise TwinrunError(
                f"precision: Lightning computes {self.trainer.precision} here, in place of "
                f"{variant.precision}"
            )
        if module.automatic_optimization and isinstance(self.optimizer, _MockOptimizer | None):
            raise TwinrunError(
                f"{type(module).__name__}.configure_optimizers gives 0 optimizers, where automatic "
                f"optimization needs exactly one"
            )

    @property
    def optimizer(self) -> torch.optim.Optimizer | None:
        """The first one."""
        return next(iter(self.trainer.optimizers), None)

    def set_up_prediction(self) -> None:
        """Call the module's `setup` as before a prediction; this fit trains no more."""
        trainer, module = self.trainer, self.module
        trainer.state.fn = TrainerFn.PREDICTING
        with self._initial.seeded():  # what is made now is the same for each variant, too
            module.setup("predict")
        trainer.state.fn = TrainerFn.FITTING
        trainer.precision_plugin.convert_module(module)
        trainer.strategy.model_to_device()

    @contextmanager
    def predicting(self) -> Iterator[None]:
        """Have the module in the mode of prediction, and then each of its layers in its own.

        As Lightning's loop does: what a module has frozen in evaluation mode, it trains with so.
        """
        mode = _ModuleMode()
        mode.capture(self.module)
        call._call_lightning_module_hook(self.trainer, "on_predict_model_eval")
        try:
            yield
        finally:
            mode.restore(self.module)

    def begin(self) -> None:
        """Begin the training: the loaders, and the hooks before the first epoch.

        Raises:
            TwinrunError: if the loader gives no batch.
        """
        trainer, loop = self.trainer, self.trainer.fit_loop
        self._data.trainer = trainer
        trainer.limit_val_batches = 1 if trainer.limit_val_batches and self._is_validated() else 0
        loop.setup_data()
        if not loop.max_batches:
            raise TwinrunError("train_dataloader gives no batch")
        loop.reset()
        loop.on_run_start()

    def begin_epoch(self) -> None:
        """Call the hooks before an epoch's first step."""
        self.trainer.fit_loop.on_advance_start()

    def pass_epoch(self) -> None:
        """Do what a Trainer does between two epochs, but for counts and schedules.

        Hooks, and one batch of validation where they may read what it logs.
        """
        trainer, loop = self.trainer, self.trainer.fit_loop
        self._data.trainer = trainer
        if trainer.limit_val_batches and trainer.enable_validation:
            trainer.validating = True
            try:
                loop.epoch_loop.val_loop.run()
            finally:
                trainer.training = True
        trainer._logger_connector.epoch_end_reached()
        call._call_callback_hooks(trainer, "on_train_epoch_end", monitoring_callbacks=False)
        call._call_lightning_module_hook(trainer, "on_train_epoch_end")
        call._call_callback_hooks(trainer, "on_train_epoch_end", monitoring_callbacks=True)
        trainer._logger_connector.on_epoch_end()
        trainer._logger_connector.update_train_epoch_metrics()
        # Lightning does so with those that are logged, and here nobody knows which these are.
        for part in self.module.modules():
            if isinstance(part, Metric):
                part.reset()
        trainer.should_stop = False
        self.begin_epoch()

    def until_over(self, calls: int) -> Iterator[int]:
        """Cut bare steps where the training is over: there it begins again (see `Recurring`)."""
        if self._recurring is None:
            self._recurring = Recurring(self.trainer, self._epochs)
        return self._recurring.cut(calls)

    def steps(self) -> Iterator[None]:
        """Begin, and train for ever; each time something is taken from here, one step.

        Raises:
            TwinrunError: if an epoch has no step.
        """
        loop, validation = self.trainer.fit_loop, self.trainer.fit_loop.epoch_loop.val_loop
        vars(validation)["run"] = self._clocked(validation.run)
        self.begin()
        beginning = Beginning(self.trainer)
        while True:
            self.begin_epoch()
            yield from self._epoch()
            loop.on_advance_end()
            loop.on_iteration_done()
            # EarlyStopping ends a training, and has Lightning validate, but no timing of its steps.
            self.trainer.should_stop = False
            if self._is_over():
                beginning.restore(self.trainer)

    def _is_over(self) -> bool:
        """Say whether the training ends here, by its epochs or by its steps."""
        epochs, steps = self._epochs, self.trainer.max_steps
        has_taken_all = -1 < steps <= self.trainer.global_step
        return has_taken_all or -1 < epochs <= self.trainer.current_epoch

    def _epoch(self) -> Iterator[None]:
        loop, batches = self.trainer.fit_loop.epoch_loop, _fetcher(self.trainer)
        loop.reset()
        with self._ordered():
            if self.trainer.current_epoch == 0:
                # There Lightning takes the iterator for one that was made just now.
                iter(batches)
            loop.on_run_start(batches)
            goes_on = self._takes_a_step(batches)
        if not goes_on:
            raise TwinrunError("an epoch of the Trainer took no step")
        while goes_on:
            self.trainer.should_stop = False
            yield
            self._data.trainer = self.trainer
            goes_on = self._takes_a_step(batches)

    def _takes_a_step(self, batches: _DataFetcher) -> bool:
        """Take a step, and say whether there was one left in the epoch."""
        loop = self.trainer.fit_loop.epoch_loop
        if loop._is_training_done:
            return False
        try:
            loop.advance(batches)
            loop.on_advance_end(batches)
        except StopIteration:
            return False
        finally:
            loop.on_iteration_done()
        return True

    @contextmanager
    def _ordered(self) -> Iterator[None]:
        """Begin the epoch with the same batches as every variant, and as the bare steps.

        A loader draws its order when the first batch is fetched.
        """
        with ExitStack() as drawn:
            started = timer()
            drawn.enter_context(self._initial.ordered(self.trainer.train_dataloader))
            self.untimed_seconds += timer() - started
            yield
            started = timer()
        self.untimed_seconds += timer() - started

    def _set_up(self) -> None:
        trainer = self.trainer
        # Instance attributes, found before the methods. What Lightning tears down would have to be
        # set up again; only the handlers of signals are given back.
        vars(trainer).update(_run_stage=_stop, _teardown=trainer._signal_connector.teardown)
        try:
            trainer.fit(self.module, datamodule=self._data)
        except _SetUp:
            # Lightning has taken it for a failure.
            trainer.state.fn, trainer.state.status = TrainerFn.FITTING, TrainerStatus.RUNNING
            trainer.training = True
        self.module.zero_grad()

    def _is_validated(self) -> bool:
        """Say whether the training may need what validation logs: one batch of it then."""
        plateaus = (config.reduce_on_plateau for config in self.trainer.lr_scheduler_configs)
        own = self.module.configure_callbacks()
        reads = any(is_overridden(hook, self.module, pl.LightningModule) for hook in READERS)
        return any(plateaus) or bool(own) or reads

    def _clocked(self, run: Callable[[], object]) -> Callable[[], object]:
        def clocked() -> object:
            started, graphs = timer(), num_graphs()
            found = run()
            self.untimed_graphs += num_graphs() - graphs
            self.untimed_seconds += timer() - started
            return found

        return clocked


class _SetUp(Exception):
    """Raised where Lightning would begin to train."""


def _stop() -> NoReturn:
    raise _SetUp


def _fetcher(trainer: pl.Trainer) -> _DataFetcher:
    """Return what fetches the batches, which is there once the loop has set up its data."""
    found = trainer.fit_loop._data_fetcher
    assert found is not None  # noqa: S101
    return found
