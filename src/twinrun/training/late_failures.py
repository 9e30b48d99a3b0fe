"""What fails in a later step of a training: after hours, if nobody looks ahead of it.

The last mini-batch of an epoch has fewer samples, maybe one, of which batch normalisation has no
variance; a schedule may be made for fewer steps than there will be.
"""

import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytorch_lightning as pl
from pytorch_lightning.utilities.model_helpers import is_overridden
from torch.optim.lr_scheduler import OneCycleLR
from torch.utils.data import DataLoader

from twinrun.config.definitions import Training
from twinrun.errors import sentence_of
from twinrun.formatting import plural
from twinrun.process.imported_code import imported_files
from twinrun.training.assemble import build
from twinrun.training.few_batches import batch_of, giving, last_indices, length_of
from twinrun.training.first_step import FirstStep, trainer_of_first_step
from twinrun.training.own_copies import is_larger
from twinrun.training.rehearsal_plan import Part
from twinrun.training.rehearsed_checkpoints import write_checkpoints_below
from twinrun.training.step_on_copies import LARGEST


def of_later_steps(
    part: Part, trainer: pl.Trainer, step: FirstStep, notes: list[str]
) -> Iterator[str]:
    """Name what fails in a later step.

    Args:
        part: with the variants that it is trained under.
        trainer: after its first step.
        step: what it has shown.
        notes: told of what fails in a training that nothing ends before.
    """
    variants = part.used.values()
    # The shards of several workers are others, and so may be the number of their steps.
    if part.key == "devices.size" or (variants and all(each.devices > 1 for each in variants)):
        return  # a size is timed for a few steps
    yield from _of_last_batch(part, trainer, step)
    for sentence in _of_schedules(part, trainer, step):
        if _may_stop_early(trainer):
            notes.append(f"{part.label}: {sentence.removeprefix('module: ')}")
        else:
            yield sentence


class _TwoSteps(pl.Callback):
    """Ends a training after its second step."""

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: object, batch_idx: int
    ) -> None:
        """Have Lightning take the second one for the epoch's last."""
        trainer.fit_loop.max_batches = 2
        trainer.should_stop = batch_idx > 0


def samples_of_batches(loader: object, batches: int) -> tuple[int, int] | None:
    """Return how many samples mini-batches and the smallest one have; None where nobody knows.

    Args:
        loader: of training data.
        batches: that an epoch takes of it.
    """
    if not isinstance(loader, DataLoader) or (size := loader.batch_size) is None:
        return None
    samples = length_of(loader.sampler) or size
    # The last one has the rest, if it comes at all.
    is_whole = loader.drop_last or batches * size < samples
    return size, size if is_whole else samples % size or size


def _of_last_batch(part: Part, trainer: pl.Trainer, step: FirstStep) -> Iterator[str]:
    """Take a step with the last mini-batch of an epoch, if that is a smaller one."""
    batches, workload = step.batches, part.training.workload
    if batches is None or (of := samples_of_batches(trainer.train_dataloader, batches)) is None:
        return
    size, least = of
    if least == size:
        return
    if workload.trainer.batches_taken(workload.epochs, batches) < batches:
        return
    if not part.key.startswith("workloads.") or is_larger(trainer.lightning_module, LARGEST):
        return  # it is made once more
    error = _failure_of_step(part.training, is_last=True)
    # What cannot be made twice in one process fails with any mini-batch.
    if error is not None and _failure_of_step(part.training, is_last=False) is None:
        yield (
            f"data: the last mini-batch of an epoch has {plural(least, 'sample')} rather than "
            f"{size}, with which a training step fails: {sentence_of(error)}; leave "
            f"it out (drop_last=True), or take another batch size"
        )


def _failure_of_step(training: Training, *, is_last: bool) -> Exception | None:
    """Take two steps of a training that is built anew; return what it fails with."""
    try:
        module, data, _ = build(training)
        original = data.train_dataloader

        def train_dataloader() -> object:
            loader = original()
            last = last_indices(loader) if is_last else None
            if last is None:
                return loader
            # Behind another one: the first batch of a training may give layers their shapes.
            return giving([next(iter(loader)), batch_of(loader, last)], loader)

        data.train_dataloader = train_dataloader
        with tempfile.TemporaryDirectory(prefix="twinrun-") as root:
            write_checkpoints_below(module, root)
            told = trainer_of_first_step(training, root, _TwoSteps())
            told.limit_val_batches = 0
            told.fit(module, datamodule=data)
    except Exception as error:  # a user's module may raise anything
        return error
    return None


def _of_schedules(part: Part, trainer: pl.Trainer, step: FirstStep) -> Iterator[str]:
    """Name schedules that fail behind a number of steps which the training exceeds."""
    module, epochs = trainer.lightning_module, part.training.workload.epochs
    if not module.automatic_optimization or is_overridden("lr_scheduler_step", module):
        return
    for each in trainer.lr_scheduler_configs:
        schedule = each.scheduler
        taken = _steps_of(each.interval, part, step) if each.frequency == 1 else None
        if not isinstance(schedule, OneCycleLR) or taken is None or taken <= schedule.total_steps:
            continue
        yield (
            f"module: OneCycleLR of {type(module).__name__} is made for "
            f"{plural(schedule.total_steps, 'step')} (total_steps, or epochs times "
            f"steps_per_epoch) and fails behind them; a training of {plural(epochs, 'epoch')} "
            f"takes {taken}, one each {'update' if each.interval == 'step' else 'epoch'} "
            f"(`interval`); self.trainer.estimated_stepping_batches is the number of updates"
        )


def _steps_of(interval: str, part: Part, step: FirstStep) -> int | None:
    """Return how many steps a schedule takes in a training; None where nobody knows."""
    workload, updates = part.training.workload, step.updates_per_epoch
    most = workload.trainer.max_steps
    is_known = isinstance(workload.trainer.accumulation(), int) and workload.epochs >= 0
    if not is_known or updates is None:
        return None
    taken = updates * workload.epochs if most == -1 else min(updates * workload.epochs, most)
    return taken if interval == "step" else taken // updates


def _may_stop_early(trainer: pl.Trainer) -> bool:
    if any(isinstance(each, pl.callbacks.EarlyStopping) for each in vars(trainer)["callbacks"]):
        return True
    for entry in imported_files().values():
        with suppress(OSError):  # one that is gone
            if b"should_stop" in Path(entry["file"]).read_bytes():
                return True
    return False
