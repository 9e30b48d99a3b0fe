"""Stop a training at a chosen kind of point, as a kill there would; another process resumes it.

A variant's `stop` names the point, and `resume` the checkpoint to resume from: `lightning`, the one
that Lightning's Trainer writes there, as a ModelCheckpoint would; or `twinrun`, the last one of
`resumable.Resumable`, which lies in mid-epoch where there is room for one. The stop is in the
second epoch, so that an epoch that is done again by mistake is told from the one that was under
way.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytorch_lightning as pl

from twinrun.checkpoint.left_out import drop_hyperparameters
from twinrun.checkpoint.together import Alone, Together
from twinrun.process.fresh_process import leave

EPOCH = 1  # the second
FILE = "interruption.ckpt"
PARTING_SECONDS = 1.0  # for messages that are under way


def stop_after(stop: str, batches: int, micro_batches: int) -> int | None:
    """Return after how many micro-batches of an epoch a stop comes; None where it has no such one.

    Args:
        stop: see `Interrupt`.
        batches: micro-batches of an epoch.
        micro_batches: of a mini-batch; the last one of an epoch may have fewer.

    >>> stop_after("mid_epoch", 8, 2), stop_after("mid_accumulation", 8, 2)
    (4, 5)
    >>> stop_after("mid_epoch", 2, 2), stop_after("mid_accumulation", 2, 2)
    (None, 1)
    >>> stop_after("mid_epoch", 3, 2), stop_after("mid_accumulation", 3, 2)
    (2, 1)
    """
    if stop == "last_batch":
        return batches
    # At the end of a mini-batch, where no accumulated gradient can be lost. 0 is the epoch's start.
    middle = -(-batches // micro_batches) // 2 * micro_batches
    if stop == "mid_epoch":
        return middle or None
    if stop != "mid_accumulation" or micro_batches == 1:
        return None
    # Lightning steps at the last micro-batch of an epoch, however few its mini-batch has.
    return next((start + 1 for start in (middle, 0) if start + 1 < batches), None)


def checkpoint_before(stop: str) -> Callable[[pl.Trainer, int], bool]:
    """Return what says behind how many batches a checkpoint is written before a stop.

    The last whole mini-batch before it; before a stop at an epoch's end, in the middle of the
    epoch. There is none where a stop comes with the first mini-batch.
    """

    def is_there(trainer: pl.Trainer, done: int) -> bool:
        parts, batches = trainer.accumulate_grad_batches, trainer.num_training_batches
        # A stream without a length: see `Interrupt.on_train_batch_end`.
        batches = batches if isinstance(batches, int) else 2 * parts
        if stop in ("mid_epoch", "mid_accumulation", "last_batch"):
            point = stop_after(stop, batches, parts) or 1
            before = (point - 1) // parts * parts
        else:
            before = stop_after("mid_epoch", batches, parts) or 0
        return trainer.current_epoch == EPOCH and done == before

    return is_there


# The Trainer moves subclasses of Checkpoint behind all other callbacks (`_reorder_callbacks`).
class Interrupt(pl.callbacks.Checkpoint):
    """Ends the process at a kind of point; Lightning calls it after all other callbacks."""

    def __init__(self, stop: str, file: Path | None, together: Together | None = None) -> None:
        """Say where to stop.

        Args:
            stop: `mid_epoch`, `mid_accumulation`, `last_batch`, `epoch_end`, `before_validation`
                or `after_validation`.
            file: where to save Lightning's checkpoint, if at all.
            together: the workers, which all come to that point.
        """
        self._stop = stop
        self._file = file
        self._together: Together = together or Alone()

    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: object,
        batch: object,
        batch_idx: int,
    ) -> None:
        """Stop after a batch of the right number, if it is to be after a batch."""
        parts, batches = trainer.accumulate_grad_batches, trainer.num_training_batches
        if isinstance(batches, int):
            point = stop_after(self._stop, batches, parts)
        elif trainer.fit_loop.epoch_loop.batch_progress.is_last_batch:
            point = stop_after(self._stop, batch_idx + 1, parts)
        else:
            # A stream without a length has no middle that is known: behind its first mini-batch.
            point = None if self._stop == "last_batch" else stop_after(self._stop, 2 * parts, parts)
        if point == batch_idx + 1:
            self._end(trainer)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Stop at the end of the epoch, if it is to be there."""
        if self._stop == "epoch_end":
            self._end(trainer)

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Stop before validation, if it is to be there."""
        if self._stop == "before_validation":
            self._end(trainer)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Stop after validation, if it is to be there."""
        if self._stop == "after_validation":
            self._end(trainer)

    def on_save_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Leave out what could not be loaded as data alone."""
        drop_hyperparameters(checkpoint)

    def _end(self, trainer: pl.Trainer) -> None:
        if trainer.current_epoch != EPOCH:
            return
        if self._file is not None:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            # weights_only=True would leave out optimizers, schedulers and callbacks.
            trainer.save_checkpoint(self._file, weights_only=False)
        if self._together.count > 1:
            # Who ends while another one still waits for a message of its would be missed.
            self._together.everyones(None)
            time.sleep(PARTING_SECONDS)
        leave()
