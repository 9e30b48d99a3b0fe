"""A data module or a sampler that says where it is, and counts as batches are made of it."""

import pytest
import torch
from resumed import assert_resumed, every, fit
from small import Points, Small
from torch.utils.data import DataLoader, TensorDataset, default_collate

from twinrun.errors import TwinrunError


class CountsBatches(Points):
    """Counts in its `collate_fn`, and scales by the count."""

    def __init__(self, size=70):
        super().__init__(size)
        self.seen, self.all = 0, []

    def collate(self, rows):
        self.seen += 1
        self.all.append(self.seen)
        inputs, targets = default_collate(rows)
        return inputs + 0.01 * len(self.all), targets

    def train_dataloader(self):
        return self._loader(shuffle=True, collate_fn=self.collate)

    def state_dict(self):
        return {"seen": self.seen, "all": self.all}

    def load_state_dict(self, state):
        self.seen, self.all = state["seen"], state["all"]


class CountsInWorkers(CountsBatches):
    def __init__(self, size=70):
        super().__init__(size)
        self.data_workers = 1


class CountsAlways(CountsBatches):
    """Also where a validation fetches batches."""

    def val_dataloader(self):
        return self._loader(collate_fn=self.collate)


class Turns(torch.utils.data.Sampler):
    """Begins each epoch by a turn of its order, which it keeps in a list and says."""

    def __init__(self, size):
        self.order = list(range(size))

    def __len__(self):
        return len(self.order)

    def __iter__(self):
        for _ in range(len(self.order)):
            self.order.append(self.order.pop(0))
            yield self.order[-1]
        self.order.append(self.order.pop(0))

    def state_dict(self):
        return {"order": self.order}

    def load_state_dict(self, state):
        self.order = state["order"]


class TurnedPoints(Points):
    def train_dataloader(self):
        data = TensorDataset(self.inputs, self.targets)
        return DataLoader(data, 16, sampler=Turns(70))


@pytest.mark.parametrize("data", [CountsBatches, CountsInWorkers, TurnedPoints])
@pytest.mark.parametrize(("kills", "at"), [([2], [1]), ([4, 9], [3, 8])])
def test_what_data_say_is_told_them_before_their_batches_are_read_again(tmp_path, data, kills, at):
    """Red before: a data module was where the checkpoint was, and its batches were other ones."""
    assert_resumed(tmp_path, at, kills=kills, data=data)


def test_data_that_change_also_between_two_fetches_have_no_checkpoint_in_mid_epoch(tmp_path):
    """Red before: one was written, and the batches behind it were other ones."""
    told = {"in_epoch": every(3), "max_epochs": 2, "val_check_interval": 2}
    _, _, said = fit(tmp_path, CountsAlways, Small, **told)
    assert len(said) == 1
    assert (
        "CountsAlways.state_dict() changes where batches are fetched, and also between" in said[0]
    )
    assert not list(tmp_path.glob("*.ckpt"))


class Resumes:
    """A loader whose `__iter__` uses up where it was told to begin."""

    def __init__(self, data):
        self.data, self.epoch, self.place, self.start = data, 0, 0, 0

    def __len__(self):
        return 5

    def state_dict(self):
        return {"epoch": self.epoch, "place": self.place}

    def load_state_dict(self, state):
        self.epoch, self.start = state["epoch"], state["place"] % 70

    def __iter__(self):
        drawn = torch.Generator().manual_seed(self.epoch)
        order = torch.randperm(70, generator=drawn).tolist()
        self.place, self.start = self.start, 0
        while self.place < 70:
            chosen = order[self.place : self.place + 16]
            self.place += 16
            self.epoch += self.place >= 70
            yield self.data.inputs[chosen], self.data.targets[chosen]


class ResumesData(Points):
    def train_dataloader(self):
        return Resumes(self)


class KeepsStart(Resumes):
    """Keeps it for the next epoch, too."""

    def __iter__(self):
        start = self.start
        for batch in super().__iter__():
            self.start = start
            yield batch


class KeepsStartData(Points):
    def train_dataloader(self):
        return KeepsStart(self)


def test_a_loader_may_use_up_where_it_was_told_to_begin_with_its_first_batch(tmp_path):
    """Red before: broken off, as its generator had not begun yet when it was looked at."""
    assert_resumed(tmp_path, [2, 6], kills=[3, 7], data=ResumesData, max_epochs=3)


def test_a_loader_that_does_not_use_it_up_is_found_out(tmp_path):
    fit(tmp_path, KeepsStartData, kill=8, in_epoch=every(1), max_epochs=3)
    with pytest.raises(TwinrunError, match="start is not as it was"):
        fit(tmp_path, KeepsStartData, max_epochs=3)
