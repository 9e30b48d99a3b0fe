"""Which files a training names that a library may read by itself."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
import pytorch_lightning as pl
from torch.utils.data import DataLoader, Dataset

from twinrun.training.named_data import named_files

TABLE = Path("data/table.parquet")
IN_A_HELPER = "data/helper.h5"


def read_table(name=IN_A_HELPER):
    return name


class Attribute(pl.LightningDataModule):
    def __init__(self, path="data/a.h5"):
        super().__init__()
        self.path = path


class Hyperparameter(pl.LightningDataModule):
    def __init__(self, options):
        super().__init__()
        self.save_hyperparameters()


class Constant(pl.LightningDataModule):
    def setup(self, stage):
        self.rows = [(lambda: "data/constant.h5")()]


class Global(pl.LightningDataModule):
    def setup(self, stage):
        self.rows = str(TABLE)


class Helper(pl.LightningDataModule):
    def setup(self, stage):
        self.rows = read_table()


class OfClass(pl.LightningDataModule):
    path = "data/of_class.h5"


class Settings:
    def __init__(self):
        self.path = Path("data/settings.arrow")


class InAnObject(pl.LightningDataModule):
    def __init__(self):
        super().__init__()
        self.settings = {"train": [Settings()]}


class Joined(pl.LightningDataModule):
    def __init__(self, folder="data"):
        super().__init__()
        self.folder = folder

    def setup(self, stage):
        self.files = f"{self.folder}/a.h5", Path(self.folder) / "b.npz"


class Hides(Constant):
    def setup(self, stage):
        self.rows = []


class AddsTo(Constant):
    def setup(self, stage):
        super().setup(stage)


class Images(Dataset):
    def __init__(self):
        self.root, self.names = Path("data/images").absolute(), ["1.png", "2.png", "no.png"]

    def __len__(self):
        return 2


class Folder(pl.LightningDataModule):
    def __init__(self):
        super().__init__()
        self.store = "data/rows.zarr"


FILES = [
    *("a.h5", "b.npz", "constant.h5", "table.parquet", "helper.h5", "of_class.h5"),
    *(
        "settings.arrow",
        "images/1.png",
        "images/2.png",
        "images/3.png",
        "rows.zarr/0/0",
        "other.h5",
    ),
]


@pytest.fixture(autouse=True)
def _files(tmp_path, monkeypatch):
    for name in FILES:
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    monkeypatch.chdir(tmp_path)


def named_files_of(data=None, module=None, dataset=None):
    trainer = SimpleNamespace(
        lightning_module=module or pl.LightningModule(),
        datamodule=data,
        train_dataloader=[] if dataset is None else DataLoader(dataset),
        val_dataloaders=None,
    )
    return named_files(trainer)


def named_by(data=None, **others):
    folder = Path("data").absolute()
    return [os.path.relpath(file, folder) for file in named_files_of(data, **others)]


@pytest.mark.parametrize(
    ("data", "names"),
    [
        (Attribute(), ["a.h5"]),
        (Attribute("no.h5"), []),
        (Attribute("data"), []),
        (Hyperparameter({"paths": ["data/a.h5", "data/b.npz"]}), ["a.h5", "b.npz"]),
        (Constant(), ["constant.h5"]),
        (Hides(), []),
        (AddsTo(), ["constant.h5"]),
        (Global(), ["table.parquet"]),
        (Helper(), ["helper.h5"]),
        (OfClass(), ["of_class.h5"]),
        (InAnObject(), ["settings.arrow"]),
        (Folder(), ["rows.zarr/0/0"]),
        (Joined(), ["a.h5", "b.npz"]),
        (pl.LightningDataModule(), []),
    ],
)
def test_files_in_texts_and_paths_are_named(data, names):
    assert named_by(data) == names


def test_those_of_a_dataset_are_named_in_its_folder():
    assert named_by(dataset=Images()) == ["images/1.png", "images/2.png"]


def test_those_of_the_module_are_named():
    module = pl.LightningModule()
    module.embeddings = "data/a.h5"
    assert named_by(module=module) == ["a.h5"]


def test_a_project_is_no_data(tmp_path, monkeypatch):
    """Red before: in a folder with an ending all that lay there was."""
    project = tmp_path / "project.v2"
    (project / "notes").mkdir(parents=True)
    (project / "README.md").touch()
    monkeypatch.chdir(project)
    assert named_files_of(Attribute(str(project))) == []
    monkeypatch.chdir(project / "notes")
    assert named_files_of(Attribute(str(project))) == []


def test_of_very_many_the_first_are_named(monkeypatch):
    monkeypatch.setattr("twinrun.training.named_data.MOST", 2)
    assert len(named_by(Hyperparameter(["data/a.h5", "data/b.npz", "data/other.h5"]))) == 2
