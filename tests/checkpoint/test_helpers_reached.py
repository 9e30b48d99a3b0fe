"""What helpers hold that steps ask: generators, functions in containers, files, teachers.

Each was resumed to other weights without a word, where the kill came right behind a checkpoint.
"""

import random
import sys
import types
from pathlib import Path
from unittest.mock import ANY

import numpy as np
import pytest
import pytorch_lightning as pl
import small
import torch
from resumed import assert_resumed, every, fit
from small import Points, Small
from torch.utils.data import DataLoader, Dataset

from twinrun.checkpoint.data_attributes import LIBRARIES
from twinrun.checkpoint.looks import handles

COUNTS = {"n": 0}
TEACHER = pl.LightningModule()
TEACHER.layer = torch.nn.Linear(1, 1)


def counted(*_):
    COUNTS["n"] += 1
    return 0.05 * COUNTS["n"]


class Policy:
    def __init__(self, generator=None, call=None):
        self.generator, self.call = generator, call

    def factor(self):
        return self.generator.random() if self.call is None else self.call()


class Calls:
    n = 0

    def __call__(self):
        self.n += 1
        return 0.05 * self.n


class Holds(Small):
    """Weighs its loss by what `held` says."""

    made = staticmethod(lambda: None)

    def __init__(self):
        super().__init__()
        self.held = type(self).made()

    def factor(self):
        return self.held.factor()

    def training_step(self, batch, batch_idx):
        return super().training_step(batch, batch_idx) * (1 + self.factor())


class HoldsFunctions(Holds):
    made = staticmethod(lambda: {"balanced": [counted]})

    def factor(self):
        return self.held["balanced"][0]()


class HoldsAFile(Holds):
    made = staticmethod(lambda: sys.modules[__name__])

    def factor(self):
        return self.held.counted()


class AsksByName(Holds):
    made = staticmethod(lambda: "counted")

    def factor(self):
        return getattr(sys.modules[__name__], self.held)()


class HasATeacher(Holds):
    def factor(self):
        with torch.no_grad():
            TEACHER.layer.weight.mul_(1.05)
        return TEACHER.layer.weight.abs().item()


class Noisy(torch.optim.SGD):
    def __init__(self, parameters):
        super().__init__(parameters, lr=0.01)
        self.generator = torch.Generator().manual_seed(1)

    def step(self, closure=None):
        loss = super().step(closure)
        with torch.no_grad():
            for parameter in self.param_groups[0]["params"]:
                parameter.add_(0.01 * torch.randn(parameter.shape, generator=self.generator))
        return loss


class HasNoise(Small):
    def configure_optimizers(self):
        return Noisy(self.parameters())


def holding(made):
    return type("Holding", (Holds,), {"made": staticmethod(made)})


@pytest.mark.parametrize(
    ("module", "name"),
    [
        (holding(lambda: Policy(np.random.default_rng(1))), "Policy.generator"),
        (holding(lambda: Policy(random.Random(1))), "Policy.generator"),
        (holding(lambda: Policy(call=Policy(np.random.RandomState(1)).factor)), "generator"),
        (holding(lambda: Policy(call=Calls())), "Holding.held"),
        (holding(lambda: Policy(call=counted)), "COUNTS['n']"),
        (HoldsFunctions, "COUNTS['n']"),
        (HoldsAFile, "COUNTS['n']"),
        (AsksByName, "COUNTS['n']"),
        (HasATeacher, "weight"),
        (HasNoise, "Noisy.generator"),
    ],
    ids=str,
)
def test_what_a_helper_holds_is_refused_where_it_changes(tmp_path, module, name):
    _, _, (said, *_) = fit(tmp_path, module=module, in_epoch=every(1), kill=3)
    assert name in said
    assert "changes while the training runs" in said


class Best(Small):
    """Keeps numbers of NumPy."""

    def __init__(self):
        super().__init__()
        self.best, self.seen, self.is_better = np.float64(9), np.int32(0), np.bool_(False)

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        self.seen += np.int32(1)
        self.is_better = np.bool_(loss.item() < self.best)
        self.best = np.mean([self.best, loss.item()])
        return loss * float(1 + 0.1 * self.best + 0.01 * self.seen + 0.1 * self.is_better)


def test_numbers_of_numpy_go_on(tmp_path):
    """Red before: "keeps more than data (numpy._core.multiarray.scalar)"."""
    assert_resumed(tmp_path, [7], kills=[8], module=Best)


class KeepsItsLoss(Small):
    """Writes an object into each checkpoint, as darts does."""

    def on_save_checkpoint(self, checkpoint):
        checkpoint["loss_fn"] = torch.nn.MSELoss()


class Judge(pl.Callback):
    """Its state is an object."""

    def state_dict(self):
        return {"by": torch.nn.MSELoss()}

    def load_state_dict(self, state_dict):
        pass


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"module": KeepsItsLoss}, "under 'loss_fn' of the checkpoint"),
        ({"callbacks": [Judge()]}, "in the state of Judge"),
    ],
)
def test_the_place_of_what_is_no_data_is_named(tmp_path, given, where):
    """Red before: no word of where it is."""
    _, _, (said, *_) = fit(tmp_path, in_epoch=every(1), kill=3, **given)
    assert f"keeps more than data (torch.nn.modules.loss.MSELoss), {where}" in said


class Opened(Dataset):
    """Opens its file where it is first read."""

    def __init__(self, inputs, targets):
        self.inputs, self.targets, self.file = inputs, targets, None

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, index):
        if self.file is None:
            self.file = Path(small.__file__).open()  # noqa: SIM115
        return self.inputs[index], self.targets[index]


class OpenedRows(Points):
    def train_dataloader(self):
        return DataLoader(Opened(self.inputs, self.targets), 16, shuffle=True)


@pytest.mark.filterwarnings("ignore:unclosed file")
def test_a_file_that_a_dataset_opens_late_is_no_reason(tmp_path):
    """Red before: "Opened.file has changed, and is no short list of plain values any more"."""
    assert_resumed(tmp_path, [7], kills=[8], module=Small, data=OpenedRows)


class HoldsAGraph(Small):
    """Its nodes know each other, and are kept in dictionaries."""

    def __init__(self):
        super().__init__()
        self.nodes = [{} for _ in range(24)]
        for node in self.nodes:
            node["others"] = self.nodes


@pytest.mark.timeout(60)
def test_containers_that_hold_each_other_are_walked_once(tmp_path):
    """Red before: each way from one to another was walked, and there are 24 ** 6 of them."""
    _, _, said = fit(tmp_path, module=HoldsAGraph, in_epoch=every(1), kill=3)
    assert said == []


def test_packages_in_attributes_are_not_walked():
    """Red at 11f271a7: `self.F = torch.nn.functional` cost each checkpoint seconds."""
    assert [*handles({"np": np, "F": torch.nn.functional}, LIBRARIES)] == [("container", ANY)]
    own = types.ModuleType("own")
    own.held = {}
    assert ("container", id(own.held)) in [*handles(own, LIBRARIES)]
