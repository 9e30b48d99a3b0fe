"""Data of many kinds: a run is what a plain Trainer does with it, byte for byte."""

import pytest
import pytorch_lightning as pl
import streams
import torch
from auditing import PLAIN, compared, in_this_process, located, train, workload
from example_trainings import VARIANT, WORKLOAD, arguments
from msgspec import convert
from safetensors.torch import load_file
from streams import Reads

from twinrun import artifacts
from twinrun.config.definitions import Run
from twinrun.process.launching import environment_of, launch
from twinrun.training.run import run

KINDS = [
    *("Streams", "DrawingStreams", "ContinuingStreams", "SilentStreams", "StatefulLoaders"),
    *("OwnLoaders", "Several", "Combined", "MaxSize", "Cycle"),
]
DEFAULT = {"accelerator": "cpu", "deterministic": False}


def weights_of_script(kind):
    """Train as a script of the user's does."""
    with torch.random.fork_rng():
        pl.seed_everything(1, workers=True, verbose=False)
        data = getattr(streams, kind)(size=70, seed=1)
        module = Reads(learning_rate=0.1)
        pl.Trainer(
            accelerator="cpu",
            max_epochs=WORKLOAD["epochs"],
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        ).fit(module, datamodule=data)
    return module.state_dict()


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=() if kind == "Several" else pytest.mark.exhaustive)
        for kind in KINDS
    ],
)
def test_a_run_is_the_training_of_a_script(tmp_path, kind):
    """Red before: a loader without a length was refused."""
    workload = {**WORKLOAD, "module": "streams:Reads", "data": f"streams:{kind}"}
    asked = arguments(
        tmp_path, workload, {**VARIANT, **DEFAULT, "threads": torch.get_num_threads()}
    )
    variables = environment_of(seed=1, deterministic=False, threads=torch.get_num_threads())
    launch("twinrun.training.train:train", asked, variables)
    found, expected = load_file(tmp_path / "weights.safetensors"), weights_of_script(kind)
    assert {n: t.numpy().tobytes() for n, t in found.items()} == {
        n: t.numpy().tobytes() for n, t in expected.items()
    }
    manifest = artifacts.read_json(tmp_path / "run.json")
    assert manifest["ended"] == "finished"
    assert not manifest["not_evaluated"]
    if kind == "Several":
        assert set(manifest["metrics"]) == {f"test_loss/dataloader_idx_{i}" for i in range(2)}
        predicted = artifacts.read_tensors(tmp_path / "predictions.safetensors")
        assert {name.split(".")[0] for name in predicted} == {"loader0", "loader1"}


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=() if kind == "ContinuingStreams" else pytest.mark.exhaustive)
        for kind in KINDS
    ],
)
def test_a_step_of_it_is_replayed(tmp_path, monkeypatch, kind):
    """In the second epoch, behind as many batches of the stream as it takes."""
    with in_this_process(monkeypatch):
        settings = {**workload("Flawed", faults="streams"), "data": f"streams:{kind}", "epochs": 2}
        runs = [train(tmp_path, repeat, settings, PLAIN) for repeat in (1, 2)]
        found = compared(tmp_path, runs)
        location = located(tmp_path, settings, PLAIN)
    assert (found["answer"], location["step"]) == ("differs", 8)
    assert location["answer"] == "located"


# A checkpoint of Lightning's loses what it does of any data. What ours loses is said.
STOPS = ("mid_epoch", "last_batch", "epoch_end", "before_validation", "after_validation")
LOST = {"SilentStreams"}


@pytest.mark.exhaustive
@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_stopped_run_loses_nothing_of_it(tmp_path, kind, stop):
    settings = {**WORKLOAD, "module": "streams:Reads", "data": f"streams:{kind}"}
    found = {}
    for name, change in {"whole": {}, "stopped": {"stop": stop, "resume": "twinrun"}}.items():
        folder = tmp_path / name
        asked = arguments(folder, settings, {**VARIANT, "threads": 1, **change})["run"]
        run(convert(asked, Run), {})
        found[name] = artifacts.read_json(folder / "run.json")
    whole, stopped = found["whole"], found["stopped"]
    assert stopped["was_stopped"]
    if kind in LOST:
        assert "Silent.position changes" in stopped["not_resumed"]
    else:
        assert not stopped["not_resumed"]
        assert stopped["resumed_at"]
    # Trained again from the beginning, it is equal, too.
    assert stopped["weights_sha256"] == whole["weights_sha256"]
