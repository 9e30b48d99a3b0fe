"""A data module or a sampler that says where it is, and counts as batches are made of it."""

import pytest
import torch
from resumed import assert_resumed, every, fit
from small import Points, Restless, Small
from torch.utils.data import DataLoader, Dataset, TensorDataset, default_collate

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


@pytest.mark.one_in(8)
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


class Placed(torch.utils.data.Sampler):
    """Says its place, and a level that the module raises where an epoch ends."""

    def __init__(self, size):
        self.size, self.place, self.level = size, 0, 0

    def __len__(self):
        return self.size

    def __iter__(self):
        self.place %= self.size
        order = [*range(48), *((48 + i * (1 + self.level)) % self.size for i in range(22))]
        for index in order[self.place :]:
            self.place += 1
            yield index

    def state_dict(self):
        return {"place": self.place, "level": self.level}

    def load_state_dict(self, state):
        self.place, self.level = state["place"], state["level"]


class ForgetsItsLevel(Placed):
    def load_state_dict(self, state):
        self.place = state["place"]


class Waits(Placed):
    """Goes there where its next iterator begins."""

    loaded = None

    def load_state_dict(self, state):
        self.loaded = state

    def __iter__(self):
        if self.loaded is not None:
            super().load_state_dict(self.loaded)
            self.loaded = None
        yield from super().__iter__()


class BeginsAnew(Placed):
    """Begins anew where its state is that of an end."""

    def load_state_dict(self, state):
        self.place, self.level = state["place"] % self.size, state["level"]


class Unasked(Placed):
    """Has a state that needs to be told where it is, as streams of packages have."""

    def state_dict(self, place):
        return {"place": place}

    def load_state_dict(self, state):
        self.place = state["place"]


class NotYet(Placed):
    """Has no state before its first sample."""

    def state_dict(self):
        if not self.place:
            raise RuntimeError("not begun")
        return super().state_dict()


class Raises(Restless):
    def on_train_epoch_end(self):
        self.trainer.train_dataloader.sampler.level += 1


class RaisesOfValidation(Restless):
    def on_validation_epoch_end(self):
        self.trainer.val_dataloaders.sampler.level += 1


def placed(kind, name="train_dataloader"):
    def loader(self):
        return DataLoader(TensorDataset(self.inputs, self.targets), 16, sampler=kind(70))

    return type(kind.__name__, (Points,), {name: loader})


@pytest.mark.parametrize("kind", [Unasked, NotYet])
def test_data_that_cannot_be_asked_are_trained(tmp_path, kind):
    """Red before: the training failed before its first step."""
    whole, _, _ = fit(tmp_path / "whole", data=placed(kind), minutes=0)
    fit(tmp_path / "killed", kill=8, data=placed(kind), minutes=0)
    found, _, _ = fit(tmp_path / "killed", data=placed(kind), minutes=0)
    assert found == whole


@pytest.mark.parametrize("kind", [Placed, Waits, BeginsAnew])
def test_data_that_load_all_that_they_say_are_resumed(tmp_path, kind):
    told = {"data": placed(kind), "module": Raises, "minutes": 0}
    whole, _, _ = fit(tmp_path / "whole", **told)
    fit(tmp_path / "killed", kill=8, **told)
    found, at, said = fit(tmp_path / "killed", **told)
    assert (at, said, found == whole) == ([5], [], True)


@pytest.mark.parametrize("where", ["where an epoch starts", "in validation data"])
def test_data_that_load_less_than_they_say_end_the_attempt(tmp_path, where):
    """Red before: the training went on with another order than there was."""
    told = {"data": placed(ForgetsItsLevel), "module": Raises, "minutes": 0}
    if where == "in validation data":
        told = {"data": placed(ForgetsItsLevel, "val_dataloader"), "in_epoch": every(1)}
        told["module"] = RaisesOfValidation
    fit(tmp_path, kill=8, **told)
    with pytest.raises(TwinrunError, match=r"ForgetsItsLevel.*load_state_dict"):
        fit(tmp_path, **told)


class Strength:
    def __init__(self):
        self.level = 0


class Reads(Dataset):
    """Says how many samples it has read, and nothing of what the module makes stronger."""

    def __init__(self, data):
        self.data, self.seen = data, 0
        self.object, self.table, self.list = Strength(), {"level": 0}, [0] * 70
        self.tensor, self.inner, self.cache = torch.zeros(70), Strength(), {}

    def __len__(self):
        return 70

    def level(self, index):
        found = self.object.level + self.table["level"] + self.tensor[index] + self.list[index]
        return found + self.inner.level

    def __getitem__(self, index):
        self.seen += 1
        self.last = torch.full((70,), float(self.seen))  # which follows from what it says
        self.cache[index] = self.data.inputs[index]
        return self.cache[index] * (1 + 0.1 * self.level(index)), self.data.targets[index]

    def harden(self):
        self.inner = Strength()
        self.inner.level = self.seen

    def state_dict(self):
        return {"seen": self.seen}

    def load_state_dict(self, state):
        self.seen = state["seen"]


class SaysAll(Reads):
    """Says it by way of a method, and has the rest from there."""

    def state_dict(self):
        return {**super().state_dict(), **self.levels()}

    def levels(self):
        return {"levels": [self.object.level, self.table["level"], self.inner.level]} | {
            "tensor": self.tensor.clone(),
            "list": list(self.list),
        }

    def load_state_dict(self, state):
        super().load_state_dict(state)
        self.object.level, self.table["level"], self.inner.level = state["levels"]
        self.tensor.copy_(state["tensor"])
        self.list[:] = state["list"]


HARDER = {
    "Strength.level": lambda data: vars(data.object).update(level=data.object.level + 1),
    "Reads.table['level']": lambda data: data.table.update(level=data.table["level"] + 1),
    "Reads.tensor": lambda data: data.tensor.add_(1),
    "Reads.list": lambda data: data.list.__setitem__(50, data.list[50] + 1),
    "Reads.inner": lambda data: data.harden(),
}


def hardening(harden):
    class Hardens(Restless):
        def on_train_epoch_end(self):
            harden(self.trainer.train_dataloader.dataset)

    return Hardens


def reading(kind):
    def train_dataloader(self):
        return DataLoader(kind(self), 16)

    return type(kind.__name__, (Points,), {"train_dataloader": train_dataloader})


@pytest.mark.parametrize("name", HARDER)
def test_what_data_do_not_say_is_looked_at_as_of_those_that_say_nothing(tmp_path, name):
    """Red before: one number that they said made all that they held count as said."""
    told = {"data": reading(Reads), "module": hardening(HARDER[name]), "minutes": 0}
    _, _, said = fit(tmp_path, **told)
    assert said == [
        f"no checkpoints are written: {name} changes while the training runs, and no checkpoint "
        f"holds it"
    ]


@pytest.mark.parametrize(
    ("kind", "hardens"), [(SaysAll, HARDER.values()), (Reads, [])], ids=["said", "as it is read"]
)
def test_what_data_say_or_make_anew_is_resumed(tmp_path, kind, hardens):
    def harden(data):
        for each in hardens:
            each(data)

    told = {"data": reading(kind), "module": hardening(harden), "minutes": 0}
    whole, _, _ = fit(tmp_path / "whole", **told)
    fit(tmp_path / "killed", kill=8, **told)
    found, at, said = fit(tmp_path / "killed", **told)
    assert (at, said, found == whole) == ([5], [], True)


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


class Leaves(CountsBatches):
    """Says what it counts, and nothing of a table that the module makes stronger."""

    def __init__(self, size=70):
        super().__init__(size)
        self.table, self.about = {"level": torch.zeros(1)}, {"name": "points"}

    def collate(self, rows):
        inputs, targets = super().collate(rows)
        return inputs * (1 + self.table["level"]), targets


class SaysItsTable(Leaves):
    def state_dict(self):
        return {**super().state_dict(), "level": self.table["level"].clone()}

    def load_state_dict(self, state):
        super().load_state_dict(state)
        self.table["level"].copy_(state["level"])


class RaisesOfData(Restless):
    def on_train_epoch_end(self):
        self.trainer.datamodule.table["level"] += 0.1


def test_what_a_data_module_does_not_say_is_looked_at(tmp_path):
    """Red before: what it said of itself was taken for all that it holds."""
    _, _, said = fit(tmp_path, Leaves, RaisesOfData, minutes=0)
    assert said == [
        "no checkpoints are written: Leaves.table['level'] changes while the training runs, and no "
        "checkpoint holds it"
    ]


def test_what_a_data_module_says_is_resumed(tmp_path):
    told = {"data": SaysItsTable, "module": RaisesOfData, "minutes": 0}
    whole, _, _ = fit(tmp_path / "whole", **told)
    fit(tmp_path / "killed", kill=8, **told)
    found, at, said = fit(tmp_path / "killed", **told)
    assert (at, said, found == whole) == ([5], [], True)
