"""States of data that steps move, and that reading an epoch's batches again does not."""

import pytest
import torch
from resumed import assert_resumed, every, fit
from small import Points, Small
from torch.utils.data import DataLoader, Dataset, Sampler, TensorDataset


class HardOnes(Sampler):
    """Draws the samples of large losses more often."""

    def __init__(self):
        self.weights = torch.ones(70)

    def __len__(self):
        return 70

    def __iter__(self):
        return iter(torch.multinomial(self.weights, 70, replacement=True).tolist())

    def state_dict(self):
        return {"weights": self.weights}

    def load_state_dict(self, state):
        self.weights = state["weights"].clone()


class Mined(Points):
    def train_dataloader(self):
        data = TensorDataset(self.inputs, self.targets, torch.arange(70))
        return DataLoader(data, 16, sampler=HardOnes())


class Mines(Small):
    def training_step(self, batch, batch_idx):
        inputs, targets, rows = batch
        losses = (self(inputs) - targets).square()
        self.trainer.train_dataloader.sampler.weights[rows] = losses.detach()[:, 0] + 0.01
        return losses.mean()


class Harder(Dataset):
    def __init__(self, data):
        self.data, self.level = data, 0.0

    def set_epoch(self, epoch):
        self.level = 0.1 * epoch

    def __len__(self):
        return 70

    def __getitem__(self, index):
        return self.data.inputs[index] * (1 + self.level), self.data.targets[index]


class HarderPoints(Points):
    workers = 0

    def train_dataloader(self):
        return DataLoader(Harder(self), 16, num_workers=self.workers)


class WorkersPoints(HarderPoints):
    """Their copies are told nothing in mid-epoch."""

    workers = 2


class Hardens(Small):
    def on_train_epoch_start(self):
        self.trainer.train_dataloader.dataset.set_epoch(self.current_epoch)

    def on_train_batch_start(self, batch, batch_idx):
        self.trainer.train_dataloader.dataset.level += 0.05


@pytest.mark.one_in(2)
@pytest.mark.parametrize("batches", [1, 2])
@pytest.mark.parametrize(
    ("data", "module", "name"),
    [(Mined, Mines, "HardOnes.state_dict()"), (HarderPoints, Hardens, "Harder.level")],
)
def test_what_steps_move_is_refused_in_mid_epoch_alone(tmp_path, data, module, name, batches):
    """Red before: each attempt began again from the beginning, and one was told a wrong cure."""
    told = {"data": data, "module": module, "max_epochs": 3}
    _, _, said = fit(tmp_path / "mid", in_epoch=every(batches), **told)
    assert said == [
        f"no checkpoints are written in mid-epoch: {name} changes between the batches of an epoch, "
        "by steps, say, and these are not taken again where its batches are read again"
    ]
    whole, _, _ = fit(tmp_path / "whole", minutes=0, **told)
    fit(tmp_path / "killed", kill=12, minutes=0, **told)
    found, resumed_at, said = fit(tmp_path / "killed", minutes=0, **told)
    assert (said, resumed_at) == ([], [10])
    assert found == whole


def test_what_steps_move_beside_data_workers_is_no_reason(tmp_path):
    told = {"data": WorkersPoints, "module": Hardens, "max_epochs": 2}
    assert_resumed(tmp_path, [7], kills=(8,), every_batches=2, **told)
