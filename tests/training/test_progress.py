"""Curves are a convenience."""

import math
from types import SimpleNamespace

import pytest

from twinrun.trace.loss import Losses, Now
from twinrun.training import progress


class FullDisk:
    """Stands in for the writer, whose thread keeps an error for the next call."""

    def __init__(self, *_, **__):
        self.calls = 0

    def add_scalar(self, *_):
        self.calls += 1
        raise OSError(28, "No space left on device")

    def close(self):
        raise OSError(28, "No space left on device")


class NoFolder(FullDisk):
    def __init__(self, *_, **__):
        raise PermissionError(13, "Permission denied")


@pytest.mark.parametrize(
    ("writer", "reason"), [(FullDisk, "No space left"), (NoFolder, "Permission denied")]
)
def test_a_training_goes_on_without_curves_that_cannot_be_written(
    tmp_path, monkeypatch, writer, reason
):
    """Red before: a full disk ended a training in mid-epoch."""
    said = []
    monkeypatch.setattr(progress, "report_progress", said.append)
    monkeypatch.setattr(progress, "SummaryWriter", writer)
    monkeypatch.setattr(progress, "POINT_SECONDS", 0.0)
    tracer = SimpleNamespace(now=Now(1, 1, 0.5), steps=1)
    trainer = SimpleNamespace(callback_metrics={"loss": 0.5})
    curves = progress.Curves(tmp_path / "tensorboard", tracer)
    for _ in range(3):
        curves.on_train_batch_end()
    curves.on_train_epoch_start(trainer, None)
    curves.on_train_end(trainer, None)
    curves.teardown(trainer, None, "fit")
    assert len(said) == 1
    assert reason in said[0]


@pytest.mark.parametrize(
    ("batches", "max_steps", "end"),
    [(4, -1, ", about 0 s left"), (math.inf, -1, "1 worker"), (math.inf, 4, ", about 0 s left")],
)
def test_a_stream_without_a_length_has_no_time_that_is_left(monkeypatch, batches, max_steps, end):
    """But for one that so many steps will end."""
    said = []
    monkeypatch.setattr(progress, "report_progress", said.append)
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    tracer = SimpleNamespace(now=Now(4, 1, 0.5))
    told = {"max_epochs": 1, "max_steps": max_steps}
    trainer = SimpleNamespace(current_epoch=0, global_step=4, num_training_batches=batches, **told)
    line = progress.Progress("mine", tracer, 1)
    line.on_train_batch_end(trainer, None, None, None, 3)
    assert said == [f"mine: epoch 1 of 1, step 4, loss 0.5, 1 worker{end.removeprefix('1 worker')}"]


def test_a_step_that_returned_no_loss_has_none_in_the_line(monkeypatch, tmp_path):
    """Red before: "loss nan", which reads as a training that diverged."""
    said = []
    monkeypatch.setattr(progress, "report_progress", said.append)
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    losses = Losses()
    losses.note(1, None)
    tracer = SimpleNamespace(now=Now(4, 1, losses.last()), steps=4)
    trainer = SimpleNamespace(
        current_epoch=0, global_step=4, num_training_batches=math.inf, max_epochs=1, max_steps=-1
    )
    progress.Progress("mine", tracer, 1).on_train_batch_end(trainer, None, None, None, 3)
    assert said == ["mine: epoch 1 of 1, step 4, 1 worker"]
    drawn = []
    monkeypatch.setattr(
        progress,
        "SummaryWriter",
        lambda *_, **__: SimpleNamespace(add_scalar=lambda *point: drawn.append(point)),
    )
    progress.Curves(tmp_path, tracer).on_train_batch_end()
    assert drawn == []


class Asked:
    """A tracer that counts how often it waits for the training to say where it is."""

    def __init__(self):
        self.asked, self.steps = 0, 1

    @property
    def now(self):
        self.asked += 1
        return Now(1, 1, 0.5)


def test_a_gpu_is_waited_for_where_something_is_said_alone(tmp_path, monkeypatch):
    """Red before: three times after each step, as the loss was read before the clock."""
    clock = iter(range(100))
    monkeypatch.setattr(progress.time, "monotonic", lambda: 1000.0 + next(clock) * 1e-3)
    monkeypatch.setattr(
        progress, "SummaryWriter", lambda *_, **__: SimpleNamespace(add_scalar=print)
    )
    tracer = Asked()
    curves = progress.Curves(tmp_path / "tensorboard", tracer)
    line = progress.Progress("mine", tracer, 1)
    for index in range(10):
        curves.on_train_batch_end()
        line.on_train_batch_end(None, None, None, None, index)
    assert tracer.asked == 1  # the first point of the curve


def test_the_curves_of_a_long_training_have_few_points(tmp_path, monkeypatch):
    """Red before: 20 points a second of each metric, for days: gigabytes."""
    clock = SimpleNamespace(now=5e5)
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: clock.now))
    added = []
    writer = SimpleNamespace(add_scalar=lambda name, *_: added.append(name))
    monkeypatch.setattr(progress, "SummaryWriter", lambda *_, **__: writer)
    trainer = SimpleNamespace(callback_metrics={"metric": 0.5})
    curves = progress.Curves(tmp_path / "tensorboard", Asked())
    counts = []
    for epoch in range(50_000):
        clock.now += 1.0
        curves.on_train_batch_end()
        curves.on_train_epoch_start(trainer, None)
        if epoch == 1000:
            counts.append((added.count("loss"), added.count("metric")))
    counts.append((added.count("loss"), added.count("metric")))
    assert counts[0] == (1001, 1001)  # all of them, at first
    assert max(counts[1]) < 10_000
