"""What `set_epoch` sets, by Lightning, where an epoch begins, or elsewhere."""

import pytest
import torch
from resumed import every, fit
from small import Points, Restless
from torch.utils.data import DataLoader, Dataset, IterableDataset, Sampler, TensorDataset

from twinrun.errors import TwinrunError


class ToldPoints(Dataset):
    """Makes the last samples harder from epoch to epoch."""

    def __init__(self, data):
        self.data, self.epoch = data, 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        return len(self.data.inputs)

    def __getitem__(self, index):
        harder = 1 + 0.1 * self.epoch * (index > 40)
        return self.data.inputs[index] * harder, self.data.targets[index]


class ToldData(Points):
    def train_dataloader(self):
        return DataLoader(ToldPoints(self), 16)


class Levels(Sampler):
    """Takes its epoch from Lightning, and its level from the module."""

    def __init__(self, size):
        self.size, self.epoch, self.level = size, 0, 0

    def set_epoch(self, epoch, level=None):
        self.epoch = epoch
        self.level = self.level if level is None else level

    def __len__(self):
        return self.size

    def __iter__(self):
        known = range(48)
        return iter([*known, *((48 + i * (1 + self.level)) % self.size for i in range(22))])


class LevelledData(Points):
    def train_dataloader(self):
        data = torch.utils.data.TensorDataset(self.inputs, self.targets)
        return DataLoader(data, 16, sampler=Levels(70))


class CountedPoints(ToldPoints):
    """Says how many samples were read, and nothing of its epoch."""

    def __init__(self, data):
        super().__init__(data)
        self.seen = 0

    def __getitem__(self, index):
        self.seen += 1
        return super().__getitem__(index)

    def state_dict(self):
        return {"seen": self.seen}

    def load_state_dict(self, state):
        self.seen = state["seen"]


class CountedData(Points):
    def train_dataloader(self):
        return DataLoader(CountedPoints(self), 16)


class PlacedLevels(Levels):
    """Says its epoch and its place, and nothing of its level."""

    def __init__(self, size):
        super().__init__(size)
        self.place = 0

    def set_epoch(self, epoch, level=None):
        super().set_epoch(epoch, level)
        self.place = 0

    def __iter__(self):
        for index in [*super().__iter__()][self.place :]:
            self.place += 1
            yield index
        self.place = 0

    def state_dict(self):
        return {"epoch": self.epoch, "place": self.place}

    def load_state_dict(self, state):
        self.epoch, self.place = state["epoch"], state["place"]


class PlacedData(Points):
    def train_dataloader(self):
        data = torch.utils.data.TensorDataset(self.inputs, self.targets)
        return DataLoader(data, 16, sampler=PlacedLevels(70))


class Telling(DataLoader):
    """A loader that says where it is, and nothing of its dataset."""

    def state_dict(self):
        return {"num_workers": self.num_workers}

    def load_state_dict(self, state):
        assert state == self.state_dict()


class TellingData(Points):
    def train_dataloader(self):
        return Telling(ToldPoints(self), 16)


class ToldWorkers(Points):
    """No attribute of it holds the dataset of which data workers have copies."""

    def train_dataloader(self):
        return DataLoader(ToldPoints(self), 16, num_workers=1)


class Wraps(Dataset):
    """Hands on what it is told."""

    def __init__(self, base):
        self.base = base

    def set_epoch(self, epoch):
        self.base.set_epoch(epoch)

    def __len__(self):
        return len(self.base)

    def __getitem__(self, index):
        return self.base[index]


class WrappedData(Points):
    def train_dataloader(self):
        return DataLoader(Wraps(ToldPoints(self)), 16)


class HeldWorkers(Points):
    """Holds the dataset of which data workers have copies."""

    def setup(self, stage):
        self.held = ToldPoints(self)

    def train_dataloader(self):
        return DataLoader(self.held, 16, num_workers=1)


class Stream(IterableDataset):
    """Takes its order from a seed and its epoch."""

    def __init__(self, data):
        self.data, self._epoch = data, 0

    def set_epoch(self, epoch):
        self._epoch += epoch - self._epoch

    def __iter__(self):
        for index in torch.randperm(70, generator=torch.Generator().manual_seed(self._epoch)):
            yield self.data.inputs[index], self.data.targets[index]


class ToldStream(Points):
    def train_dataloader(self):
        return DataLoader(Stream(self), 16)


class ValidatedPoints(Points):
    """Validates by what it is told, and trains by what it is not."""

    def val_dataloader(self):
        return DataLoader(ToldPoints(self), 16)


class ValidatedTwice(Points):
    """Validates by two loaders, one of them with data workers."""

    def val_dataloader(self):
        return [self._loader(), DataLoader(ToldPoints(self), 16, num_workers=1)]


class ValidatedLevels(Points):
    def val_dataloader(self):
        data = torch.utils.data.TensorDataset(self.inputs, self.targets)
        return DataLoader(data, 16, sampler=Levels(70))


class Scale:
    def __init__(self, by):
        self.by = by


class ScaledPoints(ToldPoints):
    """Makes an object of its epoch."""

    def set_epoch(self, epoch):
        self.epoch = Scale(epoch)

    def __getitem__(self, index):
        by = self.epoch.by if self.epoch else 0
        return self.data.inputs[index] * (1 + 0.1 * by * (index > 40)), self.data.targets[index]


class ScaledValidation(Points):
    def val_dataloader(self):
        return DataLoader(ScaledPoints(self), 16)


class ScaledData(Points):
    def train_dataloader(self):
        return DataLoader(ScaledPoints(self), 16)


class AtStart(Restless):
    def on_train_epoch_start(self):
        super().on_train_epoch_start()
        self.trainer.train_dataloader.dataset.set_epoch(self.current_epoch)


class AtEnd(Restless):
    def on_train_epoch_end(self):
        self.trainer.train_dataloader.dataset.set_epoch(self.current_epoch + 1)


class OnceAtStart(Restless):
    def on_train_epoch_start(self):
        super().on_train_epoch_start()
        if self.current_epoch == 1:
            self.trainer.train_dataloader.dataset.set_epoch(7)


class LevelAtEnd(Restless):
    def on_train_epoch_end(self):
        self.trainer.train_dataloader.sampler.set_epoch(self.current_epoch, self.current_epoch + 1)


class Validates(Restless):
    """Validates by several loaders, too."""

    def validation_step(self, batch, batch_idx, dataloader_idx=0):
        loss = (self(batch[0]) - batch[1]).square().mean()
        self.log(f"val_loss{dataloader_idx or ''}", loss, add_dataloader_idx=False)

    def tell(self, epoch, *more):
        loaders = self.trainer.val_dataloaders
        loader = loaders[1] if isinstance(loaders, list) else loaders
        told = loader.sampler if more else loader.dataset
        told.set_epoch(epoch, *more)


class ValidatesAtEnd(Validates):
    def on_train_epoch_end(self):
        self.tell(self.current_epoch + 1)


class ValidatesAtStart(Validates):
    def on_validation_epoch_start(self):
        self.tell(self.current_epoch)


class ValidatedAtEnd(Validates):
    def on_validation_epoch_end(self):
        self.tell(self.current_epoch + 1)


class ValidatedByCount(Validates):
    """Tells the data one more than what they were told."""

    def on_validation_epoch_start(self):
        self.tell(self.trainer.val_dataloaders.dataset.epoch + 1)


class LevelValidatedAtEnd(Validates):
    def on_train_epoch_end(self):
        self.tell(self.current_epoch, self.current_epoch + 1)


class CountsAtStart(Restless):
    """Tells the data one more than what they were told."""

    def on_train_epoch_start(self):
        super().on_train_epoch_start()
        data = self.trainer.train_dataloader.dataset
        data.set_epoch(data.epoch + 1)


@pytest.mark.one_in(12)
@pytest.mark.parametrize(
    ("data", "module"),
    [
        (ToldData, AtStart),
        (LevelledData, Restless),
        (CountedData, AtStart),
        (PlacedData, Restless),
        (ToldWorkers, AtStart),
        (HeldWorkers, AtStart),
        (WrappedData, AtStart),
        (ToldStream, AtStart),
    ],
)
@pytest.mark.parametrize("where", [{"minutes": 0}, {}])
def test_what_is_told_where_an_epoch_begins_is_told_again(tmp_path, data, module, where):
    in_epoch = {} if where else {"in_epoch": every(1)}
    options = {"data": data, "module": module, "max_epochs": 3}
    whole, _, _ = fit(tmp_path / "whole", **options)
    fit(tmp_path / "killed", kill=13, **in_epoch, **where, **options)
    found, resumed_at, said = fit(tmp_path / "killed", **where, **options)
    assert said == []
    assert resumed_at == [10 if where else 12]
    assert found == whole


IN_TURN = [{"minutes": 0}, {}, {"val_check_interval": 2}]
AT = [10, 11, 13]
EXHAUSTIVE = pytest.mark.exhaustive  # others of the same kind stay


@pytest.mark.one_in(8)
@pytest.mark.parametrize(
    ("data", "module", "turns"),
    [
        (ValidatedPoints, ValidatesAtEnd, (1,)),
        pytest.param(ValidatedPoints, ValidatesAtEnd, (0, 2), marks=EXHAUSTIVE),
        pytest.param(ValidatedPoints, ValidatedAtEnd, (0,), marks=EXHAUSTIVE),
        (ValidatedPoints, ValidatedAtEnd, (2,)),
        pytest.param(ValidatedPoints, ValidatedByCount, (0, 2), marks=EXHAUSTIVE),
        pytest.param(ValidatedTwice, ValidatesAtEnd, (0, 2), marks=EXHAUSTIVE),
        pytest.param(ValidatedLevels, LevelValidatedAtEnd, (0, 2), marks=EXHAUSTIVE),
        pytest.param(ToldData, CountsAtStart, (0, 1), marks=EXHAUSTIVE),
        (ToldData, AtEnd, (0, 1)),
        pytest.param(ToldData, OnceAtStart, (0, 1), marks=EXHAUSTIVE),
        pytest.param(LevelledData, LevelAtEnd, (0, 1), marks=EXHAUSTIVE),
        pytest.param(CountedData, AtEnd, (0, 1), marks=EXHAUSTIVE),
        pytest.param(PlacedData, LevelAtEnd, (0, 1), marks=EXHAUSTIVE),
        pytest.param(ToldWorkers, AtEnd, (0, 1), marks=EXHAUSTIVE),
        pytest.param(WrappedData, AtEnd, (0, 1), marks=EXHAUSTIVE),
        pytest.param(ToldStream, AtEnd, (0, 1), marks=EXHAUSTIVE),
        (TellingData, AtEnd, (0,)),
    ],
)
def test_what_is_told_elsewhere_is_put_back(tmp_path, data, module, turns):
    """Red before: of validation data in silence, in other values; of others broken off."""
    options = {"data": data, "module": module, "max_epochs": 4}
    for turn in turns:
        where, folder = IN_TURN[turn], tmp_path / str(turn)
        in_epoch = {"in_epoch": every(1)} if turn else {}
        whole, _, _ = fit(folder / "whole", **where, **options)
        fit(folder / "killed", kill=AT[turn] + 1, **in_epoch, **where, **options)
        found, resumed_at, said = fit(folder / "killed", **where, **options)
        assert said == []
        assert resumed_at == [AT[turn]]
        assert found == whole


@pytest.mark.parametrize(
    ("data", "module"), [(ScaledData, AtStart), (ScaledValidation, ValidatesAtStart)]
)
@pytest.mark.parametrize("turn", [0, pytest.param(1, marks=EXHAUSTIVE)])
def test_an_object_that_is_told_where_it_is_needed_is_told_again(tmp_path, data, module, turn):
    test_what_is_told_elsewhere_is_put_back(tmp_path, data, module, (turn,))


@pytest.mark.parametrize(
    ("data", "module"), [(ScaledData, AtEnd), (ScaledValidation, ValidatesAtEnd)]
)
@pytest.mark.parametrize("turn", [0, pytest.param(1, marks=EXHAUSTIVE)])
def test_an_object_that_is_told_elsewhere_is_missed(tmp_path, data, module, turn):
    """Red before: of validation data in silence, in other values."""
    options = {"data": data, "module": module, "max_epochs": 4}
    fit(
        tmp_path, kill=AT[turn] + 1, in_epoch=every(1) if turn else None, **IN_TURN[turn], **options
    )
    with pytest.raises(TwinrunError, match=r"epoch is another one .* the stop"):
        fit(tmp_path, **IN_TURN[turn], **options)


class SplitAnew(Points):
    """Draws for each validation which samples are looked at."""

    def val_dataloader(self):
        chosen = torch.randperm(70)[:32].tolist()
        return self._loader(sampler=chosen)


@pytest.mark.parametrize("count", [1, pytest.param(2, marks=EXHAUSTIVE)])
def test_validation_data_that_are_made_anew_are_made_anew_behind_a_stop(tmp_path, count):
    """Red before: they had been made where the training was resumed, and validated once more."""
    options = {"data": SplitAnew, "max_epochs": 4, "minutes": 0}
    options["reload_dataloaders_every_n_epochs"] = count
    whole, _, _ = fit(tmp_path / "whole", **options)
    fit(tmp_path / "killed", kill=11, **options)
    found, resumed_at, said = fit(tmp_path / "killed", **options)
    assert (said, resumed_at) == ([], [10])
    assert found == whole


class Kinds(TensorDataset):
    """Is told a text by its epoch; the first kind is what it begins with."""

    def __init__(self, *tensors):
        super().__init__(*tensors)
        self.kind = "even"

    def set_epoch(self, epoch):
        self.kind = ("even", "odd")[epoch % 2]

    def __getitem__(self, index):
        inputs, targets = super().__getitem__(index)
        return inputs * (1 + (self.kind == "odd")), targets


class Turned(Kinds):
    """Turns what it was, whatever the epoch is."""

    def set_epoch(self, epoch):
        self.kind = "odd" if self.kind == "even" else "even"


def of_kind(kind):
    def loader(self):
        return DataLoader(kind(self.inputs, self.targets), 16)

    return type(kind.__name__, (Points,), {"train_dataloader": loader})


def test_a_text_that_is_what_data_begin_with_is_told_again(tmp_path):
    """Red before: "another one than before the stop", of each second epoch."""
    options = {"data": of_kind(Kinds), "module": AtStart, "max_epochs": 4, "minutes": 0}
    whole, _, _ = fit(tmp_path / "whole", **options)
    fit(tmp_path / "killed", kill=12, **options)
    found, resumed_at, said = fit(tmp_path / "killed", **options)
    assert (said, resumed_at) == ([], [10])
    assert found == whole


def test_a_text_that_goes_on_from_what_it_was_is_missed(tmp_path):
    """Red before: resumed in silence, in other values."""
    options = {"data": of_kind(Turned), "module": AtStart, "max_epochs": 4, "minutes": 0}
    fit(tmp_path, kill=7, **options)
    with pytest.raises(TwinrunError, match="the stop"):
        fit(tmp_path, **options)
