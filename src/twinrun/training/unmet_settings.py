"""Settings of variants that a workload cannot meet, by what its first step has shown.

Each would be refused or come to nothing inside a job; here the key that asks for it is named.
"""

from collections.abc import Collection, Iterator

import pytorch_lightning as pl
from torch.utils.data import DataLoader

from twinrun.checkpoint.interrupt import stop_after
from twinrun.formatting import plural
from twinrun.process.imported_code import imported_files
from twinrun.training.few_batches import length_of
from twinrun.training.first_step import FirstStep
from twinrun.training.logged_names import may_be_logged
from twinrun.training.rehearsal_plan import Part

NOT_IN_BATCHES = ("epoch_end", "before_validation", "after_validation")  # stops


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
    plateaus = [each for each in trainer.lr_scheduler_configs if each.reduce_on_plateau]
    for waiting in (*callbacks, *plateaus):
        monitor = getattr(waiting, "monitor", None)
        if isinstance(monitor, str) and getattr(waiting, "strict", True):
            name = type(getattr(waiting, "scheduler", waiting)).__name__
            yield from _of_monitor(part, name, monitor, module, step)
            # ModelCheckpoint goes on without one, and of a user's own callback nobody knows.
            fails = waiting in plateaus or isinstance(waiting, pl.callbacks.EarlyStopping)
            if fails and monitor in step.logged_in_validation:
                yield from _of_validation(part, name, monitor)


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


def _of_accumulation(part: Part, why: str) -> Iterator[str]:
    """Say which accumulation a module cannot have."""
    for key, variant in part.used.items():
        if variant.accumulate > 1:
            yield (
                f"module: {why}, so that {key}.accumulate: {variant.accumulate} cannot accumulate "
                f"its gradients; take 1"
            )


def _of_batch_size(part: Part, trainer: pl.Trainer, batches: int) -> Iterator[str]:
    """Name what cuts a mini-batch into more micro-batches than it has samples."""
    loader = trainer.train_dataloader
    if not isinstance(loader, DataLoader) or (size := loader.batch_size) is None:
        return
    samples = length_of(loader.sampler) or size
    # The last one has the rest, if it comes at all.
    is_whole = loader.drop_last or batches * size < samples
    least = size if is_whole else samples % size or size
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
