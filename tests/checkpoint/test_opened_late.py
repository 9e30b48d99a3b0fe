"""Files that a dataset maps into memory where it first reads them."""

from pathlib import Path

import numpy as np
import pytest
import torch
from resumed import assert_resumed, fit
from small import Points, Small
from torch.utils.data import DataLoader, Dataset


class Mapped(Dataset):
    """Maps its file where it first reads it, in each process for itself."""

    mode = "r"

    def __init__(self, file, data):
        self.file, self.targets, self.mapped = str(file), data.targets, None

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, index):
        if self.mapped is None:
            self.mapped = np.load(self.file, mmap_mode=self.mode)
        return torch.from_numpy(self.mapped[index].copy()), self.targets[index]


class CopiedOnWrite(Mapped):
    mode = "c"


class Opened(Mapped):
    """Opens its file where it has none, and sees by `hasattr` whether it has."""

    def __init__(self, file, data):
        self.file, self.targets = str(file), data.targets

    def __getitem__(self, index):
        if not hasattr(self, "opened"):
            self.opened = Path(self.file).open("rb")  # noqa: SIM115
        self.opened.seek(128 + 16 * index)
        row = np.frombuffer(self.opened.read(16), np.float32)
        return torch.from_numpy(row.copy()), self.targets[index]


class Shaped(Opened):
    """Reads a number beside it, which a resumed training would have only later."""

    def __getitem__(self, index):
        self.rows = len(self.targets)
        return super().__getitem__(index)


class Archive(Mapped):
    """Reads from an archive, which refuses to say of which class a part of it is."""

    def __init__(self, file, data):
        super().__init__(file, data)
        np.savez(f"{file}.npz", rows=data.inputs.numpy())
        self.archive = np.load(f"{file}.npz")

    def __getitem__(self, index):
        return torch.from_numpy(self.archive["rows"][index]), self.targets[index]


class LateArchive(Archive):
    def __init__(self, file, data):
        super().__init__(file, data)
        self.archive = None

    def __getitem__(self, index):
        if self.archive is None:
            self.archive = np.load(f"{self.file}.npz")
        return super().__getitem__(index)


def of(kind, folder):
    class MappedData(Points):
        def train_dataloader(self):
            np.save(folder / "rows.npy", self.inputs.numpy())
            return DataLoader(kind(folder / "rows.npy", self), 16, shuffle=True)

    return MappedData


@pytest.mark.one_in(6)
@pytest.mark.parametrize("options", [{"kills": [8]}, {"kills": [7], "minutes": 0}])
@pytest.mark.parametrize("kind", [Mapped, Opened, Archive, LateArchive])
def test_a_file_that_is_opened_late_to_be_read_is_no_reason(tmp_path, options, kind):
    """Red before: no checkpoint was written."""
    at = [5] if "minutes" in options else [7]
    options = {**options, "data": of(kind, tmp_path), "module": Small, "max_epochs": 3}
    assert_resumed(tmp_path, at, every_batches=9 if "minutes" in options else 1, **options)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", [CopiedOnWrite, Shaped])
def test_one_that_can_be_written_to_is_none_nor_is_a_number_if_they_stay(tmp_path, kind):
    """Red before: no checkpoint was written."""
    assert_resumed(tmp_path, [7], kills=[8], data=of(kind, tmp_path), module=Small)


class WrittenTo(CopiedOnWrite):
    def __getitem__(self, index):
        inputs, targets = super().__getitem__(index)
        self.mapped[index] += 1
        return inputs, targets


def test_one_that_is_written_to_is_refused(tmp_path):
    _, _, said = fit(tmp_path, of(WrittenTo, tmp_path), Small, minutes=0)
    assert "WrittenTo.mapped changes while the training runs" in said[0]
