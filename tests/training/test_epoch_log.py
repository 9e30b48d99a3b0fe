"""A row of each epoch holds what Lightning logs in it: all of it, and nothing else."""

import math
from contextlib import suppress

import pandas as pd
import pytest
import pytorch_lightning as pl
from pytorch_lightning.loggers import CSVLogger
from small import Points, Small

from twinrun.checkpoint.resumable import Resumable
from twinrun.training.epoch_log import EpochMetrics
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
    assert [row["epoch"] for row in metrics.rows] == list(written) == [1, 2, 3, 4]
    for row in metrics.rows:
        own = {name: value for name, value in row.items() if name not in ("epoch", "both")}
        assert own == pytest.approx(written[row["epoch"]], nan_ok=True)
    assert [row["ended"] for row in metrics.rows] == [1, 2, 3, 4]
    assert ["odd_end" in row for row in metrics.rows] == [False, True, False, True]


def test_a_value_that_is_no_number_is_told_from_none(tmp_path):
    metrics = EpochMetrics()
    fitted(tmp_path, metrics)
    metrics.table().to_csv(tmp_path / "epochs.csv", index=False)
    table = pd.read_csv(tmp_path / "epochs.csv", dtype=str, keep_default_na=False)
    assert table["no_number"].tolist() == ["", "", "nan", ""]


def test_a_resumed_training_has_the_rows_of_an_uninterrupted_one(tmp_path):
    whole, stopped, resumed = EpochMetrics(), EpochMetrics(), EpochMetrics()
    fitted(tmp_path, whole)
    checkpoints = [Resumable(tmp_path / "checkpoints", minutes=0) for _ in range(2)]
    fitted(tmp_path, checkpoints[0], stopped, Breaks())
    assert stopped.rows == whole.rows[:2]
    fitted(tmp_path, checkpoints[1], resumed, checkpoint=checkpoints[1].last())
    assert repr(resumed.rows) == repr(whole.rows)


def test_the_first_step_sees_what_is_logged_at_the_end_of_the_epoch(tmp_path):
    step = FirstStep()
    fitted(tmp_path, step)
    assert {"ended", "validated", "started", "train_loss", "val_loss"} <= step.logged
