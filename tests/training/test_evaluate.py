"""Whatever a test or a prediction does, the training stands, and what is missing is named."""

import pytest
import pytorch_lightning as pl
import torch
from small import Points, Small

from twinrun.training.evaluate import evaluate


class Predicts(Small):
    """Predicts what it is told to."""

    def __init__(self, give, **options):
        super().__init__(**options)
        self.give = give

    def predict_step(self, batch, batch_idx, dataloader_idx=0):
        return self.give(super().forward(batch[0]))


class FailingTest(Small):
    def test_step(self, batch, batch_idx):
        raise RuntimeError("no such table")


class TwoTests(Points):
    def test_dataloader(self):
        return [super().test_dataloader(), super().test_dataloader()]


class TwoPredictions(Points):
    def predict_dataloader(self):
        return [super().predict_dataloader(), super().predict_dataloader()]


class Logs(Small):
    def test_step(self, batch, batch_idx, dataloader_idx=0):
        self.log("test_loss", float(dataloader_idx), on_step=False, on_epoch=True)
        self.log(f"own_{dataloader_idx}", 2.0, add_dataloader_idx=False)


def evaluated(module, tmp_path, data=None):
    data = data or Points(size=70, seed=1)
    trainer = pl.Trainer(
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_checkpointing=False,
        default_root_dir=tmp_path,
    )
    return evaluate(trainer, module, data)


def test_batches_of_tensors_are_joined(tmp_path):
    module = Predicts(lambda out: out)
    found = evaluated(module, tmp_path)
    loader = Points(size=70, seed=1).predict_dataloader()
    expected = torch.cat([Small.forward(module, inputs) for inputs, _ in loader])
    assert torch.equal(found.predictions["prediction"], expected)
    assert not found.missing
    assert set(found.metrics) == {"test_loss"}


@pytest.mark.parametrize(
    ("give", "kept", "missing"),
    [
        (lambda out: ["a"] * 3, set(), {"0", "1", "2"}),
        (lambda out: None, set(), {"prediction"}),
        (lambda out: {"x": out, "text": "no"}, {"x"}, {"text"}),
        (lambda out: ["a"] * len(out), set(), {"predict"}),  # the last batch is shorter
        (lambda out: {"a": {"b": out, "c": [out, out]}}, {"a.b", "a.c.0", "a.c.1"}, set()),
        (lambda out: out.mean(), {"prediction"}, set()),
        (lambda out: torch.ones(2, len(out)), set(), {"prediction"}),  # the last batch is shorter
    ],
)
def test_what_cannot_be_kept_is_named_and_the_rest_is_kept(tmp_path, give, kept, missing):
    found = evaluated(Predicts(give), tmp_path)
    assert set(found.predictions) == kept
    assert missing <= set(found.missing)
    assert bool(missing) == bool(found.missing)
    assert "test_loss" in found.metrics


def test_a_test_that_fails_costs_nothing_else(tmp_path):
    found = evaluated(FailingTest(), tmp_path)
    assert found.metrics == {}
    assert "no such table" in found.missing["test"]
    assert set(found.predictions) == {"prediction"}


def test_all_test_loaders_metrics_are_kept(tmp_path):
    found = evaluated(Logs(), tmp_path, TwoTests(size=70, seed=1))
    assert found.metrics == {
        "test_loss/dataloader_idx_0": 0.0,
        "test_loss/dataloader_idx_1": 1.0,
        "own_0": 2.0,
        "own_1": 2.0,
    }


def test_several_prediction_loaders_are_kept_by_number(tmp_path):
    data = TwoPredictions(size=70, seed=1)
    found = evaluated(Predicts(lambda out: out), tmp_path, data)
    assert set(found.predictions) == {"loader0.prediction", "loader1.prediction"}
