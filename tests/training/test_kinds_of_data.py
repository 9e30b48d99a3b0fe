"""Data of many kinds: a run is what a plain Trainer does with it, byte for byte."""

import pytest
import pytorch_lightning as pl
import streams
import torch
from example_trainings import VARIANT, WORKLOAD, arguments
from safetensors.torch import load_file
from streams import Reads

from twinrun import artifacts
from twinrun.process.launching import environment_of, launch

KINDS = [
    *("Streams", "DrawingStreams", "ContinuingStreams", "SilentStreams", "StatefulLoaders"),
    *("OwnLoaders", "Several", "Combined", "MaxSize", "Cycle", "PassedOver"),
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


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(
            kind, marks=() if kind in ("Several", "PassedOver") else pytest.mark.exhaustive
        )
        for kind in KINDS
    ],
)
def test_a_run_is_the_training_of_a_script(tmp_path, kind):
    """Red before: a loader without a length was refused, and a batch that is None broke the run."""
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
    run = artifacts.read_json(tmp_path / "run.json")
    assert run["ended"] == "finished"
    assert not run["not_evaluated"]
    if kind == "PassedOver":  # 9 batches an epoch, of which 2 are None
        assert run["steps"] == 7 * WORKLOAD["epochs"]
    if kind == "Several":
        assert set(run["metrics"]) == {f"test_loss/dataloader_idx_{i}" for i in range(2)}
        predicted = artifacts.read_tensors(tmp_path / "predictions.safetensors")
        assert {name.split(".")[0] for name in predicted} == {"loader0", "loader1"}
