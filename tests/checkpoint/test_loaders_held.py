"""Modules that keep their loaders and datasets in attributes, from `__init__` or a hook on."""

import pytest
import torch
from resumed import assert_resumed, every, fit
from small import Points, Small
from torch.utils.data import DataLoader, Dataset, RandomSampler, Subset, TensorDataset

from twinrun.hidden_content import content_of


def rows():
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(70, 4, generator=generator)
    return TensorDataset(inputs, inputs.sum(1, keepdim=True))


class Loader(Small):
    """Makes the loader once."""

    def __init__(self):
        super().__init__()
        self.loader = DataLoader(rows(), 16, shuffle=True)

    def train_dataloader(self):
        return self.loader


class Rows(Small):
    """Makes the dataset once, and a loader of it each time."""

    def __init__(self):
        super().__init__()
        self.rows = rows()

    def train_dataloader(self):
        return DataLoader(self.rows, 16, shuffle=True)


class Part(Small):
    """Has a part of a dataset, and what draws from it, made in a hook."""

    def setup(self, stage):
        self.part = Subset(rows(), range(3, 67))
        self.draws = RandomSampler(self.part)

    def train_dataloader(self):
        return DataLoader(self.part, 16, sampler=self.draws)


class Late(Small):
    """Makes a loader of its own where the training begins: of examples to look at."""

    def on_train_start(self):
        self.examples = DataLoader(rows(), 4)

    def training_step(self, batch, batch_idx):
        inputs, targets = next(iter(self.examples))
        return super().training_step(batch, batch_idx) + 0.1 * (self(inputs) - targets).abs().mean()


def no_data(size):
    """Leave it to the module."""


@pytest.mark.one_in(2)
@pytest.mark.parametrize("module", [Loader, Rows, Part, Late])
def test_who_keeps_loaders_and_datasets_is_resumed(tmp_path, module):
    """Red before: "Loader.loader is not what it was", as its pickle held addresses."""
    data = Points if module is Late else no_data
    assert_resumed(tmp_path, [7], kills=[8], module=module, data=data)


class Relabels(Rows):
    """Writes what it says of a row into the dataset that it keeps."""

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.rows.tensors[1][batch_idx] = float(batch_idx)


def test_a_kept_dataset_that_is_written_to_costs_the_checkpoint(tmp_path):
    _, _, said = fit(tmp_path, kill=8, in_epoch=every(1), module=Relabels, data=no_data)
    assert len(said) == 1
    assert "rows" in said[0]


class Wider(Small):
    """Keeps a dataset that no loader has, and makes another one of it in each step."""

    def on_train_start(self):
        self.part = Subset(rows(), [0])

    def training_step(self, batch, batch_idx):
        self.part = Subset(self.part.dataset, [*self.part.indices, batch_idx])
        inputs, targets = next(iter(DataLoader(self.part, 100)))
        return super().training_step(batch, batch_idx) + 0.1 * (self(inputs) - targets).abs().mean()


def test_a_kept_dataset_that_is_exchanged_costs_the_checkpoint(tmp_path):
    _, _, said = fit(tmp_path, kill=8, in_epoch=every(1), module=Wider)
    assert len(said) == 1
    assert "part" in said[0]


class Nothing(Dataset[int]):
    """Has no attribute."""


def test_a_class_without_state_of_the_standard_library_is_not_pickled():
    assert content_of(Nothing()) is None
    assert content_of(DataLoader(rows(), 4)) is None
