"""Loaders that are made from what a training has learnt, drawn or been told, and made again."""

import pytest
import torch
from resumed import assert_resumed, every, fit
from small import Points, Small
from torch.utils.data import DataLoader, Subset, TensorDataset, WeightedRandomSampler, random_split


class Weighs(Small):
    """Weighs its samples where an epoch ends."""

    def __init__(self, **options):
        super().__init__(**options)
        self.weights, self.last = torch.ones(70), 0.0

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        self.last = float(loss)
        return loss

    def on_train_epoch_end(self):
        self.weights = self.weights + self.last * torch.arange(70)


class WeighsInSteps(Weighs):
    def on_train_batch_end(self, *_):
        self.on_train_epoch_end()


class Weighed(Points):
    def sampler(self):
        return WeightedRandomSampler(self.trainer.lightning_module.weights, 70)

    def train_dataloader(self):
        return DataLoader(TensorDataset(self.inputs, self.targets), 16, sampler=self.sampler())


class Hardest(Points):
    """Takes the samples that the network is worst at."""

    def train_dataloader(self):
        with torch.no_grad():
            found = self.trainer.lightning_module.forward(self.inputs)
        order = (found - self.targets).abs().flatten().argsort()
        return DataLoader(TensorDataset(self.inputs[order], self.targets[order]), 16)


class HardestByCall(Hardest):
    """Asks the network as one does, which names nothing of it."""

    def train_dataloader(self):
        return self.sorted_by(self.trainer.lightning_module)

    def sorted_by(self, scores):
        with torch.no_grad():
            order = (scores(self.inputs) - self.targets).abs().flatten().argsort()
        return DataLoader(TensorDataset(self.inputs[order], self.targets[order]), 16)


class Split(Points):
    """Draws which samples an epoch is of."""

    def train_dataloader(self):
        return DataLoader(random_split(TensorDataset(self.inputs, self.targets), [50, 20])[0], 16)


class Skips(Points):
    """Begins its data behind what has been trained, where it is told so."""

    consumed = 0

    def train_dataloader(self):
        rows = range(self.consumed % 70, 70)
        return DataLoader(Subset(TensorDataset(self.inputs, self.targets), list(rows)), 16)

    def state_dict(self):
        return {"consumed": 16 * self.trainer.global_step}

    def load_state_dict(self, state):
        self.consumed = state["consumed"]


RELOAD = {"reload_dataloaders_every_n_epochs": 1}


@pytest.mark.parametrize(
    ("data", "module", "options"),
    [
        (Weighed, Weighs, RELOAD),
        (Hardest, Small, RELOAD),
        (HardestByCall, Small, RELOAD),
        (Split, Small, RELOAD),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_loaders_are_made_from_what_they_were_made_from(tmp_path, data, module, options):
    """Red before: a resumed training made them from what it begins with."""
    told = {"data": data, "module": module, "max_epochs": 3, **options}
    whole, _, _ = fit(tmp_path / "whole", **told)
    for kill in (7, 12):
        fit(tmp_path / "killed", kill=kill, minutes=0, **told)
    found, _, said = fit(tmp_path / "killed", minutes=0, **told)
    assert (found, said) == (whole, [])


@pytest.mark.parametrize(("data", "module"), [(Weighed, Weighs), (Split, Small)])
def test_they_are_so_in_mid_epoch(tmp_path, data, module):
    assert_resumed(tmp_path, [7], kills=[8], data=data, module=module, **RELOAD)


@pytest.mark.parametrize(("kill", "at"), [(4, 3), (8, 7)])
def test_a_data_module_is_told_what_it_was_told(tmp_path, kill, at):
    """Red before: it began behind what had been trained, and that was replayed beside."""
    assert_resumed(tmp_path, [at], kills=[kill], data=Skips, module=Small)


@pytest.mark.parametrize(
    ("data", "module", "name"),
    [
        (Weighed, WeighsInSteps, "WeighsInSteps.weights"),
        (Hardest, Small, "Small.forward"),
        (HardestByCall, Small, "Small.forward"),
    ],
)
def test_what_changes_in_the_epoch_has_none_in_mid_epoch(tmp_path, data, module, name):
    """Red before: one was written, and the batches behind it were other ones."""
    told = {"data": data, "module": module, "in_epoch": every(2), **RELOAD}
    _, _, said = fit(tmp_path, **told)
    assert [text.partition(" changes")[0] for text in said] == [
        f"no checkpoints are written in mid-epoch: {name}"
    ]
