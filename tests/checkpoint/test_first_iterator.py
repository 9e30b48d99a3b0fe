"""What the making of the first iterator changes, which a resumed training makes twice."""

import random

import pytest
import torch
from resumed import assert_resumed, every, fit
from small import Points, Small
from torch.utils.data import DataLoader, IterableDataset, Sampler, TensorDataset


class CountsEpochs(IterableDataset):
    """Draws its order from the number of its epoch."""

    def __init__(self, inputs, targets):
        self.inputs, self.targets = inputs, targets
        self.epoch, self.place, self.files = 0, {"epoch": 0}, list(range(len(inputs)))
        self.order, self.share = torch.arange(len(inputs)), None

    def begin(self):
        self.epoch += 1

    def __iter__(self):
        self.begin()
        self.share = range(len(self.inputs))
        rows = torch.Generator().manual_seed(self.epoch + self.place["epoch"])
        for row in torch.randperm(70, generator=rows)[self.order].tolist():
            yield self.inputs[self.files[row]], self.targets[self.files[row]]


class InADictionary(CountsEpochs):
    def begin(self):
        self.place["epoch"] += 1


class ShufflesFiles(CountsEpochs):
    def begin(self):
        random.Random(self.epoch).shuffle(self.files)


class TurnsItsTensor(CountsEpochs):
    def begin(self):
        self.order.copy_(self.order.roll(1))


class Shares(CountsEpochs):
    """Sets in `__iter__` what is the same each time."""

    def begin(self):
        pass


class ByBatch(Sampler):
    """Counts its epochs where it is asked for an iterator, before any batch."""

    def __init__(self, size):
        self.size, self.epoch = size, 0

    def __len__(self):
        return -(-self.size // 16)

    def __iter__(self):
        self.epoch += 1
        order = torch.randperm(self.size, generator=torch.Generator().manual_seed(self.epoch))
        return iter(order.split(16))


class StreamPoints(Points):
    stream = CountsEpochs

    def train_dataloader(self):
        return DataLoader(self.stream(self.inputs, self.targets), 16)


class BatchedPoints(Points):
    def train_dataloader(self):
        return DataLoader(TensorDataset(self.inputs, self.targets), batch_sampler=ByBatch(70))


def of(stream):
    return type(stream.__name__, (StreamPoints,), {"stream": stream})


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("data", "name"),
    [
        (of(CountsEpochs), "CountsEpochs.epoch"),
        (of(InADictionary), "InADictionary.place['epoch']"),
        (of(ShufflesFiles), "ShufflesFiles.files"),
        (of(TurnsItsTensor), "TurnsItsTensor.order"),
        (BatchedPoints, "ByBatch.epoch"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_it_changes_stands_against_a_checkpoint_in_the_first_epoch(tmp_path, data, name):
    """Red before: one was written, and the batches before the stop were other ones."""
    _, _, said = fit(tmp_path, data, Small, in_epoch=every(2), max_epochs=1)
    assert [text.partition(" changes")[0] for text in said] == [
        f"no checkpoints are written in mid-epoch: {name}"
    ]
    assert not list(tmp_path.glob("*.ckpt"))


def test_what_it_sets_once_is_none(tmp_path):
    assert_resumed(tmp_path, [3], kills=[4], data=of(Shares))
