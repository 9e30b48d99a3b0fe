"""Samples that are drawn by one generator and steps that draw from another; and a full disk."""

import errno
import random

import pytest
import torch
from pytorch_lightning.utilities import CombinedLoader
from resumed import assert_resumed, every, fit
from small import Points, Small
from torch.utils.data import DataLoader, Dataset, TensorDataset

from twinrun import artifacts
from twinrun.checkpoint import completed


class Moved(Dataset):
    """Moves a sample by a random number of Python's."""

    def __init__(self, inputs, targets):
        self.inputs, self.targets = inputs, targets

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, index):
        return self.inputs[index] + random.random(), self.targets[index]


class MovedPoints(Points):
    def train_dataloader(self):
        return DataLoader(Moved(self.inputs, self.targets), 16, shuffle=True)


class DropsOut(Small):
    def forward(self, inputs):
        hidden = torch.nn.functional.dropout(self.hidden(inputs).relu(), training=self.training)
        return self.output(hidden)


class DropsOutByPython(Small):
    def forward(self, inputs):
        return super().forward(inputs) * (1 + random.random() * self.training)


def test_generators_that_do_not_meet_stand_against_nothing(tmp_path):
    """Red before: draws of any two were taken for draws of one."""
    assert_resumed(tmp_path, [3, 8], kills=[4, 9], data=MovedPoints, module=DropsOut)


def test_the_generator_that_both_draw_from_is_named(tmp_path):
    options = {"in_epoch": every(2), "max_epochs": 1}
    _, _, said = fit(tmp_path, MovedPoints, DropsOutByPython, **options)
    assert "that the steps draw from too (python)" in said[0]


class Both(Points):
    """Trains on two loaders, of which the shorter one is begun anew, with data workers."""

    own = False

    def one(self, size):
        rows = TensorDataset(self.inputs[:size], self.targets[:size])
        own = torch.Generator().manual_seed(size) if self.own else None
        return DataLoader(rows, 16, shuffle=True, num_workers=1, generator=own)

    def train_dataloader(self):
        return CombinedLoader([self.one(70), self.one(32)], "max_size_cycle")


class BothOfTheirOwn(Both):
    own = True


class DropsOutOfBoth(DropsOut):
    def training_step(self, batch, batch_idx):
        first, second = batch
        return super().training_step(first, batch_idx) + self._step(second, "second")


def test_loaders_with_workers_that_draw_orders_in_turn_are_told_a_cure(tmp_path):
    """Red before: told to have data workers, which they have."""
    options = {"in_epoch": every(3), "max_epochs": 1}
    _, _, said = fit(tmp_path, Both, DropsOutOfBoth, **options)
    assert "(by a `generator` of each loader they can)" in said[0]
    assert_resumed(
        tmp_path, [3], kills=[4], data=BothOfTheirOwn, module=DropsOutOfBoth, max_epochs=1
    )


class LeavesOut(Small):
    def state_dict(self, *arguments, **options):
        found = super().state_dict(*arguments, **options)
        return {name: value for name, value in found.items() if "hidden" not in name}

    def load_state_dict(self, found, strict=True, assign=False):
        return super().load_state_dict(found, strict=False)


class HoldsAGraph(Small):
    def training_step(self, batch, batch_idx):
        self.last = super().training_step(batch, batch_idx)
        return self.last


def refuse(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(
    ("owner", "name", "module", "words"),
    [
        (completed, "save_straight", LeavesOut, "could not be written (No space left on device)"),
        (artifacts, "write_text", HoldsAGraph, "HoldsAGraph.last holds the graph"),
    ],
)
def test_a_full_disk_costs_checkpoints_and_no_training(
    tmp_path, monkeypatch, owner, name, module, words
):
    """Red before: torch's error of its own ended the training, and so did a word of a refusal."""
    monkeypatch.setattr(owner, name, refuse)
    (rows, _, _), _, said = fit(tmp_path, Points, module, in_epoch=every(2), max_epochs=1)
    assert len(rows) == 5
    assert words in said[0]
