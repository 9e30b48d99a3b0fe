"""What an attempt that ends for other mini-batches says would help, and that it does."""

import re

import numpy as np
import pytest
import torch
from resumed import assert_resumed, every, fit
from small import Points, Small
from torch.utils.data import DataLoader, IterableDataset

from twinrun.errors import TwinrunError


class Counting(IterableDataset):
    """Is told to go on, and counts its epochs where one begins."""

    def __init__(self, inputs, targets):
        self.inputs, self.targets = inputs, targets
        self.spot, self.turn, self.is_told = 0, 0, False

    def __iter__(self):
        if not self.is_told:
            self.spot, self.turn = 0, self.turn + 1
        self.is_told = False
        yield from self.rows()

    def rows(self):
        order = np.random.RandomState(self.turn).permutation(len(self.inputs))
        while self.spot < len(order):
            self.spot += 1
            row = order[self.spot - 1]
            yield self.inputs[row], self.targets[row]

    def state_dict(self):
        return {"spot": self.spot, "turn": self.turn}

    def load_state_dict(self, state):
        self.spot, self.turn, self.is_told = state["spot"], state["turn"], True


class CountingWhereOneEnds(Counting):
    """Says where an epoch ends where the next one begins."""

    def __iter__(self):
        yield from self.rows()
        self.spot, self.turn = 0, self.turn + 1

    def load_state_dict(self, state):
        self.spot, self.turn = state["spot"], state["turn"]


def trained_on(kind):
    class Trained(Points):
        def train_dataloader(self):
            return DataLoader(kind(self.inputs, self.targets), 16)

    return Trained


@pytest.mark.parametrize("how", [{"minutes": 0}, {"in_epoch": every(1)}])
def test_a_stream_is_named_that_says_not_where_its_next_epoch_begins(tmp_path, how):
    told = {"data": trained_on(Counting), "max_epochs": 4, **how}
    fit(tmp_path, kill=13, **told)
    cure = "(Counting says itself where it is: where an epoch ends, its state_dict has to say where"
    with pytest.raises(TwinrunError, match=re.escape(cure)):
        fit(tmp_path, **told)


@pytest.mark.parametrize("minutes", [pytest.param(0, marks=pytest.mark.exhaustive), 1000])
def test_one_that_says_so_is_resumed(tmp_path, minutes):
    told = {"data": trained_on(CountingWhereOneEnds), "max_epochs": 4, "minutes": minutes}
    assert_resumed(tmp_path, [12], kills=[13], **told)


class Asking(IterableDataset):
    """Gives what the network that is trained says."""

    def __init__(self, module):
        self.module = module

    def __iter__(self):
        for _ in range(70):
            with torch.no_grad():
                inputs = torch.rand(4)
                yield inputs + self.module(inputs), inputs.sum(0, keepdim=True)


class Playing(Small):
    def train_dataloader(self):
        return DataLoader(Asking(self), 16)


class NoData(Points):
    def train_dataloader(self):
        return self.trainer.lightning_module.train_dataloader()


def test_data_that_ask_the_network_are_resumed_at_an_epochs_start(tmp_path):
    told = {"data": NoData, "module": Playing, "max_epochs": 4}
    fit(tmp_path / "mid", kill=9, in_epoch=every(1), **told)
    with pytest.raises(TwinrunError, match=r"other ones \(where data ask.*`checkpoint_minutes: 0`"):
        fit(tmp_path / "mid", **told)
    whole, _, _ = fit(tmp_path / "whole", **told)
    fit(tmp_path / "start", kill=9, minutes=0, **told)
    found, at, _ = fit(tmp_path / "start", minutes=0, **told)
    assert (at, found == whole) == ([5], True)
