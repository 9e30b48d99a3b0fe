"""Predictions wait on disk, so that a run takes no more memory for many of them."""

import errno
from collections import namedtuple
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from example_trainings import VARIANT, WORKLOAD, arguments
from small import Points, Small
from torch.utils.data import DataLoader, TensorDataset

from twinrun import artifacts
from twinrun.process.launching import environment_of, launch
from twinrun.training import train
from twinrun.training.kept_predictions import keep
from twinrun.training.prediction_spool import Spool, Waiting, loaded
from twinrun.training.prediction_trees import plain_tree
from twinrun.training.tensor_file import write_parts

HERE = str(Path(__file__).parent)
EACH, BATCHES = 8 * 2**20, 40  # bytes that are predicted for a batch; 320 MiB in all


class PredictsMuch(Small):
    """Predicts 8 MiB for each batch."""

    def predict_step(self, batch, batch_idx):
        return torch.full((1, EACH // 4), float(batch_idx))


class LooksAtAll(PredictsMuch):
    """Looks at all its predictions where they end."""

    def on_predict_epoch_end(self):
        assert len(torch.cat(self.trainer.predict_loop.predictions)) == BATCHES


class Peaks(Small):
    """Has the peak of memory be 1 where a file is there, and else 0."""

    def __init__(self, file):
        super().__init__()
        train.peak_memory_mb = lambda: int(Path(file).exists())


class ManyBatches(Points):
    def predict_dataloader(self):
        return DataLoader(TensorDataset(torch.zeros(BATCHES, 4)), 1)


def trained(folder, module, **workload):
    asked = arguments(
        folder,
        {
            **WORKLOAD,
            "module": f"test_prediction_spool:{module.__name__}",
            "data": "test_prediction_spool:ManyBatches",
            "epochs": 1,
            **workload,
        },
        VARIANT,
    )
    asked["run"]["training"]["search_path"].append(HERE)
    variables = environment_of(seed=1, deterministic=True, threads=1)
    launch("twinrun.training.train:train", asked, variables)
    return artifacts.read_json(folder / "run.json")


@pytest.mark.exhaustive
def test_a_run_takes_no_more_memory_for_all_that_it_predicts(tmp_path):
    """Red before: 660 MiB more for these 320 MiB, and as much again when they were written."""
    without, much = (
        trained(tmp_path / str(predict), PredictsMuch, predict=predict) for predict in (False, True)
    )
    assert much["peak_memory_mb"] - without["peak_memory_mb"] < 100
    assert not much["not_evaluated"]
    (found,) = artifacts.read_tensors(tmp_path / "True/predictions.safetensors").values()
    assert found.shape == (BATCHES, EACH // 4)
    assert (found[:, 0] == range(BATCHES)).all()
    assert (found[:, -1] == range(BATCHES)).all()
    names = {file.name for file in (tmp_path / "True").iterdir()}
    assert names == {file.name for file in (tmp_path / "False").iterdir()}


@pytest.mark.exhaustive
def test_a_module_that_looks_at_all_predictions_still_sees_them(tmp_path):
    manifest = trained(tmp_path / "run", LooksAtAll)
    assert not manifest["not_evaluated"]
    # What it holds is held when it is written, too, and is a part of the peak.
    assert manifest["peak_memory_mb"] > 300 + BATCHES * EACH // 2**20


@pytest.mark.exhaustive
def test_the_peak_of_memory_is_taken_when_the_predictions_are_written(tmp_path):
    """Red before: what the write took was no part of it."""
    told = {"hyperparameters": {"file": f"{tmp_path}/run/predictions.safetensors"}}
    assert trained(tmp_path / "run", Peaks, **told)["peak_memory_mb"] == 1


class Marked(torch.Tensor):
    """Has a mark beside its values."""


def marked(mark):
    tensor = torch.ones(3).as_subclass(Marked)
    tensor.mark = mark
    return tensor


Scores = namedtuple("Scores", "mean rest")


@dataclass
class Boxes:
    scores: Scores
    label: str


def batches():
    """Give what modules return for two batches, by what is special in it."""
    out = torch.arange(6.0).reshape(2, 3)
    numbers = out.numpy()
    kinds = [torch.bool, torch.uint8, torch.int64, torch.float16, torch.bfloat16, torch.float64]
    kinds += [torch.uint16, torch.uint32, torch.uint64, torch.float8_e5m2, torch.complex64]
    each = {str(kind): [out.to(kind), out.to(kind)] for kind in kinds}
    return each | {
        "rows": [out, out[:1]],
        "columns": [out.T, out.T],
        "other shapes": [out, out.T],
        "other types": [out, out.double()],
        "scalars": [out.mean(), out.max()],
        "nothing": [out[:0], out[:0]],
        "conjugated": [torch.complex(out, out).conj(), torch.complex(out, out)],
        "negative": [torch.complex(out, out).conj().imag, out],
        "parameters": [torch.nn.Parameter(out), torch.nn.Parameter(out)],
        "numbers": [1.5, np.float64(2)],
        "arrays": [numbers, numbers.T.copy().T],
        "arrays of other bytes": [numbers.astype(">f4"), numbers.astype(">f4")],
        "arrays of uint16": [numbers.astype(np.uint16), numbers.astype(np.uint16)],
        "arrays of other shapes": [numbers, numbers[0]],
        "masked arrays": [np.ma.masked_array(np.ones(3)), np.ma.masked_array(np.zeros(3))],
        "sparse": [out.to_sparse(), out.to_sparse()],
        "marked": [marked("a"), marked("b")],
        "marked of other shapes": [marked("a"), marked("b")[:1]],
        "a list of one entry a sample": [[{"box": row} for row in out], [{"box": out[0]}]],
        "classes": [Boxes(Scores(out, {"a": out, 1: numbers}), "x"), Boxes(Scores(out, {}), "y")],
        "beside texts": [{"x": out, "y": (out, "a")}, {"x": out, "y": (out, "b")}],
    }


@pytest.mark.parametrize("name", batches())
def test_what_waited_is_kept_as_what_did_not(tmp_path, name):
    found = batches()[name]
    written = []
    with Spool(tmp_path / "predictions") as spool:
        waiting = [spool.put(plain_tree(batch)) for batch in found]
        for number, given in enumerate([found, waiting]):
            kept, missing = keep({"": given})
            write_parts(file := tmp_path / str(number), kept)
            written.append((file.read_bytes(), missing))
    assert written[0] == written[1]
    assert {file.name for file in tmp_path.iterdir()} == {"0", "1"}


def test_a_tensor_that_waits_is_held_by_nobody(tmp_path):
    with Spool(tmp_path / "predictions") as spool:
        one, other = (spool.put(torch.full((3,), number)) for number in (1.0, 2.0))
        assert isinstance(one, Waiting)
        assert torch.equal(loaded([one, other])[0], torch.ones(3))
        assert torch.equal(loaded({"a": (other,)})["a"][0], 2 * torch.ones(3))
        assert not list(tmp_path.iterdir())


def test_a_full_disk_is_named_with_the_file_that_lacks_it(tmp_path, monkeypatch):
    with Spool(tmp_path / "predictions") as spool:
        spool.put(torch.ones(3))
        monkeypatch.setattr(spool, "_file", Full(spool._file))
        with pytest.raises(OSError, match=r"No space left on device: '.*/predictions'"):
            spool.put(torch.ones(3))
    assert not list(tmp_path.iterdir())


class Full:
    """A file on a disk without space."""

    def __init__(self, file):
        self.seek, self.close = file.seek, file.close

    def write(self, _):
        raise OSError(errno.ENOSPC, "No space left on device")
