"""What a training comes to epoch by epoch: logged values, seconds."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytorch_lightning as pl
import torch

from twinrun.parallel.team import Team
from twinrun.run_records import OfEpochs
from twinrun.training.epoch_rows import EpochRows

if TYPE_CHECKING:  # a run imports it when it writes its tables
    import pandas as pd


class EpochMetrics(pl.Callback):
    """Keeps what the module logged, a row an epoch.

    A row is taken after the epoch, where the next one starts or the training ends: in
    `on_train_epoch_end` Lightning asks callbacks before the module, which may log there too.
    """

    def __init__(self, folder: Path | None = None, *, is_kept: bool = True) -> None:
        """Write nothing yet.

        Args:
            folder: as of `EpochRows`.
            is_kept: whether rows are kept. Those of workers beside the first are not: but their
                values are asked for all the same, since for that workers may exchange something.
        """
        self._rows, self._is_kept = EpochRows(folder), is_kept
        self._trainer: pl.Trainer | None = None
        self._ended: int | None = None
        # What was known before the epoch, by the very tensors: Lightning keeps the value of a
        # metric that is not logged again, and makes a new tensor of one that is.
        self._before: dict[str, torch.Tensor] = {}

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Add the row of the epoch before."""
        self._close()
        self._before = dict(trainer.callback_metrics)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Note that the epoch has come to its end; its row is still to be taken."""
        self._trainer, self._ended = trainer, trainer.current_epoch + 1

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Add the last row."""
        self._close()

    def on_exception(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException
    ) -> None:
        """Add the row of an epoch after which the training was stopped."""
        self._close()

    def state_dict(self) -> dict[str, Any]:
        """Return the rows so far, for a checkpoint."""
        waiting = self._waiting()  # asked of every worker: they may exchange something for it
        return {"rows": self._rows.state(), "waiting": waiting if self._is_kept else []}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take the rows of a checkpoint."""
        self._rows.load(state_dict["rows"])
        self._add(state_dict["waiting"])
        self._ended = None

    @property
    def epochs(self) -> int:
        """How many rows there are."""
        return len(self._rows)

    def rows(self) -> Iterator[dict[str, float]]:
        """Yield the rows: the epoch, from 1, and what was logged in it."""
        return self._rows.rows()

    def table(self) -> "Iterator[pd.DataFrame]":
        """Yield the rows in parts, as of `EpochRows`."""
        return self._rows.table()

    def _close(self) -> None:
        self._add(self._waiting())
        self._ended = None

    def _add(self, rows: list[dict[str, float]]) -> None:
        for row in rows if self._is_kept else ():
            self._rows.append(row)

    def _waiting(self) -> list[dict[str, float]]:
        """Return the row of an epoch that has ended, as long as it is not among the rows."""
        if self._ended is None or self._trainer is None:
            return []
        values = {
            name: float(value)
            for name, value in self._trainer.callback_metrics.items()
            if value is not self._before.get(name)
        }
        if "epoch" in values:  # a module's own, which need not count the epochs
            values["epoch (logged)"] = values.pop("epoch")
        return [{"epoch": self._ended, **values}]


class EpochSeconds(pl.Callback):
    """Takes the seconds that the training steps of each epoch took, and what comes between them.

    Also how many steps these were, and of how many samples: an epoch may end early, or leave some
    out. Left out is what comes after the last step, before and in a validation as at the end of the
    epoch: in the seconds as in what the workers exchange.
    """

    def __init__(self, team: Team) -> None:
        self.of_epochs: OfEpochs = {"epochs": [], "communication": [], "steps": [], "samples": []}
        self._team = team
        self._started = self._ended = 0.0
        self._seconds = self._exchanged = 0.0
        self._under_way = [0.0, 0.0]
        self._steps_before = 0
        self._on_gpu: torch.cuda.Event | None = None
        """The end of the last step on a GPU, which may still be at it."""

    def state_dict(self) -> dict[str, Any]:
        """Return the seconds so far, for a checkpoint."""
        # In mid-epoch a part of the epoch's have passed; where one starts nobody asks for them.
        under_way = [self._seconds + self._ended - self._started, self._exchanged]
        return {
            "of_epochs": self.of_epochs,
            "steps_before": self._steps_before,
            "under_way": under_way,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take the seconds of a checkpoint."""
        self.of_epochs = state_dict["of_epochs"]
        self._steps_before = state_dict["steps_before"]
        self._under_way = state_dict["under_way"]

    def go_on_in_epoch(self) -> None:
        """Start the clock where the training is resumed in mid-epoch; `Resumable` says it."""
        self._seconds, self._exchanged = self._under_way
        self._go_on()

    def on_train_epoch_start(self, *_: object, **__: object) -> None:
        """Start the clock."""
        self._seconds = self._exchanged = 0.0
        self._steps_before = self._team.tracer.steps
        self._go_on()

    def on_train_batch_end(self, trainer: pl.Trainer, *_: object, **__: object) -> None:
        """Stop it, unless another step follows."""
        if trainer.strategy.root_device.type == "cuda":
            self._on_gpu = self._on_gpu or torch.cuda.Event()
            self._on_gpu.record()
        self._ended = time.perf_counter()
        self._team.end_step()

    def on_validation_start(self, *_: object, **__: object) -> None:
        """Take the seconds until the last step; a validation may come between steps."""
        self._pause()

    def on_validation_end(self, *_: object, **__: object) -> None:
        """Start the clock again."""
        self._go_on()

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Note the epoch's seconds, steps and samples."""
        self._pause()
        steps = self._team.tracer.steps - self._steps_before
        # `trainer.train_dataloader` is the data module's own.
        combined = trainer.fit_loop._combined_loader
        loaders = combined.flattened if combined is not None else []
        self.of_epochs["epochs"].append(round(self._seconds, 4))
        self.of_epochs["communication"].append(round(self._exchanged, 4))
        self.of_epochs["steps"].append(steps)
        self.of_epochs["samples"].append(self._team.samples(loaders, steps))

    def _go_on(self) -> None:
        # Asking takes the seconds so far away: what came before is none of the steps'.
        self._team.communication()
        self._started = self._ended = time.perf_counter()

    def _pause(self) -> None:
        if self._on_gpu is not None and not self._on_gpu.query():
            self._on_gpu.synchronize()
            self._ended = time.perf_counter()
        self._on_gpu = None
        self._seconds += self._ended - self._started
        self._exchanged += self._team.communication()
        self._started = self._ended
