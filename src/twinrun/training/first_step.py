"""The first step of a training: a callback that ends it there and keeps what the step needed.

Jobs ask for time by the seconds of a step. A first one may be slow because it compiles, warms up or
downloads, and a training then waits for that once; and what a short one does once nobody can guess:
so later ones are clocked after it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.trainer.connectors.logger_connector.result import _ResultCollection
from torch.utils._pytree import tree_leaves

from twinrun.batches import num_bytes
from twinrun.config.definitions import Training
from twinrun.config.memory import Sizes
from twinrun.trace.fingerprints import fingerprint, fingerprint_tree
from twinrun.training.assemble import trainer_of
from twinrun.training.batch_clock import SLOW, BatchClock, LaterSteps
from twinrun.training.loader_processes import LoaderProcesses
from twinrun.training.rehearsal_plan import first_batch_of
from twinrun.training.write_run import peak_memory_mb

MOST_WITHOUT_LOSS = 20  # batches that a module may skip before its first step


class FirstStep(pl.Callback):
    """Ends a training after its first step, and keeps what the step needed."""

    def __init__(
        self,
        *,
        keeps_batch: bool = False,
        say: Callable[[str], None] = lambda _: None,
        clock: BatchClock | None = None,
    ) -> None:
        """Take one step; with a clock, which the Trainer asks before, more after it."""
        self.phase = "setting up the training"
        """What is under way."""
        self._say = say
        self.count = 0
        """Batches that were taken: one, and those before it that the module skipped."""
        self.seconds = 0.0
        """Of the first step, by the clock."""
        self.later = LaterSteps()
        """Those after it."""
        self._is_first, self._clock = True, clock
        self.logged: set[str] = set()
        """Metrics of training and validation."""
        self.logged_in_validation: set[str] = set()
        """Those of validation alone."""
        self.backward_passes = 0
        """Of the last batch; an optimizer may have its closure do several."""
        self.has_validated = False
        self.batches: int | None = None
        """Of an epoch, as the loader gives them; None for a stream without a length."""
        self.updates_per_epoch: int | None = None
        """Of the optimizer; None for a stream without a length."""
        self.batch_bytes = self.optimizer_bytes = 0
        self.notes: list[str] = []
        self.initial = 0
        """Fingerprint of all parameters and buffers before the step."""
        self.parameters: dict[str, Any] = {}
        """Fingerprints of those that are trained by then, after the step."""
        self.unchanged: list[str] = []
        """Names of those that the step left as they were."""
        self._before: dict[str, Any] = {}
        self.batch: Any = None
        """Fingerprint of the batch, where it is asked for."""
        self._keeps_batch = keeps_batch
        self._has_loss = True

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Note what is under way: a loader without a length is asked for its first batch soon."""
        self._begin(first_batch_of("train"))

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Keep what is going to be learned."""
        batches = trainer.num_training_batches
        if isinstance(batches, int):
            self.batches = batches
            self.updates_per_epoch = -(-batches // trainer.accumulate_grad_batches)
        else:
            self.notes.append(
                "train_dataloader has no length: an epoch ends where its stream ends, or where the "
                "workload's trainer says"
            )
        self.later.begin(trainer.train_dataloader)
        # Of all: a module may choose later what it trains.
        self._before = _fingerprints(pl_module.named_parameters())
        self.initial = fingerprint_tree([*pl_module.parameters(), *pl_module.buffers()])

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: object, batch_idx: int
    ) -> None:
        """Measure the batch, and have Lightning take it for the epoch's last."""
        which = "the first training step" if self._is_first else "a training step after the first"
        self._begin(which)
        # Only an epoch that ends has Lightning step its schedulers, with what they monitor. Not
        # `limit_train_batches`: schedulers ask the Trainer before how many steps there will be.
        trainer.fit_loop.max_batches = batch_idx + 1
        if not self._is_first:
            return
        self.backward_passes = 0
        self.batch_bytes = num_bytes(batch)
        self.batch = fingerprint_tree(batch) if self._keeps_batch else None

    def on_before_backward(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, loss: torch.Tensor
    ) -> None:
        """Count it."""
        self.backward_passes += self._is_first

    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: object,
        batch: object,
        batch_idx: int,
    ) -> None:
        """End the training; Lightning still validates, and ends the epoch."""
        loss = outputs.get("loss") if isinstance(outputs, Mapping) else outputs
        # Under manual optimization the module calls backward by itself, and may return nothing.
        has_loss = loss is not None or not pl_module.automatic_optimization
        if not self._is_first:
            self._after_first(trainer, batch_idx, has_loss=has_loss)
            return
        self.count += 1
        self._has_loss = has_loss
        if not self._has_loss and self.count < MOST_WITHOUT_LOSS:
            # A module may skip a batch, and Lightning then takes no step.
            trainer.fit_loop.max_batches = batch_idx + 2
            return
        self.parameters = _fingerprints(
            (name, p) for name, p in pl_module.named_parameters() if p.requires_grad
        )
        self.unchanged = [n for n, found in self.parameters.items() if self._before.get(n) == found]
        self._begin("what follows the first training step")
        if isinstance(loss, torch.Tensor) and loss.numel() == 1 and not loss.isfinite():
            self.notes.append(f"the first loss of {type(pl_module).__name__} is {float(loss)}")
        self._is_first = False
        self.seconds = 0.0 if self._clock is None else self._clock.step
        self._go_on(trainer, batch_idx)

    def _after_first(self, trainer: pl.Trainer, batch_idx: int, *, has_loss: bool) -> None:
        """Note the seconds of a later step; one that the module skipped has none."""
        assert self._clock is not None  # noqa: S101 without one there is no later step
        self.later.note(self._clock.step if has_loss else None)
        self._go_on(trainer, batch_idx)

    def _go_on(self, trainer: pl.Trainer, batch_idx: int) -> None:
        """Take another step while none is known, of the next epoch if need be; else end."""
        is_over = 0 <= trainer.max_steps <= trainer.global_step
        if self._clock is not None and not is_over and not self.later.is_enough(self.seconds):
            trainer.fit_loop.max_batches = batch_idx + 2
            self._clock.restart()
            return
        # Not an exception: Lightning validates and ends the epoch, which is to be rehearsed too.
        trainer.should_stop = True

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Note what is under way."""
        self.has_validated = True
        self._begin(first_batch_of("val"))

    def on_validation_batch_start(self, *_: object, **__: object) -> None:
        """Note what is under way."""
        self._begin("the first validation batch")

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Note what is under way, and keep what was logged."""
        self._begin("what follows validation")
        self.logged |= set(trainer.callback_metrics)
        self.logged_in_validation = _names_in(trainer._results)

    def on_test_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Note what is under way."""
        self._begin(first_batch_of("test"))

    def on_predict_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Note what is under way."""
        self._begin(first_batch_of("predict"))

    def on_test_batch_start(self, *_: object, **__: object) -> None:
        """Note what is under way."""
        self._begin("one test and prediction batch")

    on_predict_batch_start = on_test_batch_start

    def _begin(self, phase: str) -> None:
        self.phase = phase
        self._say(phase)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Measure the optimizer; go to no other epoch for a fast step where that takes long."""
        if self._clock is not None and self._clock.has_slow_epochs(trainer):
            trainer.should_stop = trainer.should_stop or self.seconds <= SLOW
        states = [optimizer.state for optimizer in trainer.optimizers]
        tensors = [leaf for state in states for leaf in tree_leaves(list(state.values()))]
        self.optimizer_bytes = sum(t.nbytes for t in tensors if isinstance(t, torch.Tensor))

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Keep the metrics: at the end of its epoch the module logs after all callbacks."""
        self.logged |= set(trainer.callback_metrics)
        self.logged_in_validation -= _names_in(trainer.fit_loop.epoch_loop._results)

    def mistakes(
        self, trainer: pl.Trainer, module: pl.LightningModule, data: pl.LightningDataModule
    ) -> Iterator[str]:
        """Yield why nothing is learned; keep a note where that may be meant."""
        name = type(module).__name__
        if not self.count:
            yield (
                f"data: train_dataloader of {type(data).__name__} gives no batch; it must give at "
                f"least one (a batch_size above the number of samples with drop_last gives none)"
            )
        elif not self._has_loss:
            yield (
                f"module: training_step of {name} returns nothing for the first {self.count} "
                f"batches; under automatic optimization it must return the loss"
            )
        elif module.automatic_optimization and not _has_parameters(trainer):
            yield f"module: configure_optimizers of {name} returns no optimizer"
        elif self.parameters and len(self.unchanged) == len(self.parameters):
            self.notes.append(
                f"the first step of {name} changes no parameter, as with a learning rate that "
                f"begins at 0"
            )


def _names_in(results: _ResultCollection | None) -> set[str]:
    """Return the names under which callbacks find what one loop of Lightning's has logged."""
    return set() if results is None else set(results.metrics(on_step=False)["callback"])


def _has_parameters(trainer: pl.Trainer) -> bool:
    """Say whether any optimizer of Lightning's has something to update."""
    return any(group["params"] for o in trainer.optimizers for group in o.param_groups)


def trainer_of_first_step(
    training: Training, root: str, step: pl.Callback, *others: pl.Callback
) -> pl.Trainer:
    """Return the Trainer of a training that ends after its first step, and one batch of the rest.

    Args:
        training: with the real number of epochs and batches, which schedules are made from.
        root: an empty folder.
        step: ends it.
        others: callbacks, asked before it.
    """
    # What may not be stopped early would train on.
    told = replace(training.workload.trainer, min_epochs=None, min_steps=None)
    trainer = trainer_of(
        training.variant,
        told,
        root=root,
        callbacks=[*others, step],
        max_epochs=training.workload.epochs,
    )
    for name in ("limit_val_batches", "limit_test_batches", "limit_predict_batches"):
        setattr(trainer, name, 1 if getattr(trainer, name) else 0)
    return trainer


def _fingerprints(parameters: Iterable[tuple[str, torch.Tensor]]) -> dict[str, int]:
    return {name: fingerprint(parameter) for name, parameter in parameters}


def sizes_of(
    module: pl.LightningModule, step: FirstStep, clock: BatchClock, loading: LoaderProcesses
) -> Sizes:
    """Measure what a training needs, after its first step."""
    parameters = dict(module.named_parameters())
    trained = step.parameters or {n for n, p in parameters.items() if p.requires_grad}  # by then
    validation, *others = clock.validations or [0.0]
    later = step.later.seconds
    return {
        "parameters": sum(p.numel() for name, p in parameters.items() if name in trained),
        "parameters_bytes": sum(t.nbytes for t in [*parameters.values(), *module.buffers()]),
        "optimizer_bytes": step.optimizer_bytes,
        "batch_bytes": step.batch_bytes,
        "loader_workers": loading.workers,
        "loader_batches": loading.batches,
        "worker_bytes": loading.worker_bytes,
        "peak_memory_mb": peak_memory_mb(),
        "step_seconds": round(step.seconds, 6),
        "later_step_seconds": None if later is None else round(later, 6),
        "validation_seconds": round(validation, 6),
        "later_validation_seconds": round(others[-1], 6) if others else None,  # or by `again`
        "validation_batches": clock.validation_batches,
        "evaluation_seconds": round(clock.evaluation, 6),
        "later_evaluation_seconds": None,
        "evaluation_batches": clock.evaluation_batches,
        "threads": torch.get_num_threads(),
    }
