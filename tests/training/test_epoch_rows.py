"""Rows of epochs go to disk as they come, and are written as a table of all of them would be."""

import io
import math
import random
import tracemalloc
from types import SimpleNamespace

import pandas as pd
import pytest
import torch

from twinrun import artifacts
from twinrun.errors import TwinrunError
from twinrun.training import epoch_log, epoch_rows
from twinrun.training.epoch_log import EpochMetrics


def some_rows(count):
    """Of numbers as they come, of which some are logged in some epochs alone, or later."""
    draw, rows = random.Random(1), []
    special = [0.0, -0.0, 1e16, 1e-5, 123456789.0, math.inf, -math.inf, 5e-324, 1.7e308]
    for epoch in range(1, count + 1):
        row = {"epoch": epoch, "loss": draw.gauss(0, 10 ** draw.uniform(-300, 300))}
        row["special"] = special[epoch % len(special)]
        if epoch % 3 == 0:
            row["third"] = float(epoch)
        if epoch > count - 2:
            row["late, with a comma"] = draw.random()
        if epoch == count // 2:
            row["special"] = math.nan
        rows.append(row)
    return rows


def written_whole(rows, path):
    """As they were written when all of them were in memory."""
    texts = [
        {name: "nan" if math.isnan(value) else value for name, value in row.items()} for row in rows
    ]
    artifacts.write_csv(path, pd.DataFrame(texts or {"epoch": []}))
    return path.read_bytes()


def written(kept, path):
    artifacts.write_csv_parts(path, kept.table())
    return path.read_bytes()


@pytest.mark.parametrize("count", [0, 1, 7, 40])
def test_the_bytes_are_those_of_one_table(tmp_path, monkeypatch, count):
    monkeypatch.setattr(epoch_rows, "PART", 8)
    monkeypatch.setattr(epoch_rows, "NUMBERS", 10)  # not a whole number of rows
    kept = epoch_rows.EpochRows(tmp_path / "trace")
    rows = some_rows(count)
    for row in rows:
        kept.append(row)
    assert len(kept) == count
    assert repr(list(kept.rows())) == repr(rows)
    expected = written_whole(rows, tmp_path / "whole.csv")
    assert written(kept, tmp_path / "parts.csv") == expected


@pytest.mark.parametrize("is_in_folder", [True, False])
def test_a_resumed_training_writes_the_same_bytes(tmp_path, is_in_folder):
    """What came behind the checkpoint is dropped, also metrics that were new there."""
    folder = tmp_path / "trace" if is_in_folder else None
    rows = some_rows(30)
    first, second = epoch_rows.EpochRows(folder), epoch_rows.EpochRows(folder)
    for row in rows[:10]:
        first.append(row)
    file = io.BytesIO()
    torch.save(first.state(), file)
    first.append({"epoch": 11, "never": 1.0})
    first.close()
    file.seek(0)
    second.load(torch.load(file, weights_only=True))
    for row in rows[10:]:
        second.append(row)
    expected = written_whole(rows, tmp_path / "whole.csv")
    assert written(second, tmp_path / "resumed.csv") == expected


def test_rows_of_another_training_are_not_taken(tmp_path):
    first = epoch_rows.EpochRows(tmp_path / "trace")
    first.append({"epoch": 1, "loss": 0.5})
    state = first.state()
    first.close()
    (tmp_path / "trace" / "epochs").write_bytes(bytes(24))
    with pytest.raises(TwinrunError, match="not the trace that belongs to the checkpoint"):
        epoch_rows.EpochRows(tmp_path / "trace").load(state)


def test_a_training_that_goes_back_has_the_rows_of_then(tmp_path):
    """As LearningRateFinder does: in one process, with its own checkpoint."""
    for folder in (None, tmp_path / "trace"):
        kept, rows = epoch_rows.EpochRows(folder), some_rows(4)
        for row in rows[:2]:
            kept.append(row)
        state = kept.state()
        kept.append({"epoch": 3, "loss": 0.0})
        kept.load(state)
        for row in rows[2:]:
            kept.append(row)
        assert repr(list(kept.rows())) == repr(rows)


def trained(metrics, epochs, *, number=10):
    trainer = SimpleNamespace(callback_metrics={}, current_epoch=0)
    for trainer.current_epoch in epochs:
        metrics.on_train_epoch_start(trainer, None)
        values = [torch.tensor(float(trainer.current_epoch + k)) for k in range(number)]
        trainer.callback_metrics = {f"m{k}": value for k, value in enumerate(values)}
        metrics.on_train_epoch_end(trainer, None)
    return metrics


def test_neither_memory_nor_checkpoints_grow_with_the_epochs(tmp_path):
    """Red before: 300,000 epochs of 10 metrics held 433 MB, and 67 MB of each checkpoint."""
    metrics = EpochMetrics(tmp_path / "trace")
    trained(metrics, range(10))
    tracemalloc.start()
    try:
        trained(metrics, range(10, 5010))
        held = tracemalloc.get_traced_memory()[0]
        artifacts.write_csv_parts(tmp_path / "epochs.csv", metrics.table())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert held < 100e3
    assert peak < 5e6
    file = io.BytesIO()
    torch.save(metrics.state_dict(), file)
    assert file.tell() < 10e3


def test_a_checkpoint_has_the_row_of_the_epoch_that_has_ended(tmp_path):
    first, second = (EpochMetrics(tmp_path / "trace") for _ in range(2))
    trained(first, range(3))
    state = first.state_dict()
    assert first.epochs == 2  # the last row is still to be taken
    second.load_state_dict(state)
    assert second.epochs == 3
    trained(second, range(3, 5)).on_train_end(None, None)
    whole = trained(EpochMetrics(), range(5))
    whole.on_train_end(None, None)
    assert list(second.rows()) == list(whole.rows())


def test_workers_beside_the_first_keep_no_rows(tmp_path):
    """But they ask for the values all the same: that may exchange something."""
    metrics = EpochMetrics(tmp_path / "trace", is_kept=False)
    trained(metrics, range(3)).on_train_end(None, None)
    assert metrics.epochs == 0
    assert not (tmp_path / "trace").exists()
    other = epoch_log.EpochMetrics(tmp_path / "trace", is_kept=False)
    other.load_state_dict(metrics.state_dict())
    assert other.epochs == 0
