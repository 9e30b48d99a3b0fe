"""What a dataset computes where it is first asked for, and buffers in memory that it reads."""

import functools
import io
import zipfile

import numpy as np
import pytest
import torch
from resumed import assert_resumed, every, fit
from small import Points, Small
from torch.utils.data import DataLoader, Dataset

CHANGES = "changes while the training runs, and no checkpoint holds it"


def rows():
    points = Points()
    return torch.cat([points.inputs, points.targets], 1).numpy()


class Rows(Dataset):
    """Has rows in an array."""

    def __init__(self):
        self.rows = rows()

    def __len__(self):
        return 70

    def read(self, index):
        return self.rows[index]

    def __getitem__(self, index):
        row = torch.from_numpy(self.read(index).copy())
        return row[:4], row[4:]


class Centred(Rows):
    """Computes a mean once."""

    @functools.cached_property
    def mean(self):
        return self.rows.mean(0)

    def read(self, index):
        return self.rows[index] - self.mean


class CentredByANumber(Centred):
    @functools.cached_property
    def mean(self):
        return float(self.rows.mean())


class CentredByAMapping(Centred):
    @functools.cached_property
    def mean(self):
        return {"all": self.rows.mean(0), "scale": 1.0}

    def read(self, index):
        return (self.rows[index] - self.mean["all"]) / self.mean["scale"]


class ByAHelper(Rows):
    """Has a helper, which computes a mean once."""

    def __init__(self):
        super().__init__()
        self.helper = Centred()

    def read(self, index):
        return self.helper.read(index)


class InArchive(Rows):
    """Has an archive in memory, which seeks before it reads."""

    def __init__(self):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            for index, row in enumerate(rows()):
                archive.writestr(zipfile.ZipInfo(str(index)), row.tobytes())
        self.archive = zipfile.ZipFile(io.BytesIO(file.getvalue()))

    def read(self, index):
        return np.frombuffer(self.archive.read(str(index)), np.float32)


class InABuffer(Rows):
    """Has all rows in one buffer, and seeks itself."""

    def __init__(self):
        self.buffer = io.BytesIO(rows().tobytes())

    def read(self, index):
        self.buffer.seek(20 * index)
        return np.frombuffer(self.buffer.read(20), np.float32)


class InBuffers(InABuffer):
    def __init__(self):
        super().__init__()
        self.buffers = {"rows": [self.buffer]}
        del self.buffer

    def read(self, index):
        self.buffers["rows"][0].seek(20 * index)
        return np.frombuffer(self.buffers["rows"][0].read(20), np.float32)


def data_of(dataset):
    class Loaded(Points):
        def __init__(self, size=70):
            super().__init__(size)
            self.rows = dataset()

        def train_dataloader(self):
            return DataLoader(self.rows, 16, shuffle=True)

    return Loaded


CACHES = (Centred, CentredByANumber, CentredByAMapping, ByAHelper)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("dataset", [*CACHES, InArchive, InABuffer, InBuffers])
def test_what_follows_from_what_a_dataset_holds_is_no_reason(tmp_path, dataset):
    """Red before: no epoch of such a training was resumed."""
    assert_resumed(tmp_path, [3, 8], kills=[4, 9], data=data_of(dataset))


class Raises(Small):
    """Changes what the dataset has computed, where an epoch ends."""

    def on_train_epoch_end(self):
        rows = self.trainer.train_dataloader.dataset
        rows.mean += 0.1


@pytest.mark.parametrize("dataset", CACHES[:2])
def test_what_was_computed_once_and_is_another_one_is_refused(tmp_path, dataset):
    _, _, said = fit(tmp_path, data_of(dataset), Raises, in_epoch=every(1), max_epochs=3)
    assert f"{dataset.__name__}.mean {CHANGES}" in said[0]


class InTurn(Rows):
    """Reads on where it was, whichever row it is asked for; it begins by seeking, once."""

    def __init__(self):
        self.buffer = io.BytesIO(rows().tobytes())
        self.buffer.seek(0)

    def read(self, index):
        found = self.buffer.read(20)
        return np.frombuffer(found, np.float32) if found else np.zeros(5, np.float32)


class Exchanges(Small):
    """Writes into the buffer of its rows."""

    def on_train_epoch_end(self):
        self.trainer.train_dataloader.dataset.buffer.getbuffer()[0] ^= 1


@pytest.mark.parametrize(
    ("dataset", "module"), [(InTurn, Small), (InABuffer, Exchanges)], ids=["place", "content"]
)
def test_the_place_in_a_buffer_that_is_read_in_turn_counts_and_its_content(
    tmp_path, dataset, module
):
    _, _, said = fit(tmp_path, data_of(dataset), module, minutes=0)
    assert any(f"{dataset.__name__}.buffer {CHANGES}" in sentence for sentence in said), said


class OwnIterator:
    """A loader over tensors that is its own iterator, as one in wide use is."""

    def __init__(self, data):
        self.data, self.place = data, 0

    def __len__(self):
        return 5

    def __iter__(self):
        self.order, self.place = torch.randperm(70), 0
        return self

    def __next__(self):
        if self.place >= 70:
            raise StopIteration
        rows = self.order[self.place : self.place + 16]
        self.place += 16
        return self.data.inputs[rows], self.data.targets[rows]


class Yields:
    """Is the same, as the refusal advises."""

    def __init__(self, data):
        self.data = data

    def __len__(self):
        return 5

    def __iter__(self):
        order = torch.randperm(70)
        for place in range(0, 70, 16):
            rows = order[place : place + 16]
            yield self.data.inputs[rows], self.data.targets[rows]


def loaded_by(loader):
    class Loaded(Points):
        def train_dataloader(self):
            return loader(self)

    return Loaded


def test_a_loader_that_is_its_own_iterator_is_told_a_cure(tmp_path):
    """Red before: refused without one."""
    _, _, (said, *_) = fit(tmp_path / "own", loaded_by(OwnIterator), minutes=0, max_epochs=3)
    assert "an `__iter__` with `yield` in it, and no `__next__`" in said
    assert_resumed(tmp_path, [3, 8], kills=[4, 9], data=loaded_by(Yields))
