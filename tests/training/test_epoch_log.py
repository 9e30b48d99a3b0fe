"""A row of each epoch holds what Lightning logs in it: all of it, and nothing else."""

import math
from contextlib import suppress
from types import SimpleNamespace

import pandas as pd
import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.loggers import CSVLogger
from small import Points, Small

from twinrun import artifacts
from twinrun.checkpoint.resumable import Resumable
from twinrun.parallel.team import Team, _SeveralWorkers
from twinrun.parallel.whole_batch import WholeBatch
from twinrun.training import epoch_log
from twinrun.training.epoch_log import EpochMetrics, EpochSeconds
from twinrun.training.first_step import FirstStep

EPOCHS = 4


class LogsEverywhere(Small):
    """Logs in every hook of an epoch that may; in some of them not in every epoch."""

    def on_train_epoch_start(self):
        self.log("started", float(self.current_epoch + 1))

    def training_step(self, batch, batch_idx):
        self.log("both", batch[1].mean(), on_step=True, on_epoch=True)
        if self.current_epoch % 2 == 0:
            self.log("even_step", float(batch_idx), on_epoch=True, on_step=False)
        return super().training_step(batch, batch_idx)

    def on_validation_epoch_end(self):
        self.log("validated", float(self.current_epoch + 1))

    def on_train_epoch_end(self):
        self.log("ended", float(self.current_epoch + 1))
        if self.current_epoch % 2:
            self.log("odd_end", float(self.current_epoch + 1))
        if self.current_epoch == 2:
            self.log("no_number", math.nan)


class Breaks(pl.Callback):
    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        if (trainer.current_epoch, batch_idx) == (2, 1):
            raise KeyboardInterrupt


def fitted(folder, *callbacks, logger=False, checkpoint=None):
    pl.seed_everything(1, verbose=False)
    trainer = pl.Trainer(
        accelerator="cpu",
        max_epochs=EPOCHS,
        logger=logger,
        log_every_n_steps=1,
        enable_progress_bar=False,
        enable_checkpointing=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        default_root_dir=folder,
        callbacks=list(callbacks),
    )
    with suppress(KeyboardInterrupt, SystemExit):
        trainer.fit(LogsEverywhere(), Points(), ckpt_path=checkpoint, weights_only=True)
    return trainer


def by_epoch(logger):
    """What Lightning's own logger wrote: names and values of each epoch."""
    table = pd.read_csv(f"{logger.log_dir}/metrics.csv", dtype=str, keep_default_na=False)
    rows = {}
    for row in table.to_dict("records"):
        logged = rows.setdefault(int(row.pop("epoch")) + 1, {})
        logged |= {name: float(text) for name, text in row.items() if text and name != "step"}
    return rows


def test_rows_are_those_of_lightnings_own_logger(tmp_path):
    metrics, logger = EpochMetrics(), CSVLogger(tmp_path)
    fitted(tmp_path, metrics, logger=logger)
    written = by_epoch(logger)
    assert [row["epoch"] for row in metrics.rows()] == list(written) == [1, 2, 3, 4]
    for row in metrics.rows():
        own = {name: value for name, value in row.items() if name not in ("epoch", "both")}
        assert own == pytest.approx(written[row["epoch"]], nan_ok=True)
    assert [row["ended"] for row in metrics.rows()] == [1, 2, 3, 4]
    assert ["odd_end" in row for row in metrics.rows()] == [False, True, False, True]


def test_a_value_that_is_no_number_is_told_from_none(tmp_path):
    metrics = EpochMetrics()
    fitted(tmp_path, metrics)
    artifacts.write_csv_parts(tmp_path / "epochs.csv", metrics.table())
    table = pd.read_csv(tmp_path / "epochs.csv", dtype=str, keep_default_na=False)
    assert table["no_number"].tolist() == ["", "", "nan", ""]


def test_a_resumed_training_has_the_rows_of_an_uninterrupted_one(tmp_path):
    whole, stopped, resumed = EpochMetrics(), EpochMetrics(), EpochMetrics()
    fitted(tmp_path, whole)
    checkpoints = [Resumable(tmp_path / "checkpoints", minutes=0) for _ in range(2)]
    fitted(tmp_path, checkpoints[0], stopped, Breaks())
    assert list(stopped.rows()) == list(whole.rows())[:2]
    fitted(tmp_path, checkpoints[1], resumed, checkpoint=checkpoints[1].last())
    assert repr(list(resumed.rows())) == repr(list(whole.rows()))


def test_the_first_step_sees_what_is_logged_at_the_end_of_the_epoch(tmp_path):
    step = FirstStep()
    fitted(tmp_path, step)
    assert {"ended", "validated", "started", "train_loss", "val_loss"} <= step.logged


class Timed(Small):
    """Moves a clock instead of taking time, and has workers exchange at the end of an epoch too."""

    def __init__(self, clock, workers):
        super().__init__()
        self.clock, self.workers = clock, workers

    def training_step(self, batch, batch_idx):
        self.clock.seconds += 1
        self.workers.seconds += 0.25
        return super().training_step(batch, batch_idx)

    def validation_step(self, batch, batch_idx):
        self.clock.seconds += 100
        self.workers.seconds += 100

    def on_train_epoch_end(self):
        self.clock.seconds += 1000
        self.workers.seconds += 1000


class TimedTeam(Team):
    """Has exchanged for as long as the clock of the workers says."""

    def __init__(self, workers):
        super().__init__()
        self._whole_batch = WholeBatch(workers, [], None, None)

    communication = _SeveralWorkers.communication
    end_step = _SeveralWorkers.end_step


@pytest.mark.parametrize("interval", [1.0, 2])
def test_seconds_are_those_of_training_steps_alone(monkeypatch, interval):
    """Red before: exchanges at the epoch's end counted, and a validation in the middle of it."""
    clock, workers = SimpleNamespace(seconds=0.0), SimpleNamespace(seconds=0.0)
    monkeypatch.setattr(epoch_log.time, "perf_counter", lambda: clock.seconds)
    seconds = EpochSeconds(TimedTeam(workers))
    trainer = pl.Trainer(
        accelerator="cpu",
        max_epochs=2,
        val_check_interval=interval,
        logger=False,
        enable_progress_bar=False,
        enable_checkpointing=False,
        enable_model_summary=False,
        callbacks=[seconds],
    )
    trainer.fit(Timed(clock, workers), Points())
    assert seconds.of_epochs["epochs"] == [5, 5]
    assert seconds.of_epochs["communication"] == [1.25, 1.25]


def test_an_epoch_that_the_module_logs_is_not_the_rows_own():
    """Red before: rows of one logged number were taken for the same epoch, and compared once."""
    metrics, trainer = EpochMetrics(), SimpleNamespace(callback_metrics={}, current_epoch=0)
    for trainer.current_epoch in range(2):
        metrics.on_train_epoch_start(trainer, None)
        trainer.callback_metrics = {"epoch": torch.tensor(7.0), "loss": torch.tensor(0.5)}
        metrics.on_train_epoch_end(trainer, None)
    metrics.on_train_end(trainer, None)
    (table,) = metrics.table()
    assert table["epoch"].tolist() == [1, 2]
    assert table["epoch (logged)"].tolist() == [7.0, 7.0]
