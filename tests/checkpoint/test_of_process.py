"""Loaders that hold what belongs to the process are the same ones; those in another order not."""

import datetime
import os
import tempfile
import time
import uuid
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from resumed import assert_resumed, fit
from small import Points, Small
from torch.utils.data import DataLoader, Dataset

from twinrun.checkpoint import of_process
from twinrun.checkpoint.of_process import content_without_process, without_process
from twinrun.errors import TwinrunError


class Files(Dataset):
    """Reads its samples from files in a folder for a while; knows when it was made, and by whom."""

    def __init__(self, folder, order):
        found = sorted(Path(folder).glob("*.npy"))
        self.files = [found[index] for index in order]
        self.names = [str(file) for file in self.files]
        self.first = self.files[:3]
        self.texts = np.array(self.names)
        self.table = pd.DataFrame({"file": self.names, "row": range(len(found))})
        self.by_name = dict(zip(self.names[:3], range(3), strict=True))
        self.root, self.text = Path(folder), str(folder)
        self.created, self.clock, self.ticks = time.time(), time.perf_counter(), time.time_ns()
        self.moment, self.stamp = datetime.datetime.now(), datetime.datetime.now().isoformat()
        self.process, self.key, self.name = os.getpid(), uuid.uuid4(), str(uuid.uuid4())
        self.shown = repr(object())

    def __len__(self):
        return len(self.files)

    def __getitem__(self, row):
        values = torch.from_numpy(np.load(self.files[row]))
        return values[:4], values[4:]


class InAFolder(Points):
    def setup(self, stage):
        self.folder = tempfile.TemporaryDirectory()
        for row, values in enumerate(torch.cat([self.inputs, self.targets], 1).numpy()):
            np.save(Path(self.folder.name) / f"{row:03}.npy", values)

    def order(self):
        return range(70)

    def train_dataloader(self):
        return DataLoader(Files(self.folder.name, self.order()), 16, shuffle=True)


class InAnotherOrder(InAFolder):
    def order(self):
        last = self.trainer.current_epoch  # of which a resumed training knows more
        return [(row + last) % 70 for row in range(70)]


def test_what_belongs_to_the_process_is_no_other_loader(tmp_path):
    """Red before: each resume was broken off, as "Files.files is another one"."""
    assert_resumed(tmp_path, [6], kills=[7], data=InAFolder, module=Small)


def test_the_same_files_in_another_order_are(tmp_path):
    told = {"data": InAnotherOrder, "module": Small, "minutes": 0}
    fit(tmp_path, kill=7, **told)
    with pytest.raises(TwinrunError, match=r"Files\.\w+.* is another one in the loaders"):
        fit(tmp_path, **told)


class Stages(Points):
    """Makes files of stages in the temporary folder, and reads that of the epoch."""

    def prepare_data(self):
        self.stages = [self.path(stage) for stage in range(3)]
        for stage, path in enumerate(self.stages):
            values = torch.cat([self.inputs, self.targets], 1)
            np.save(path, np.concatenate([values[:-1], values[-1:] + stage]))

    def path(self, stage):
        return f"{tempfile.gettempdir()}/curriculum_{stage}.npy"

    def train_dataloader(self):
        return DataLoader(Stage(self.stages[self.trainer.current_epoch]), 16, shuffle=True)


class DrawnStages(Stages):
    def path(self, stage):
        return f"{tempfile.mkdtemp()}/stage.npy"


class Stage(Dataset):
    def __init__(self, path):
        self.path = path

    def __len__(self):
        return 70

    def __getitem__(self, row):
        values = torch.from_numpy(np.load(self.path)[row])
        return values[:4], values[4:]


class FolderOfStages(Stages):
    """Keeps the path of a folder, in which there is one for training."""

    def path(self, stage):
        path = Path(tempfile.mkdtemp()) / "train" / "stage.npy"
        path.parent.mkdir()
        return path

    def train_dataloader(self):
        path = self.stages[self.trainer.current_epoch]
        return DataLoader(InFolder(path.parent.parent), 16, shuffle=True)


class InFolder(Stage):
    def __getitem__(self, row):
        values = torch.from_numpy(np.load(self.path / "train" / "stage.npy")[row])
        return values[:4], values[4:]


class Named(InAFolder):
    def train_dataloader(self):
        loader = super().train_dataloader()
        loader.dataset.run = f"run {time.perf_counter()}"
        return loader


def test_the_cure_of_what_a_process_has_anew_is_named(tmp_path):
    """Red before: "Files.run is another one", at each resume, and no word of what to do."""
    told = {"data": Named, "module": Small, "minutes": 0}
    fit(tmp_path, kill=7, **told)
    with pytest.raises(TwinrunError, match=r"Files\.run is another one .*outside of what loaders"):
        fit(tmp_path, **told)


@pytest.mark.parametrize("data", [Stages, DrawnStages, FolderOfStages])
def test_another_file_in_the_temporary_folder_is_another_one(tmp_path, monkeypatch, data):
    """Red before: resumed in silence, in other bits: any name of eight letters was a drawn one."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    told = {"data": data, "module": Small, "minutes": 0}
    fit(tmp_path / "run", kill=7, **told)
    with pytest.raises(TwinrunError, match=r"(Stage|InFolder).path is another one in the loaders"):
        fit(tmp_path / "run", **told)


@pytest.mark.parametrize(
    "value", [0.25, 1764331200.0, 7, "train", "/data/aabbccdd/1", datetime.date(2020, 1, 1), None]
)
def test_what_is_chosen_stays_as_it_is(value):
    assert content_without_process(value, is_inside=False) == repr(value)


def test_a_random_name_in_a_list_may_be_a_samples():
    name = str(uuid.uuid4())
    assert content_without_process(name, is_inside=True) == repr(name)


def test_another_file_in_a_folder_inside_is_another_one():
    """Red before: of a folder of folders nothing was looked at."""
    with tempfile.TemporaryDirectory() as folder:
        inside = Path(folder) / "train"
        inside.mkdir()
        seen = [without_process(folder)]
        for text in ("a", "a", "b"):
            (inside / "x.txt").write_text(text)
            seen.append(without_process(folder))
    assert [seen.index(each) for each in seen] == [0, 1, 1, 3]


def test_a_folder_that_was_there_before_is_looked_at(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with tempfile.TemporaryDirectory() as folder:
        assert without_process(f"{folder}/a") == "<temporary>/tmp<drawn>/a"
        of_process._is_made_here.cache_clear()
        monkeypatch.setitem(of_process._BEGAN, time.time, time.time() + 60)
        assert without_process(f"{folder}/a") == f"{folder}/a"
    of_process._is_made_here.cache_clear()
