"""Settings of variants that a workload cannot meet, by what its first step has shown.

Each would be refused or come to nothing inside a job; here the key that asks for it is named.
"""

from collections.abc import Collection, Iterator
from typing import Any

import pytorch_lightning as pl

from twinrun.checkpoint.interrupt import stop_after
from twinrun.formatting import plural
from twinrun.parallel.micro_batches import without_length
from twinrun.process.imported_code import imported_files
from twinrun.training.first_step import FirstStep
from twinrun.training.late_failures import samples_of_batches
from twinrun.training.logged_names import may_be_logged
from twinrun.training.rehearsal_plan import Part

NOT_IN_BATCHES = ("epoch_end", "before_validation", "after_validation")  # stops


class Lenient(pl.Callback):
    """Has what waits for a metric do without: the epochs of a rehearsal are short.

    Where not each of them is validated, `of_monitors` reckons what a training meets first.
    """

    def __init__(self) -> None:
        self._strict: list[Any] = []

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Have Lightning go on."""
        is_each = trainer.check_val_every_n_epoch == 1 and trainer.val_check_interval == 1.0
        if trainer.enable_validation and not is_each:
            stopping = pl.callbacks.EarlyStopping
            callbacks = [c for c in vars(trainer)["callbacks"] if isinstance(c, stopping)]
            self._strict = [w for w in (*callbacks, *trainer.lr_scheduler_configs) if w.strict]
        for waiting in self._strict:
            waiting.strict = False

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Put it back."""
        for waiting in self._strict:
            waiting.strict = True


def of_hand(part: Part) -> Iterator[str]:
    """Say which accumulation a module that optimizes by hand cannot have."""
    by_hand = f"{part.training.workload.module} optimizes by hand"
    yield from _of_accumulation(part, by_hand)
    if part.training.workload.trainer.accumulation() != 1:
        yield (
            f"module: {by_hand}, for which Lightning has no accumulate_grad_batches; leave it out "
            f"of `trainer`"
        )


def of_step(part: Part, trainer: pl.Trainer, step: FirstStep) -> Iterator[str]:
    """Name the settings that the optimizers, the loader or the length of the training do not meet.

    Args:
        part: with the variants that it is trained under.
        trainer: after its first step.
        step: what it has shown.
    """
    if trainer.lightning_module.automatic_optimization and step.backward_passes > 1:
        name = f"{type(trainer.optimizers[0]).__name__} of {part.training.workload.module}"
        yield from _of_accumulation(part, f"{name} computes the gradients of a step several times")
    yield from _of_forms(part, trainer)
    yield from _of_length(part, trainer)
    if step.batches is not None and step.updates_per_epoch is not None:
        yield from _of_batch_size(part, trainer, step.batches)
        yield from _of_stops(part, trainer, step.batches, step.updates_per_epoch)


def of_monitors(
    part: Part,
    callbacks: Collection[pl.Callback],
    trainer: pl.Trainer,
    step: FirstStep,
) -> Iterator[str]:
    """Name what waits for a metric that nothing logs: Lightning fails in mid-training.

    Args:
        part: with the variants that it is trained under.
        callbacks: of the training.
        trainer: after its first step.
        step: what was logged.
    """
    module = trainer.lightning_module
    # Lightning steps no schedule of a module that optimizes by hand.
    schedules = trainer.lr_scheduler_configs if module.automatic_optimization else []
    plateaus = [each for each in schedules if each.reduce_on_plateau]
    for waiting in (*callbacks, *plateaus):
        monitor = getattr(waiting, "monitor", None)
        if isinstance(monitor, str) and getattr(waiting, "strict", True):
            name = type(getattr(waiting, "scheduler", waiting)).__name__
            yield from _of_monitor(part, name, monitor, module, step)
            # ModelCheckpoint goes on without one, and of a user's own callback nobody knows.
            fails = waiting in plateaus or isinstance(waiting, pl.callbacks.EarlyStopping)
            if fails and monitor in step.logged_in_validation:
                yield from _of_validation(part, name, monitor)
                yield from _of_first_validation(part, name, waiting, trainer, step)


def of_metric(part: Part, trainer: pl.Trainer, step: FirstStep) -> Iterator[str]:
    """Say why a metric that is there in the rehearsal has no value after a training.

    Args:
        part: with the study's metric.
        trainer: after its first step.
        step: what was logged.
    """
    every, epochs = trainer.check_val_every_n_epoch, part.training.workload.epochs
    if part.metric in step.logged_in_validation and every is not None and every > epochs > 0:
        yield (
            f"{part.study}.metric: {part.metric!r} is logged in validation alone, and "
            f"check_val_every_n_epoch: {every} leaves none in a training of "
            f"{plural(epochs, 'epoch')}"
        )


def _of_monitor(
    part: Part, name: str, monitor: str, module: pl.LightningModule, step: FirstStep
) -> Iterator[str]:
    files = [entry["file"] for entry in imported_files().values()]
    if monitor not in step.logged and not may_be_logged(monitor, module, files):
        yield (
            f"module: {name} monitors {monitor!r}, which is not logged; "
            f"{type(module).__name__} logs {', '.join(sorted(step.logged)) or 'nothing'}"
        )


def _of_validation(part: Part, name: str, monitor: str) -> Iterator[str]:
    """Name the variants that leave out the validation that something waits for."""
    for key, variant in part.used.items():
        if not variant.validation:
            yield (
                f"module: {name} monitors {monitor!r}, which validation alone logs, so that "
                f"{key}.validation: false cannot be; take true"
            )


def _of_first_validation(
    part: Part, name: str, waiting: Any, trainer: pl.Trainer, step: FirstStep
) -> Iterator[str]:
    """Say that something goes by what validation logs before there is one."""
    asked, first = _asked_after(waiting, step), _first_validation(trainer, step)
    epochs, told = part.training.workload.epochs, part.training.workload.trainer
    if asked is None or first is None or first <= asked:
        return
    if step.batches is None or asked <= told.batches_taken(epochs, step.batches):
        yield (
            f"module: {name} goes by {waiting.monitor!r}, which validation alone logs, after "
            f"{_batches(asked, step)} of the training; the first validation is after "
            f"{_batches(first, step)} (val_check_interval, check_val_every_n_epoch); validate "
            f"before, or have it ask later (`frequency` of a schedule) or do without (`strict`)"
        )


def _asked_after(waiting: Any, step: FirstStep) -> int | None:
    """Return after how many mini-batches a metric is first asked for; None where nobody knows.

    Of a stream without a length, epochs are counted.
    """
    epoch = step.batches or 1
    if isinstance(waiting, pl.callbacks.EarlyStopping):  # else after each validation
        return epoch if waiting._check_on_train_epoch_end else None
    if waiting.interval == "epoch":
        return waiting.frequency * epoch
    is_known = step.batches is not None and waiting.frequency <= step.batches
    return waiting.frequency if is_known else None


def _first_validation(trainer: pl.Trainer, step: FirstStep) -> int | None:
    """Return after how many mini-batches the first validation is, counted likewise."""
    every, interval = trainer.check_val_every_n_epoch, trainer.val_check_batch
    if interval is None:  # by the clock
        return None
    if step.batches is None or interval == float("inf"):
        return every
    return int(interval) if every is None else (every - 1) * step.batches + int(interval)


def _batches(number: int, step: FirstStep) -> str:
    return f"{'epoch' if step.batches is None else 'mini-batch'} {number}"


def _of_accumulation(part: Part, why: str) -> Iterator[str]:
    """Say which accumulation a module cannot have."""
    for key, variant in part.used.items():
        if variant.accumulate > 1:
            yield (
                f"module: {why}, so that {key}.accumulate: {variant.accumulate} cannot accumulate "
                f"its gradients; take 1"
            )


def _of_length(part: Part, trainer: pl.Trainer) -> Iterator[str]:
    """Name what cuts the mini-batches of a loader that has no length."""
    why = without_length(trainer.train_dataloader)
    for key, variant in part.used.items() if why is not None else ():
        if variant.accumulate > 1:
            yield f"data: {why} for {key}.accumulate: {variant.accumulate}; take 1"


def _of_batch_size(part: Part, trainer: pl.Trainer, batches: int) -> Iterator[str]:
    """Name what cuts a mini-batch into more micro-batches than it has samples."""
    if (of := samples_of_batches(trainer.train_dataloader, batches)) is None:
        return
    size, least = of
    which = "the last mini-batch of an epoch" if least < size else "a mini-batch"
    for key, variant in part.used.items():
        if variant.accumulate > least:
            yield (
                f"data: {which} has {plural(least, 'sample')}, too few for {key}.accumulate: "
                f"{variant.accumulate}; take {least} at most"
            )


def _of_forms(part: Part, trainer: pl.Trainer) -> Iterator[str]:
    """Name forms that torch has of other optimizers only."""
    for key, variant in part.used.items():
        form = variant.optimizer
        for optimizer in trainer.optimizers if form != "default" else ():
            if form not in optimizer.defaults:
                yield (
                    f"module: {type(optimizer).__name__} has no {form} form, which "
                    f"{key}.optimizer: {form} asks for; leave it out"
                )


def _of_stops(part: Part, trainer: pl.Trainer, batches: int, steps: int) -> Iterator[str]:
    """Name stops in the second epoch that no second epoch, or none of its batches, has."""
    own = trainer.accumulate_grad_batches
    for key, variant in part.used.items():
        stop, parts = variant.stop, variant.accumulate
        if stop == "none":
            continue
        if 0 < trainer.max_steps <= steps:
            yield (
                f"trainer.max_steps: {trainer.max_steps} ends the training in its first epoch of "
                f"{steps} steps, and {key}.stop: {stop} is in the second; take more"
            )
        elif stop not in NOT_IN_BATCHES and stop_after(stop, batches * parts, parts * own) is None:
            yield (
                f"data: an epoch is one mini-batch, so that {key}.stop: {stop} never comes; take "
                f"another"
            )
