"""`twinrun init` of classes whose loaders need data workers: what it writes can take a step."""

import textwrap

import pytest
import yaml

from twinrun.__main__ import main

CLASSES = """
    import torch
    import pytorch_lightning as pl
    from torch.utils.data import DataLoader, TensorDataset

    POINTS = TensorDataset(torch.arange(20.0).reshape(10, 2))

    class Net(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(2, 1)

        def training_step(self, batch, batch_idx):
            return self.layer(batch[0]).pow(2).mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.01)

    class Persistent(pl.LightningDataModule):
        def __init__(self, num_workers: int = 2):
            super().__init__()
            self.workers = num_workers

        def train_dataloader(self):
            return DataLoader(POINTS, 2, num_workers=self.workers, persistent_workers=True)

    class Prefetching(pl.LightningDataModule):
        def __init__(self, data_workers: int = 2, prefetch_factor: int = 2):
            super().__init__()
            self.options = {"num_workers": data_workers, "prefetch_factor": prefetch_factor}

        def train_dataloader(self):
            return DataLoader(POINTS, 2, **self.options)

    class Plain(pl.LightningDataModule):
        def __init__(self, num_workers: int = 2):
            super().__init__()
            self.workers = num_workers

        def train_dataloader(self):
            return DataLoader(POINTS, 2, num_workers=self.workers)

    class Evaluated(Net):
        def test_step(self, batch, batch_idx):
            self.log("loss", self.layer(batch[0]).mean())

        def predict_step(self, batch, batch_idx):
            return self.layer(batch[0])

    class Tested(Plain):
        def test_dataloader(self):
            return DataLoader(POINTS, 2, num_workers=self.workers, persistent_workers=True)

    class Predicted(Plain):
        def predict_dataloader(self):
            return DataLoader(POINTS, 2, num_workers=self.workers, prefetch_factor=2)

    class Alone(Net):
        def __init__(self, num_workers: int = 2):
            super().__init__()
            self.workers = num_workers

        def train_dataloader(self):
            return DataLoader(POINTS, 2, num_workers=self.workers, persistent_workers=True)
"""


@pytest.fixture
def written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    name = f"classes{abs(hash(tmp_path))}"
    (tmp_path / f"{name}.py").write_text(textwrap.dedent(CLASSES))

    def write(*classes):
        assert main(["init", *(f"{name}:{one}" for one in classes)]) == 0
        text = (tmp_path / "config/config.yaml").read_text()
        (workload,) = yaml.safe_load(text)["workloads"].values()
        return workload, text

    return write


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("classes", "given"),
    [
        (["Net", "Persistent"], {"num_workers": 2}),
        pytest.param(
            ["Net", "Prefetching"],
            {"data_workers": 2, "prefetch_factor": 2},
            marks=pytest.mark.exhaustive,
        ),
        pytest.param(["Alone"], {"num_workers": 2}, marks=pytest.mark.exhaustive),
    ],
    ids=str,
)
def test_loaders_that_need_workers_keep_their_own_number(written, classes, given):
    """Red before: `check` refused what `init` had just written of the classes' own defaults."""
    workload, text = written(*classes)
    assert workload["hyperparameters"] == given
    assert workload["from_run"] == {"data_workers": None}
    assert "# With 0 data workers, which a run gives, it fails: it keeps its own number.\n" in text
    if classes == ["Net", "Persistent"]:
        assert main(["check"]) == 0


@pytest.mark.exhaustive
def test_loaders_that_do_without_are_given_the_variants(written):
    workload, _ = written("Net", "Plain")
    assert workload["hyperparameters"] is None
    assert workload["from_run"] == {"data_workers": "num_workers"}


@pytest.mark.parametrize(
    "data",
    [pytest.param(each, marks=pytest.mark.exhaustive) for each in ("Tested", "Predicted")],
)
def test_so_do_loaders_of_the_test_and_the_prediction(written, tmp_path, capfd, data):
    """Red before: 0 workers were kept, with which the test or the prediction is never made."""
    workload, text = written("Evaluated", data)
    assert workload["from_run"] == {"data_workers": None}
    file = tmp_path / "config/config.yaml"
    text = text.replace("\n      num_workers: 2", " {}")
    file.write_text(text.replace("data_workers: null", "data_workers: num_workers"))
    capfd.readouterr()
    assert main(["check"]) == 0
    assert "(`from_run: {data_workers: null}`)\n" in capfd.readouterr().out
