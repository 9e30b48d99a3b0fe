"""Loaders that a module has made before the fit starts, as a schedule does that asks its length.

Lightning makes them where `estimated_stepping_batches` is asked for, in `configure_optimizers`.
"""

import pytest
import torch
from resumed import assert_resumed, every, fit
from small import Points, Small
from torch.utils.data import DataLoader, IterableDataset, TensorDataset, random_split


class OneCycle(Small):
    """The usual schedule of one long epoch."""

    def configure_optimizers(self):
        optimizer = super().configure_optimizers()
        steps = int(self.trainer.estimated_stepping_batches)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=steps)
        return [optimizer], [{"scheduler": schedule, "interval": "step"}]


class Draws(OneCycle):
    """Draws behind the making of its loaders, and changes its data there."""

    def on_fit_start(self):
        torch.randn(3)
        self.trainer.datamodule.seen = 1


class Split(Points):
    """Draws which samples it has."""

    seen = 0

    def train_dataloader(self):
        rows = random_split(TensorDataset(self.inputs, self.targets), [66, 4])[0]
        return DataLoader(rows, 16, shuffle=True)


class Counts(IterableDataset):
    def __init__(self, inputs, targets):
        self.inputs, self.targets, self.epoch = inputs, targets, 0

    def __len__(self):
        return len(self.inputs)

    def __iter__(self):
        self.epoch += 1
        yield from zip(self.inputs.roll(self.epoch, 0), self.targets.roll(self.epoch, 0))  # noqa: B905


class Stream(Points):
    def train_dataloader(self):
        return DataLoader(Counts(self.inputs, self.targets), 16)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("data", [Points, Split])
@pytest.mark.parametrize("module", [OneCycle, Draws])
def test_one_epoch_is_resumed_in_its_midst(tmp_path, data, module):
    """Red before: its first epoch had no checkpoint, and no word of it."""
    assert_resumed(tmp_path, [3], kills=[4], data=data, module=module, max_epochs=1)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("options", [{}, {"reload_dataloaders_every_n_epochs": 1}])
def test_so_are_later_epochs(tmp_path, options):
    assert_resumed(
        tmp_path, [3, 8, 11], kills=[4, 9, 12], data=Split, module=OneCycle, max_epochs=3, **options
    )


def test_what_the_first_iterator_changes_is_named_here_too(tmp_path):
    told = {"data": Stream, "module": OneCycle, "max_epochs": 1, "in_epoch": every(1)}
    _, _, said = fit(tmp_path, **told)
    assert [text.partition(" changes")[0] for text in said] == [
        "no checkpoints are written in mid-epoch: Counts.epoch"
    ]
