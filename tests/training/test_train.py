"""A run through the Trainer equals the plain PyTorch loop, bit for bit, and leaves whole files."""

import random
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import get_args

import numpy as np
import pandas as pd
import pytest
import torch
from example_trainings import FILES, HERE, VARIANT, WORKLOAD, arguments
from small import Points, Small

from twinrun import artifacts, dataset_files, run_files, run_records
from twinrun.config.definitions import Workload
from twinrun.errors import TwinrunError
from twinrun.process.launching import environment_of, launch
from twinrun.training.build_workload import OfRun, build_data
from twinrun.training.load_workload import load_workload


def run(folder, *, workload=WORKLOAD, variant=VARIANT, seed=1):
    """Train in a fresh process and give the folder."""
    launch(
        "twinrun.training.train:train",
        arguments(folder, workload, variant, seed=seed),
        environment_of(
            seed=seed, deterministic=variant["deterministic"], threads=variant["threads"]
        ),
    )
    return folder


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return run(tmp_path_factory.mktemp("run"))


def plain_loop():
    """The same training without Lightning."""
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    data = Points(size=70, seed=1)
    module = Small(learning_rate=0.1)
    optimizer = module.configure_optimizers()
    losses = []
    train, val = data.train_dataloader(), data.val_dataloader()
    for _ in range(3):
        for inputs, targets in train:
            optimizer.zero_grad()
            loss = (module(inputs) - targets).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        list(val)  # iterating any loader draws from the global generator
    return module, losses


def test_the_trainer_does_what_the_plain_loop_does(finished):
    module, losses = plain_loop()
    weights = artifacts.read_tensors(finished / "weights.safetensors")
    for name, parameter in module.named_parameters():
        assert weights[name].tobytes() == parameter.detach().numpy().tobytes(), name
    assert artifacts.read_csv(finished / "steps.csv")["loss"].tolist() == losses


def test_a_fresh_process_repeats_it(finished, tmp_path):
    again = run(tmp_path)
    for name in ("weights", "steps", "epochs", "fingerprints", "predictions"):
        assert (again / FILES[name]).read_bytes() == (finished / FILES[name]).read_bytes()


def test_the_manifest_names_what_made_the_run(finished):
    manifest = artifacts.read_json(finished / "run.json")
    workload = asdict(Workload(**WORKLOAD))  # what it does not say has its default
    assert manifest["settings"] == {"workload": workload, "variant": VARIANT}
    assert manifest["weights_sha256"] == artifacts.sha256(finished / "weights.safetensors")
    assert run_files.read_run(finished / "run.json") == manifest
    for name in get_args(run_records.FileOfRun):
        assert run_files.verified(finished / "run.json", name) == finished / name
    assert (manifest["steps"], manifest["epochs"], manifest["ended"]) == (15, 3, "finished")
    assert manifest["metrics"].keys() == {"test_loss"}
    began = datetime.fromisoformat(manifest["environment"]["context"]["started"]).timestamp()
    written = (finished / "run.json").stat().st_mtime
    assert began + manifest["seconds"]["total"] <= written
    assert manifest["environment"]["identity"]["torch"] == torch.__version__.split("+")[0] or (
        manifest["environment"]["identity"]["torch"] == torch.__version__
    )
    assert [(t["name"], t["kind"], t["dtype"]) for t in manifest["tensors"]] == [
        ("hidden.weight", "parameter", "float32"),
        ("hidden.bias", "parameter", "float32"),
        ("output.weight", "parameter", "float32"),
        ("output.bias", "parameter", "float32"),
        ("calls", "buffer", "int64"),
    ]


def test_tables_hold_epochs_and_predictions(finished):
    epochs = pd.read_csv(finished / "epochs.csv")
    assert epochs.epoch.tolist() == [1, 2, 3]
    assert {"train_loss", "val_loss"} <= set(epochs.columns)
    assert artifacts.read_tensors(finished / "predictions.safetensors")["prediction"].shape == (
        70,
        1,
    )


def test_the_last_iterations_buffers_are_kept(finished):
    assert artifacts.read_tensors(finished / "weights.safetensors")["calls"] == 15


@pytest.mark.exhaustive
def test_an_operation_without_reproducible_implementation_is_named(tmp_path):
    with pytest.raises(TwinrunError, match="no reproducible algorithm for put_: "):
        run(tmp_path, workload={**WORKLOAD, "module": "small:Undeterministic"})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.exhaustive
def test_a_module_that_cannot_predict_is_trained_all_the_same(tmp_path):
    workload = {**WORKLOAD, "module": "small:Mute", "hyperparameters": {}, "epochs": 1}
    folder = run(tmp_path, workload=workload)
    assert artifacts.read_tensors(folder / "predictions.safetensors") == {}


@pytest.mark.exhaustive
def test_a_missing_gpu_is_said(tmp_path):
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(TwinrunError, match="gpu was asked for, but torch sees none"):
        run(tmp_path, variant={**VARIANT, "accelerator": "gpu"})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"module": "absent:Small"}, "importing absent failed with ModuleNotFoundError"),
        ({"module": "small:Smal"}, "small has no Smal, did you mean Small?"),
        ({"module": "small:Points"}, "small:Points is no pytorch_lightning.LightningModule"),
        ({"data": "small:Small"}, "small:Small is no pytorch_lightning.LightningDataModule"),
        (
            {"hyperparameters": {"widht": 3}},
            "hyperparameters.widht: neither .* did you mean width?",
        ),
    ],
)
def test_a_workload_that_cannot_be_built_is_one_sentence(change, message):
    with pytest.raises(TwinrunError, match=message):
        load_workload(Workload(**{**WORKLOAD, **change}), [HERE])


def test_hyperparameters_go_to_the_constructor_that_names_them():
    _, _, module, data = load_workload(Workload(**WORKLOAD), [HERE])
    assert (module, data) == ({"learning_rate": 0.1}, {"size": 70})


def test_the_run_gives_seed_path_and_data_workers():
    data = build_data(Workload(**WORKLOAD), OfRun(seed=4, data_workers=2), search_path=[HERE])
    assert data.data_workers == 2
    assert torch.equal(data.inputs, Points(size=70, seed=4).inputs)
    with pytest.raises(TwinrunError, match="takes no argument `path`"):
        build_data(Workload(**WORKLOAD), OfRun(seed=4, path="a.npz"), search_path=[HERE])


class Reads(Points):
    """Takes a dataset's file."""

    def __init__(self, path, size=70):
        super().__init__(size)
        self.path = path


def test_a_run_is_given_no_dataset_that_is_not_as_it_was_made(tmp_path):
    file = tmp_path / "results/data/points.npz"
    file.parent.mkdir(parents=True)
    artifacts.write_arrays(file, {"points": np.arange(100.0)})
    manifest = {"dataset": "points", "make": "mine:make", "parameters": {}, "libraries": {}}
    manifest |= {"arrays": {}, "sha256": artifacts.sha256(file)}
    dataset_files.write_manifest(dataset_files.manifest_of(file), manifest)

    def build():
        workload = Workload(**{**WORKLOAD, "data": "test_train:Reads", "dataset": "points"})
        folder = Path(__file__).parent
        return build_data(workload, OfRun(seed=1, path=str(file)), search_path=[str(folder)])

    assert build().path == str(file)
    # Whole in itself, so that no reader of it would notice.
    artifacts.write_arrays(file, {"points": np.arange(100.0) + 1})
    with pytest.raises(TwinrunError, match=r"points\.npz is corrupt"):
        build()


@pytest.mark.exhaustive
def test_a_fast_run_that_cannot_be_leaves_a_row_that_says_why(tmp_path):
    workload = WORKLOAD | {"module": "small:Signs"}
    folder = run(tmp_path, workload=workload, variant=VARIANT | {"optimizer": "fused"})
    manifest = artifacts.read_json(folder / "run.json")
    assert manifest["ended"] == "refused: optimizer: Rprop has no fused form"
    assert manifest["steps"] == 0
    assert manifest["metrics"] == {}
    assert manifest["proof"] is None


@pytest.mark.exhaustive
def test_a_fast_run_keeps_its_proof(tmp_path):
    workload = WORKLOAD | {"module": "small:Reading"}
    folder = run(tmp_path, workload=workload, variant=VARIANT | {"compile": "step"})
    manifest = artifacts.read_json(folder / "run.json")
    assert manifest["ended"] == "finished"
    assert "does not compile into one graph" in manifest["proof"]["in_parts"]
    assert [leg["precision"] for leg in manifest["proof"]["legs"]] == ["64-true", "32-true"]


@pytest.mark.exhaustive
def test_a_proof_leaves_the_bits_of_a_run_as_they_are(tmp_path, monkeypatch):
    """One run proves its steps, the next one has nothing to prove."""
    (tmp_path / ".snakemake").mkdir()
    monkeypatch.chdir(tmp_path)
    variant = VARIANT | {"compile": "step"}
    proven, remembered = (
        artifacts.read_json(run(tmp_path / name, variant=variant) / "run.json")
        for name in ("proven", "remembered")
    )
    assert not proven["proof"]["is_remembered"]
    assert remembered["proof"] == {**proven["proof"], "is_remembered": True}
    assert proven["weights_sha256"] == remembered["weights_sha256"]


MOVES = """
import os
from pathlib import Path
import numpy as np
import small

os.chdir({elsewhere!r})

class Net(small.Small):
    def __init__(self):
        super().__init__()
        self.there = Path.cwd()
    def on_train_start(self):
        assert Path.cwd() == self.there  # the module's own files are where it looks for them
        os.chdir("/")

class Read(small.Points):
    def __init__(self, path):
        super().__init__(size=len(np.load(path)["points"]))
"""


@pytest.mark.exhaustive
def test_a_module_that_changes_the_working_directory_leaves_its_run_where_it_belongs(
    tmp_path, monkeypatch
):
    (elsewhere := tmp_path / "elsewhere").mkdir()
    (tmp_path / "moves.py").write_text(MOVES.format(elsewhere=str(elsewhere)))
    np.savez(tmp_path / "points.npz", points=np.ones(70))
    monkeypatch.chdir(tmp_path)
    workload = {**WORKLOAD, "module": "moves:Net", "data": "moves:Read", "hyperparameters": {}}
    asked = arguments(Path("run"), {**workload, "dataset": "points"}, VARIANT)
    asked["run"]["training"] |= {"dataset": "points.npz", "search_path": [str(tmp_path), HERE]}
    launch(
        "twinrun.training.train:train",
        asked,
        environment_of(seed=1, deterministic=True, threads=VARIANT["threads"]),
    )
    manifest = run_files.read_ended("run/run.json")
    assert manifest["ended"] == "finished"
    assert manifest["data"]["path"] == "points.npz"
    assert manifest["code"]["moves"]["file"] == "moves.py"
    assert not [*elsewhere.iterdir()]
