"""The first step of a training, of modules that choose under way what they train."""

import time

import pytest
import pytorch_lightning as pl
import torch
from small import Points, Small
from torch.nn.utils import prune
from torch.utils.data import DataLoader

from twinrun.training import batch_clock
from twinrun.training.batch_clock import BatchClock, LaterSteps
from twinrun.training.first_step import FirstStep, sizes_of
from twinrun.training.loader_processes import LoaderProcesses


class Unfreezes(Small):
    """Trains its last layer first."""

    def __init__(self):
        super().__init__()
        self.requires_grad_(False)

    def on_train_epoch_start(self):
        self.output.requires_grad_(True)


class Prunes(Small):
    """Trains other parameters than it was made with."""

    def on_train_epoch_start(self):
        prune.l1_unstructured(self.output, "weight", amount=2)


class UnfreezesWithoutARate(Unfreezes):
    def __init__(self):
        super().__init__()
        self.hparams.learning_rate = 0.0


class Warms(Small):
    """Takes its time for the first of its steps: it compiles, or downloads something."""

    def __init__(self, slow=1):
        super().__init__()
        self.slow = slow
        self.steps = []

    def training_step(self, batch, batch_idx):
        self.steps.append((self.trainer.current_epoch, batch_idx))
        if len(self.steps) <= self.slow:
            time.sleep(0.2)
        return super().training_step(batch, batch_idx)


def fitted(module, *callbacks, epochs=1, data=None, **told):
    trainer = pl.Trainer(
        accelerator="cpu",
        max_epochs=epochs,
        callbacks=list(callbacks),
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        **told,
    )
    trainer.fit(module, data or Points())


@pytest.mark.parametrize(
    ("slow", "epochs", "told", "steps"),
    [
        # A short one, too, lest what it does once is guessed.
        (0, 1, {}, [(0, 0), (0, 1)]),
        (0, 3, {"limit_train_batches": 1}, [(0, 0), (1, 0)]),
        (0, 1, {"limit_train_batches": 1}, [(0, 0)]),
        (0, 3, {"max_steps": 1}, [(0, 0)]),
        (1, 1, {}, [(0, 0), (0, 1)]),
        # A graph is captured at the second step, other shapes are compiled for.
        (2, 1, {}, [(0, 0), (0, 1), (0, 2)]),
        (9, 1, {}, [(0, 0), (0, 1), (0, 2)]),
        (1, 3, {"limit_train_batches": 1}, [(0, 0), (1, 0)]),
        (1, 1, {"limit_train_batches": 1}, [(0, 0)]),
        (1, 1, {"max_steps": 1}, [(0, 0)]),
        (1, 1, {"accumulate_grad_batches": 4}, [(0, 0), (0, 1)]),
    ],
)
def test_the_first_step_is_followed_by_later_ones(monkeypatch, slow, epochs, told, steps):
    """Red before: the seconds of a slow one, compilation and all, counted for each of them.

    Of a short one 0.2 s were taken off unseen: a job got a third of the time that it took.
    """
    monkeypatch.setattr(batch_clock, "SLOW", 0.15)
    clock = BatchClock()
    step, module = FirstStep(clock=clock), Warms(slow)
    fitted(module, clock, step, epochs=epochs, **told)
    assert module.steps == steps
    assert (step.count, step.unchanged) == (1, [])
    sizes = sizes_of(module, step, clock, LoaderProcesses())
    assert (sizes["later_step_seconds"] is None) == (len(steps) == 1)
    if 0 < slow < len(steps):
        assert sizes["later_step_seconds"] < 0.15 < sizes["step_seconds"]


class ValidatesLong(Warms):
    def validation_step(self, batch, batch_idx):
        time.sleep(0.2)


@pytest.mark.parametrize(
    ("told", "steps"),
    [
        ({"val_check_interval": 1, "limit_val_batches": 1}, [(0, 0), (0, 1)]),
        # A slow validation is not repeated for the sake of a fast step.
        ({"limit_train_batches": 1, "limit_val_batches": 1}, [(0, 0)]),
    ],
)
def test_a_validation_is_no_part_of_a_step(monkeypatch, told, steps):
    monkeypatch.setattr(batch_clock, "SLOW", 0.15)
    clock, module = BatchClock(), ValidatesLong(slow=0)
    step = FirstStep(clock=clock)
    fitted(module, clock, step, epochs=3, **told)
    assert module.steps == steps
    sizes = sizes_of(module, step, clock, LoaderProcesses())
    assert (sizes["later_step_seconds"] or 0.0) < 0.15 < sizes["validation_seconds"]


class Unfreezing(Small):
    def __init__(self):
        super().__init__()
        self.hidden.requires_grad_(requires_grad=False)

    def on_validation_epoch_end(self):
        self.hidden.requires_grad_()


def test_the_parameters_that_the_first_step_trains_are_counted():
    """Red before: those that are trained behind the first validation, of a frozen network."""
    clock, module = BatchClock(), Unfreezing()
    step = FirstStep(clock=clock)
    fitted(module, clock, step)
    assert sizes_of(module, step, clock, LoaderProcesses())["parameters"] == 8 + 1


class Loads(torch.utils.data.Dataset):
    """Takes its time for each sample."""

    def __len__(self):
        return 8

    def __getitem__(self, index):
        time.sleep(0.4)
        return torch.ones(4), torch.ones(1)


def test_loaders_that_are_slowly_made_anew_are_not_for_a_fast_step(monkeypatch):
    clock, module = BatchClock(), Small()
    monkeypatch.setattr(batch_clock, "SLOW", 0.0)
    monkeypatch.setattr("twinrun.training.first_step.SLOW", float("inf"))
    told = {"limit_train_batches": 1, "limit_val_batches": 0}
    fitted(module, clock, FirstStep(clock=clock), epochs=3, **told)
    assert module.calls == 3  # none is known where all are slow
    clock, module = BatchClock(), Small()
    told["reload_dataloaders_every_n_epochs"] = 1
    fitted(module, clock, FirstStep(clock=clock), epochs=3, **told)
    assert module.calls == 1


def test_batches_that_were_loaded_at_the_same_time_do_not_come_for_nothing():
    """Red before: of a batch that two workers give each 0.2 s, one in 0.01 s was clocked."""
    clock, module = BatchClock(), Small()
    step = FirstStep(clock=clock)
    fitted(module, clock, step, data=DataLoader(Loads(), batch_size=1, num_workers=2))
    assert sizes_of(module, step, clock, LoaderProcesses())["later_step_seconds"] > 0.1


@pytest.mark.parametrize(
    ("workers", "first", "seconds", "found"),
    [
        (1, 0.5, [0.1], 0.1),
        (1, 0.5, [2.0, 0.1], 0.1),
        (1, 30.0, [2.0, 3.0], 2.0),
        (1, 30.0, [2.0, None], 2.0),
        (1, 0.5, [None, None], None),
        # Four load at the same time, for 8 s: the fifth batch is waited for.
        (4, 8.0, [0.5, 0.5, 0.5, 6.5], 2.0),
        (4, 8.0, [7.0, 0.5, 0.5, 0.5, 6.5], 2.0),
        # What takes longer than the first batch in all does not wait for the loader.
        (4, 0.5, [0.3, 0.3], 0.3),
        (2, 0.5, [None, 0.1, None, None], 0.1),
    ],
)
def test_steps_are_clocked_until_one_is_known(workers, first, seconds, found):
    later = LaterSteps()
    later.begin([DataLoader([0], num_workers=workers), object()])
    for taken in seconds:
        assert not later.is_enough(first)
        later.note(taken)
    assert later.is_enough(first)
    assert later.seconds == found


def test_without_a_clock_it_is_one_step(monkeypatch):
    monkeypatch.setattr(batch_clock, "SLOW", 0.0)
    module = Warms()
    fitted(module, FirstStep())
    assert module.steps == [(0, 0)]


@pytest.mark.parametrize(
    ("kind", "trained", "unchanged"),
    [
        (Unfreezes, {"output.weight", "output.bias"}, []),
        (Prunes, {"hidden.weight", "hidden.bias", "output.bias", "output.weight_orig"}, []),
        (
            UnfreezesWithoutARate,
            {"output.weight", "output.bias"},
            ["output.weight", "output.bias"],
        ),
    ],
)
def test_what_is_trained_may_be_chosen_where_the_epoch_begins(kind, trained, unchanged):
    """Red before: the rehearsal failed with a KeyError that no line of the module's had raised."""
    step, module = FirstStep(), kind()
    fitted(module, step)
    assert step.count == 1
    assert set(step.parameters) == trained
    assert step.unchanged == unchanged
