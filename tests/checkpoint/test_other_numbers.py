"""Numbers that are none of Python's plain ones are state as well, wherever they are kept."""

import decimal
import fractions

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from resumed import assert_resumed, every, fit
from small import Points, Small
from torch.utils.data import DataLoader, IterableDataset, Sampler

from twinrun.checkpoint.stream_position import moved, possible_positions
from twinrun.checkpoint.unsaved_optimizers import changed_optimizers, states_of_optimizers

KINDS = [np.int64, np.float32, decimal.Decimal, fractions.Fraction, complex]
TURN = None


class Turns(Sampler):
    """Begins each epoch at another place."""

    turn = None

    def __init__(self, data, zero):
        self.size, self.turn = len(data), zero

    def __len__(self):
        return self.size

    def __iter__(self):
        self.turn = self.turn + type(self.turn)(1)
        first = int(self.turn.real)
        return iter([(first + index) % self.size for index in range(self.size)])


def turning(kind):
    class Turning(Points):
        def train_dataloader(self):
            data = super().train_dataloader().dataset
            return DataLoader(data, batch_size=16, sampler=Turns(data, kind(0)))

    return Turning


@pytest.mark.parametrize("kind", [decimal.Decimal, fractions.Fraction])
def test_the_number_of_a_sampler_is_refused_where_it_changes(tmp_path, kind):
    """Red before: not a word of it, or of what had held its first value."""
    _, _, (said,) = fit(tmp_path, turning(kind), Small, minutes=0)
    assert "Turns.turn changes while the training runs" in said


@pytest.mark.parametrize(
    "kind",
    [np.int64, *(pytest.param(k, marks=pytest.mark.exhaustive) for k in (np.float32, complex))],
)
def test_or_put_back(tmp_path, kind):
    """Red before: refused."""
    options = {"data": turning(kind), "module": Small, "minutes": 0, "max_epochs": 3}
    assert_resumed(tmp_path, [10], kills=[13], every_batches=9, **options)


class ReadsAGlobal(Small):
    def training_step(self, batch, batch_idx):
        global TURN
        TURN = TURN + type(TURN)(1)
        return super().training_step(batch, batch_idx) * float(TURN.real)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_number_in_a_global_is_refused_where_it_changes(tmp_path, kind, monkeypatch):
    """Red before: numbers of NumPy went on from their first value, without a word."""
    monkeypatch.setitem(globals(), "TURN", kind(0))
    _, _, (said, *_) = fit(tmp_path, module=ReadsAGlobal, in_epoch=every(1), kill=3)
    assert f"{__name__}.TURN changes while the training runs" in said


class Stream(IterableDataset):
    def __init__(self, place):
        self.place = place

    def __iter__(self):
        yield self.place


@pytest.mark.parametrize(
    ("place", "then"), [(np.int64(0), np.int64(1)), (np.int64(0), 1), (0, [1]), (0, np.zeros(1))]
)
def test_the_place_of_a_stream_is_seen_in_any_number(place, then):
    """Red before: only where it was one of Python's own, and stayed one."""
    stream = Stream(place)
    before = possible_positions([DataLoader(stream)], {})
    assert list(moved(before, possible_positions([DataLoader(stream)], {}))) == []
    stream.place = then
    (said,) = moved(before, possible_positions([DataLoader(stream)], {}))
    assert said.startswith("Stream.place changes while the training runs")


class Phased(torch.optim.SGD):
    """Keeps the phase that it is in."""

    def __init__(self, parameters):
        super().__init__(parameters, lr=0.1)
        self.phase, self.turn, self.rows = "warm", 1j, []
        self.cells = {Stream(0)}


class SavesAll(Phased):
    def state_dict(self):
        return {**super().state_dict(), "phase": self.phase}

    def load_state_dict(self, state_dict):
        self.phase = state_dict.pop("phase")
        super().load_state_dict(state_dict)


def another_phase(optimizer):
    optimizer.phase = "cold"


def another_turn(optimizer):
    optimizer.turn *= 1j


def another_cell(optimizer):
    next(iter(optimizer.cells)).place = 1


def nothing(optimizer):
    optimizer.note, optimizer.rows = "made late", [None]


@pytest.mark.parametrize(
    ("kind", "change", "name"),
    [
        (Phased, another_phase, "phase"),
        (Phased, another_turn, "turn"),
        (Phased, another_cell, "cells in order[0].place"),
        (SavesAll, another_phase, None),
        (Phased, nothing, None),
    ],
)
def test_what_is_no_number_of_an_optimizer_is_state_too(kind, change, name):
    """Red before: only tensors, arrays and plain numbers were looked at, and no set of objects."""
    module = pl.LightningModule()
    module.layer = torch.nn.Linear(2, 2)
    trainer = type("Trainer", (), {"lightning_module": module, "lr_scheduler_configs": []})()
    trainer.optimizers = [kind(module.parameters())]
    before = states_of_optimizers(trainer)
    change(trainer.optimizers[0])
    said = list(changed_optimizers(before, states_of_optimizers(trainer)))
    if name is None:
        assert said == []
    else:
        (found,) = said
        assert found.startswith(f"{kind.__name__}.{name} changes while the training runs")


def test_a_tensor_of_one_number_is_not_held_as_the_count_of_a_parameter_is_like_it():
    """Red before: the steps that Adam counts were taken for it, until they were others."""
    module = pl.LightningModule()
    module.layer = torch.nn.Linear(2, 2)
    trainer = type("Trainer", (), {"lightning_module": module, "lr_scheduler_configs": []})()
    trainer.optimizers = [optimizer] = [torch.optim.Adam(module.parameters())]
    optimizer.turn = torch.tensor(0.0)
    module.layer(torch.ones(2)).sum().backward()
    before = states_of_optimizers(trainer)
    optimizer.step()
    optimizer.turn += 1
    (said,) = changed_optimizers(before, states_of_optimizers(trainer))
    assert said.startswith("Adam.turn changes while the training runs")
