"""Datasets and samplers that are made anew of the epoch's number: another object, no change."""

import pytest
from resumed import every, fit
from small import Points, Small
from torch.utils.data import DataLoader, Dataset, IterableDataset, Sampler, TensorDataset

RELOAD = {"reload_dataloaders_every_n_epochs": 1}


class Cut(Dataset):
    """Shows a part of each sample."""

    def __init__(self, data, most):
        self.data, self.most = data, most

    def __len__(self):
        return len(self.data.inputs)

    def __getitem__(self, index):
        inputs = self.data.inputs[index].clone()
        inputs[self.most :] = 0
        return inputs, self.data.targets[index]


class CutData(Points):
    def train_dataloader(self):
        return DataLoader(Cut(self, 1 + self.trainer.current_epoch), 16, shuffle=True)


class Shards(IterableDataset):
    def __init__(self, data, turn):
        self.data, self.turn = data, turn

    def __iter__(self):
        for index in range(48):
            place = (index * (1 + self.turn)) % 70
            yield self.data.inputs[place], self.data.targets[place]


class ShardedData(Points):
    def train_dataloader(self):
        return DataLoader(Shards(self, self.trainer.current_epoch), 16)


class Level(Sampler):
    def __init__(self, level):
        self.level = level

    def __len__(self):
        return 70

    def __iter__(self):
        return iter([(index * (1 + 2 * self.level)) % 70 for index in range(70)])


class Levelled(Small):
    """Raises a level where an epoch ends, by which the sampler is made."""

    def __init__(self):
        super().__init__()
        self.level = 0

    def on_train_epoch_end(self):
        self.level += 1


class LevelledData(Points):
    def train_dataloader(self):
        level = Level(self.trainer.lightning_module.level)
        return DataLoader(TensorDataset(self.inputs, self.targets), 16, sampler=level)


class MovesUnderWay(Small):
    """Moves what the dataset has of the epoch, in the midst of it."""

    def on_train_batch_end(self, *_):
        if self.trainer.fit_loop.epoch_loop.batch_idx == 1:
            self.trainer.train_dataloader.dataset.most += 1


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("data", "module"), [(CutData, Small), (ShardedData, Small), (LevelledData, Levelled)]
)
@pytest.mark.parametrize("where", [{"minutes": 0}, {}])
def test_what_is_made_of_the_epoch_is_no_change(tmp_path, data, module, where):
    """Red before: there was no checkpoint from the second epoch on."""
    told = {"data": data, "module": module, "max_epochs": 3, **RELOAD, **where}
    in_epoch = {} if where else {"in_epoch": every(1)}
    whole, _, _ = fit(tmp_path / "whole", **told)
    steps = 3 if data is ShardedData else 5
    fit(tmp_path / "killed", kill=2 * steps + 2, **in_epoch, **told)
    found, resumed_at, said = fit(tmp_path / "killed", **told)
    assert said == []
    assert resumed_at == [2 * steps if where else 2 * steps + 1]
    assert found == whole


def test_what_changes_in_it_under_way_is(tmp_path):
    told = {"data": CutData, "module": MovesUnderWay, "max_epochs": 2, **RELOAD}
    _, _, said = fit(tmp_path, in_epoch=lambda trainer, done: trainer.current_epoch > 0, **told)
    assert [text.partition(" changes")[0].rpartition(" ")[2] for text in said] == ["Cut.most"]
