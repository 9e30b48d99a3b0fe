"""Loaders in loaders, that fetch a batch ahead."""

import pytest
import torch
from resumed import assert_resumed
from small import Points, Small
from torch.utils.data import DataLoader, Sampler, TensorDataset


class OfEpochs(Sampler):
    def __init__(self):
        self.epoch = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        return 70

    def __iter__(self):
        generator = torch.Generator().manual_seed(self.epoch)
        return iter(torch.randperm(70, generator=generator).tolist())


class Silent:
    """Fetches a batch ahead, and shows nothing of its loader: its sampler is told no epoch."""

    def __init__(self, loader):
        self.loader = loader

    def __len__(self):
        return len(self.loader)

    def __iter__(self):
        last = None
        for batch in self.loader:
            if last is not None:
                yield last
            last = [batch[0] * 2, batch[1]]
        yield last


class Prefetching(Silent):
    """Shows what Lightning asks for."""

    @property
    def sampler(self):
        return self.loader.sampler

    @property
    def dataset(self):
        return self.loader.dataset


class Twice(Prefetching):
    pass


class Prefetched(Points):
    def train_dataloader(self):
        data = TensorDataset(self.inputs, self.targets)
        return self.wrapped(DataLoader(data, 16, sampler=OfEpochs()))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("minutes", [0, 1000])
@pytest.mark.parametrize(
    "wrapped",
    [Prefetching, Silent, lambda loader: Twice(Prefetching(loader))],
    ids=["shown", "hidden", "twice"],
)
def test_a_sampler_that_is_told_through_a_prefetcher_is_told_anew(tmp_path, wrapped, minutes):
    """Red before: OfEpochs.epoch "changes while the training runs"."""
    data = type("Data", (Prefetched,), {"wrapped": staticmethod(wrapped)})
    at, every_batches = ([10], 9) if not minutes else ([12], 2)
    told = {"data": data, "module": Small, "max_epochs": 3, "minutes": minutes}
    assert_resumed(tmp_path, at, kills=(13,), every_batches=every_batches, **told)
