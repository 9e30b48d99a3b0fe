"""The loader of a proof gives a few batches and is otherwise the module's own loader."""

from dataclasses import replace
from pathlib import Path

import pytest
import pytorch_lightning as pl
import torch
from example_trainings import VARIANT
from torch.utils.data import BatchSampler, DataLoader, Dataset, Sampler, TensorDataset

from twinrun.config.definitions import Training, Variant, Workload
from twinrun.training.few_batches import BATCHES, few_of, giving, shorten
from twinrun.training.prove import prove


class Order(Sampler):
    """A sampler that must be told the epoch."""

    def __init__(self, size):
        self.size, self.epochs = size, []

    def set_epoch(self, epoch):
        self.epochs.append(epoch)

    def __iter__(self):
        return iter(range(self.size))

    def __len__(self):
        return self.size


class Shapes(TensorDataset):
    """A dataset that knows its classes."""

    classes = ("square", "circle")


class Own(DataLoader):
    """A class and an attribute of one's own."""

    weight = 3.0


def loader_of(size=100, batch_size=8, kind=Own):
    return kind(
        Shapes(torch.randn(size, 4), torch.randn(size, 1)),
        batch_size=batch_size,
        sampler=Order(size),
    )


def test_it_is_the_loader_in_all_but_its_batches():
    loader = loader_of()
    batches = few_of(loader)
    found = giving(batches, loader)
    assert [len(batch[0]) for batch in found] == [8, 8, 4]
    assert isinstance(found, Own)
    assert type(found).__name__ == "Own"
    for name in ("dataset", "sampler", "batch_sampler", "batch_size", "collate_fn", "weight"):
        assert getattr(found, name) is getattr(loader, name)
    assert len(found) == len(loader) == 13
    # The user's own is what it was.
    assert len(list(loader)) == 13


def test_iterating_it_draws_nothing():
    loader = loader_of()
    found = giving(few_of(loader), loader)
    before = torch.get_rng_state()
    assert len(list(found)) == len(list(found)) == BATCHES
    assert torch.equal(torch.get_rng_state(), before)


def test_an_epoch_of_too_few_batches_is_as_long_as_its_batches():
    loader = loader_of(size=8)
    assert (len(loader), len(giving(few_of(loader), loader))) == (1, BATCHES)


class Slotted:
    """A loader without a dictionary of its attributes."""

    __slots__ = ("batches",)

    def __init__(self):
        self.batches = [torch.ones(2)] * 5

    def __iter__(self):
        return iter(self.batches)

    def __len__(self):
        return 5


class Unfriendly(Slotted):
    """Neither copied nor derived from."""

    def __init_subclass__(cls):
        raise TypeError("final")


@pytest.mark.parametrize("kind", [Slotted, Unfriendly])
def test_a_loader_of_any_class_is_shortened(kind):
    loader = kind()
    assert len(list(giving(few_of(loader), loader))) == BATCHES


class Whole(Dataset):
    """Gives whole batches only."""

    def __getitems__(self, indices):
        return torch.tensor(indices)

    def __len__(self):
        return 2 * 40 - 1


def as_it_is(batch):
    return batch


def test_the_last_batch_is_fetched_as_the_loader_does_it():
    """Red before: such a dataset, of more than 34 batches, could not be proven at all."""
    batches = BatchSampler(range(2 * 40 - 1), 2, drop_last=False)
    loader = DataLoader(Whole(), batch_sampler=batches, collate_fn=as_it_is)
    assert [batch.tolist() for batch in few_of(loader)] == [[0, 1], [2, 3], [78]]


class Data(pl.LightningDataModule):
    def train_dataloader(self):
        return loader_of()


class AsksItsLoader(pl.LightningModule):
    """Looks at its loader wherever Lightning lets it."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def on_train_start(self):
        loader = self.trainer.train_dataloader
        assert isinstance(loader, Own)
        assert loader.dataset.classes == ("square", "circle")
        assert (len(loader.dataset), loader.batch_size, len(loader)) == (100, 8, 13)
        assert len(self.trainer.datamodule.train_dataloader().dataset) == 100

    def on_train_epoch_start(self):
        assert self.trainer.train_dataloader.sampler.epochs[-1] == self.current_epoch
        self.trainer.train_dataloader.batch_sampler.sampler.set_epoch(self.current_epoch)

    def training_step(self, batch, batch_idx):
        share = len(batch[0]) / len(self.trainer.train_dataloader.dataset)
        return share * (self.layer(batch[0]) - batch[1]).square().mean()

    def configure_optimizers(self):
        steps = len(self.trainer.datamodule.train_dataloader()) * self.trainer.max_epochs
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.2, total_steps=steps)
        return [optimizer], [{"scheduler": schedule, "interval": "step"}]


def test_a_module_that_asks_its_loader_is_proven():
    """Red before: refused, because a list has no classes and no samplers."""
    folder = str(Path(__file__).parent)
    workload = Workload(
        module="test_few_batches:AsksItsLoader",
        data="test_few_batches:Data",
        dataset=None,
        hyperparameters={},
        epochs=2,
    )
    variant = replace(Variant(**VARIANT), optimizer="foreach")
    found = prove(
        Training(workload=workload, variant=variant, seed=1, dataset=None, search_path=[folder])
    )
    assert (found["steps"], found["shapes"]) == (6, 2)


def test_several_loaders_in_one_stay_as_they_are():
    class Several(pl.LightningDataModule):
        def train_dataloader(self):
            return {"a": 1}

    data = Several()
    shorten(data)
    assert data.train_dataloader() == {"a": 1}
