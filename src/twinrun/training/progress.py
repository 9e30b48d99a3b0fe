"""Where a training stands, while it runs: a line on the terminal, and curves in TensorBoard.

`tensorboard --logdir results/runs` shows the curves of every run. Both only read.
"""

import math
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytorch_lightning as pl
from torch.utils.tensorboard import SummaryWriter

from twinrun.process.fresh_process import report_progress
from twinrun.trace.loss import Now
from twinrun.trace.step_tracer import Tracer

LINE_SECONDS = 10.0  # between two lines
POINT_SECONDS = 1.0  # between two points of the loss
EPOCH_SECONDS = 0.05  # between two points of epochs; an epoch may be a single short step
# Of a curve, from which on its points lie farther apart: the longer it is, the farther.
POINTS = 2_000


class Progress(pl.Callback):
    """Says every few seconds where the training stands and when it will be done."""

    def __init__(self, label: str, tracer: Tracer, workers: int) -> None:
        self._label = label
        self._tracer = tracer
        self._workers = "1 worker" if workers == 1 else f"{workers} workers"
        self._started = self._said = time.monotonic()
        self._begun = 0.0  # what part of the training was done where it is resumed

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Start the clock."""
        self._started = self._said = time.monotonic()
        # What a checkpoint brought along took none of this process's time.
        self._begun = _part_done(trainer, 0)

    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: object,
        batch: object,
        batch_idx: int,
    ) -> None:
        """Say it, if it is time to."""
        now = time.monotonic()
        # The clock is asked first: the tracer waits for a GPU.
        if now - self._said < LINE_SECONDS or (step := self._tracer.now) is None:
            return
        self._said = now
        left, done = "", _part_done(trainer, batch_idx + 1)
        if done > self._begun:  # of a stream nobody knows
            seconds = (now - self._started) * (1 - done) / (done - self._begun)
            left = f", about {seconds:.0f} s left"
        epochs = trainer.max_epochs
        of = f" of {epochs}" if epochs and epochs > 0 else ""
        # A module that optimizes manually need not return one.
        loss = "" if step.loss is None else f"loss {step.loss:.4g}, "
        report_progress(
            f"{self._label}: epoch {step.epoch}{of}, step {step.step}, {loss}{self._workers}{left}"
        )


def _part_done(trainer: pl.Trainer, batches: int) -> float:
    """Return what part of a training is done, by its epochs or its steps: what ends it first."""
    parts = [0.0]
    has_length = math.isfinite(trainer.num_training_batches)
    if has_length and trainer.max_epochs and trainer.max_epochs > 0:
        epochs = trainer.current_epoch + batches / trainer.num_training_batches
        parts.append(epochs / trainer.max_epochs)
    if trainer.max_steps > 0:
        parts.append(trainer.global_step / trainer.max_steps)
    return max(parts)


class Curves(pl.Callback):
    """Writes the loss and what the module logs as TensorBoard events, as long as that works.

    They are a convenience: a full disk ends the curves, and not the training.
    """

    def __init__(self, folder: Path, tracer: Tracer) -> None:
        self._folder = folder
        self._tracer = tracer
        self._written = self._summed = 0.0
        self._began = time.monotonic()
        self._writer: SummaryWriter | None = None
        self._is_broken = False

    def on_train_batch_end(self, *_: object, **__: object) -> None:
        """Add a point of the loss, if it is time to."""
        is_due = self._writer is None or self._is_due(self._written, POINT_SECONDS)
        # The clock is asked first: the tracer waits for a GPU.
        if is_due and not self._is_broken and (step := self._tracer.now) is not None:
            with self._tolerated():
                self._add_loss(step)

    def _is_due(self, last: float, seconds: float) -> bool:
        """Say whether a curve has its next point; days of points would be gigabytes."""
        now = time.monotonic()
        return now - last >= max(seconds, (now - self._began) / POINTS)

    @contextmanager
    def _tolerated(self) -> Iterator[None]:
        """End the curves, once and for all, where they cannot be written."""
        try:
            yield
        # The writer's thread keeps an error for the next call.
        except OSError as error:
            self._is_broken = True
            report_progress(
                f"{self._folder}: the curves end here ({error.strerror or error}): the training "
                f"continues without"
            )

    def _add_loss(self, step: Now) -> None:
        if self._writer is None:
            if step.step == 1:  # an earlier run's events would be drawn into the same curves
                shutil.rmtree(self._folder, ignore_errors=True)
            # A resumed run takes back what was drawn of the steps that it does once more.
            self._writer = SummaryWriter(str(self._folder), flush_secs=5, purge_step=step.step)
        self._written = time.monotonic()
        if step.loss is not None:
            self._writer.add_scalar("loss", step.loss, step.step)

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Add a point of what was logged in the epoch before, if it is time to."""
        # Not at its end, where callbacks are asked before the module, which may log there.
        if self._is_due(self._summed, EPOCH_SECONDS):
            self._add_logged(trainer)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Add a point of what was logged in the last epoch."""
        self._add_logged(trainer)

    def _add_logged(self, trainer: pl.Trainer) -> None:
        # None before the first step; a resumed training may have none to do.
        if self._writer is None or self._is_broken:
            return
        self._summed = time.monotonic()
        with self._tolerated():
            for name, value in trainer.callback_metrics.items():
                self._writer.add_scalar(name, float(value), self._tracer.steps)

    def teardown(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Close the file, however the training ended."""
        if self._writer is not None:
            with suppress(OSError) if self._is_broken else self._tolerated():
                self._writer.close()
