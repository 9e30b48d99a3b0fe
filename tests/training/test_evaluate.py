"""Whatever a test or a prediction does, the training stands, and what is missing is named."""

import os
import re
import signal
import sys
import threading
from collections import namedtuple
from dataclasses import dataclass

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from example_trainings import WORKLOAD
from small import Points, Small
from torch.utils.data import DataLoader, TensorDataset

from twinrun import artifacts
from twinrun.checkpoint.stop_request import Stop
from twinrun.config.definitions import Workload
from twinrun.training import evaluated_samples
from twinrun.training.evaluate import evaluate
from twinrun.training.prediction_spool import Spool
from twinrun.training.tensor_file import write_parts


class Predicts(Small):
    """Predicts what it is told to."""

    def __init__(self, give, **options):
        super().__init__(**options)
        self.give = give

    def predict_step(self, batch, batch_idx, dataloader_idx=0):
        return self.give(super().forward(batch[0]))


class FailingTest(Small):
    def test_step(self, batch, batch_idx):
        raise AssertionError


class EndingTest(Small):
    def test_step(self, batch, batch_idx):
        sys.exit(0)


class Signalled(Small):
    """Is asked to stop while it is tested, and while it predicts."""

    def test_step(self, batch, batch_idx):
        os.kill(os.getpid(), signal.SIGTERM)
        super().test_step(batch, batch_idx)

    def predict_step(self, batch, batch_idx):
        os.kill(os.getpid(), signal.SIGTERM)
        return self(batch[0])


class OneOfAList(Points):
    def predict_dataloader(self):
        return [super().predict_dataloader()]


class TwoTests(Points):
    def test_dataloader(self):
        return [super().test_dataloader(), super().test_dataloader()]


class TwoPredictions(Points):
    def predict_dataloader(self):
        return [super().predict_dataloader(), super().predict_dataloader()]


class Backwards(Points):
    def test_dataloader(self):
        order = range(len(self.inputs))[::-1]
        return DataLoader(TensorDataset(self.inputs, self.targets), 16, sampler=order)


class Wide(Points):
    def test_dataloader(self):
        return DataLoader(TensorDataset(self.inputs, self.targets), 50)


class OfLoaders(Small):
    def test_step(self, batch, batch_idx, dataloader_idx=0):
        super().test_step(batch, batch_idx)


class Unequal(Points):
    """Tests on two loaders."""

    def __init__(self, *numbers):
        super().__init__(size=100, seed=1)
        self.numbers = numbers

    def test_dataloader(self):
        loaders = {
            number: DataLoader(TensorDataset(self.inputs[:number], self.targets[:number]), 16)
            for number in self.numbers
        }
        return list(loaders.values())


class TakesTwo(Small):
    """Takes what a batch says of all its samples."""

    def test_step(self, batch, batch_idx):
        super().test_step((batch["x"], batch["y"]), batch_idx)

    def predict_step(self, batch, batch_idx):
        return self(batch["x"])


class Says(Points):
    number, text = 16, "clean"

    def test_dataloader(self):
        def collate(rows):
            x, y = (torch.stack(column) for column in zip(*rows, strict=True))
            return {"x": x, "y": y, "split": self.text}

        return DataLoader(TensorDataset(self.inputs, self.targets), self.number, collate_fn=collate)

    predict_dataloader = test_dataloader


class SaysWide(Says):
    number = 50


class SaysOther(Says):
    text = "noisy"


class Transfers(Small):
    """May change a batch behind its loader."""

    def on_after_batch_transfer(self, batch, dataloader_idx):
        return batch


class OwnLoader(DataLoader):
    """Cannot be made anew: its arguments have names of their own."""

    def __init__(self, data, size):
        super().__init__(data, size)


class Positional(Points):
    def predict_dataloader(self):
        return DataLoader(TensorDataset(self.inputs, self.targets), 16)


class Own(Points):
    def predict_dataloader(self):
        return OwnLoader(TensorDataset(self.inputs, self.targets), 16)


class Logs(Small):
    def test_step(self, batch, batch_idx, dataloader_idx=0):
        self.log("test_loss", float(dataloader_idx), on_step=False, on_epoch=True)
        self.log(f"own_{dataloader_idx}", 2.0, add_dataloader_idx=False)


class OpaqueBatch(list):
    """Two tensors, and an object that cannot be looked into."""

    def __init__(self, items):
        super().__init__(items)
        self.lock = threading.Lock()


class GivesOpaque(Points):
    def on_after_batch_transfer(self, batch, dataloader_idx):
        return OpaqueBatch(batch)


def evaluated(network, tmp_path, data=None, callbacks=(), precision="32-true", **workload):
    data = data or Points(size=70, seed=1)
    trainer = pl.Trainer(
        accelerator="cpu",
        precision=precision,
        callbacks=list(callbacks),
        logger=False,
        enable_progress_bar=False,
        enable_checkpointing=False,
        default_root_dir=tmp_path,
    )
    with Spool(tmp_path / "spool") as spool:
        found = evaluate(trainer, network, data, Workload(**{**WORKLOAD, **workload}), spool=spool)
        # As they are written: nothing is left to read once the spool is closed.
        write_parts(tmp_path / "predictions.safetensors", found.predictions)
        found.predictions = {name: parts.whole() for name, parts in found.predictions.items()}
    return found


def test_batches_of_tensors_are_joined(tmp_path):
    module = Predicts(lambda out: out)
    found = evaluated(module, tmp_path)
    loader = Points(size=70, seed=1).predict_dataloader()
    expected = torch.cat([Small.forward(module, inputs) for inputs, _ in loader])
    assert torch.equal(found.predictions["prediction"], expected)
    assert not found.missing
    assert set(found.metrics) == {"test_loss"}


@pytest.mark.parametrize("data", [Positional, Own])
def test_a_loader_that_cannot_be_made_anew_is_iterated_over_as_it_is(tmp_path, data):
    found = evaluated(module := Small(), tmp_path, data(size=70, seed=1))
    assert not found.missing
    assert torch.equal(
        found.predictions["prediction"], evaluated(module, tmp_path).predictions["prediction"]
    )


@pytest.mark.parametrize("off", ["test", "predict"])
def test_a_workload_may_do_without(tmp_path, off):
    found = evaluated(Small(), tmp_path, **{off: False})
    assert not found.missing
    assert (found.metrics == {}, found.predictions == {}) == (off == "test", off == "predict")


Scores = namedtuple("Scores", "mean extra")


@dataclass
class Boxes:
    scores: Scores
    labels: list


class Raises:
    """Raises when it is looked at."""

    @property
    def __class__(self):
        raise RuntimeError("not to be looked at")


class Opaque:
    """Shows nothing of what it holds."""

    __slots__ = ()


PRINTED = {"prediction (fingerprint)"}


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("give", "kept", "missing"),
    [
        (lambda out: ["a"] * 3, {f"{n} (fingerprint)" for n in range(3)}, set()),
        (lambda out: None, set(), set()),
        (lambda out: {"x": out, "mask": None}, {"x"}, set()),
        (lambda out: {"x": out, "text": "no"}, {"x", "text (fingerprint)"}, set()),
        (lambda out: {"x": out, "own": Opaque()}, {"x"}, {"own"}),
        (lambda out: {"test": Opaque(), "predict": Opaque()}, set(), {"test (2)", "predict (2)"}),
        (lambda out: ["a"] * len(out), PRINTED, set()),  # the last batch is shorter
        (lambda out: [{"box": row} for row in out], PRINTED, set()),
        (lambda out: {"a": {"b": out, "c": [out, out]}}, {"a.b", "a.c.0", "a.c.1"}, set()),
        (lambda out: {"a.b": out, "a": {"b": out}}, {"a.b", "a.b (2)"}, set()),
        (lambda out: {1: out, "1": out}, {"1", "1 (int)"}, set()),
        (lambda out: out.mean(), {"prediction"}, set()),
        (lambda out: torch.ones(2, len(out)), PRINTED, set()),
        (lambda out: torch.complex(out, out), {"prediction.real", "prediction.imag"}, set()),
        (lambda out: torch.complex(out, out).conj(), {"prediction.real", "prediction.imag"}, set()),
        (lambda out: {"n": out.numpy(), "m": out.mean().item()}, {"n", "m"}, set()),
        (lambda out: {"u": out.numpy().astype(np.uint16)}, {"u"}, set()),
        (lambda out: {"u": torch.ones(len(out), dtype=torch.uint64)}, {"u (fingerprint)"}, set()),
        (lambda out: {"f": out.to(torch.float8_e5m2)}, {"f (fingerprint)"}, set()),
        (lambda out: {"s": out.to_sparse()}, {"s (fingerprint)"}, set()),
        (lambda out: {"w": np.array(["a", "b"])}, {"w (fingerprint)"}, set()),
        (lambda out: {"m": np.ma.masked_array(np.ones(3))}, {"m (fingerprint)"}, set()),
        (
            lambda out: Boxes(Scores(out, {"a": out}), ["x", None]),
            {"scores.mean", "scores.extra.a", "labels.0 (fingerprint)"},
            set(),
        ),
        (lambda out: Raises(), set(), {"predict"}),
        (lambda out: {"many": 10**30}, {"many (fingerprint)"}, set()),
    ],
)
def test_what_cannot_be_kept_is_named_and_the_rest_is_kept(tmp_path, give, kept, missing):
    found = evaluated(Predicts(give), tmp_path)
    assert set(found.predictions) == kept
    assert set(found.missing) == missing
    assert "test_loss" in found.metrics
    # Whatever is kept can be read where it was written.
    assert artifacts.read_tensors(tmp_path / "predictions.safetensors").keys() == kept


def test_outputs_that_share_a_name_are_both_kept(tmp_path):
    found = evaluated(Predicts(lambda out: {"a.b": out, "a": {"b": out + 1}}), tmp_path)
    first, second = found.predictions["a.b"], found.predictions["a.b (2)"]
    assert torch.equal(first + 1, second)


@pytest.mark.parametrize("change", [0.0, 1e-3])
def test_fingerprints_tell_whether_outputs_are_the_same(tmp_path, change):
    def prints(added):
        module = Predicts(lambda out: [{"box": row + added} for row in torch.ones_like(out)])
        return evaluated(module, tmp_path).predictions["prediction (fingerprint)"]

    assert torch.equal(prints(0.0), prints(change)) == (change == 0)


def test_a_test_that_fails_costs_nothing_else(tmp_path):
    found = evaluated(FailingTest(), tmp_path, module=f"{__name__}:FailingTest")
    assert found.metrics == {}
    assert re.fullmatch(r"AssertionError \(test_evaluate.py, line \d+\)", found.missing["test"])
    assert set(found.predictions) == {"prediction"}


class NeedsWorkers(Points):
    def test_dataloader(self):
        return self._loader(persistent_workers=True)


def test_a_test_that_lacks_data_workers_is_told_with_its_cure(tmp_path):
    """Red before: in the rehearsal alone, and not beside the answer that the test is missing."""
    found = evaluated(Small(), tmp_path, NeedsWorkers(size=70, seed=1))
    assert found.missing["test"].startswith("ValueError: persistent_workers option needs")
    assert found.missing["test"].endswith("(`from_run: {data_workers: null}`)")


def test_a_test_that_ends_the_program_costs_nothing_else(tmp_path):
    """Red before: the training was thrown away."""
    found = evaluated(EndingTest(), tmp_path, module=f"{__name__}:EndingTest")
    assert found.missing["test"].startswith("the code ends the program (sys.exit(0)) (")
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


def test_a_single_prediction_loader_in_a_list_has_no_number(tmp_path):
    """Lightning returns the batches of one loader alone, in a list or not."""
    found = evaluated(Predicts(lambda out: out), tmp_path, OneOfAList(size=70, seed=1))
    bare = evaluated(Predicts(lambda out: out), tmp_path)
    assert found.predictions.keys() == {"prediction"}
    assert found.predictions["prediction"].shape == bare.predictions["prediction"].shape


def test_a_signal_ends_neither_test_nor_prediction(tmp_path):
    handlers = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        found = evaluated(Signalled(), tmp_path, callbacks=[Stop(tmp_path / "STOP")])
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert set(found.metrics) == {"test_loss"}
    assert set(found.predictions) == {"prediction"}
    assert not found.missing


def test_what_test_and_prediction_were_given_is_hashed(tmp_path):
    """So that rows of other samples are not compared."""
    found = [
        evaluated(Small(), tmp_path, Points(size=70, seed=seed)).given["in_order"]
        for seed in (1, 1, 2)
    ]
    assert found[0] == found[1]
    assert set(found[0]) == {"test", "predict"}
    assert not set(found[0].values()) & set(found[2].values())
    assert evaluated(Small(), tmp_path, Points(seed=1), predict=False).given["in_order"] == {
        "test": found[0]["test"]
    }
    # Neither another order nor other batches are other samples.
    every = [
        evaluated(Small(), tmp_path, kind(size=70, seed=1)) for kind in (Points, Backwards, Wide)
    ]
    assert len({found.given["in_any_order"]["test"] for found in every}) == 1
    assert len({found.given["in_order"]["test"] for found in every}) == 2
    # Red before: what broke off had the hash of a part, which was taken for other data.
    assert set(evaluated(FailingTest(), tmp_path, Points(seed=1)).given["in_order"]) == {"predict"}
    opaque = evaluated(Small(), tmp_path, GivesOpaque(seed=1))
    assert (opaque.given["in_order"], set(opaque.metrics)) == ({}, {"test_loss"})


def test_loaders_that_are_exchanged_give_other_samples(tmp_path):
    """Red before: they had one hash, and each metric was of the other loader's data."""
    one, other = (
        evaluated(OfLoaders(), tmp_path, Unequal(*numbers), predict=False).given
        for numbers in [(70, 30), (30, 70)]
    )
    assert [of["numbers"]["test"] for of in (one, other)] == [[70, 30], [30, 70]]
    assert one["in_any_order"]["test"] != other["in_any_order"]["test"]
    assert one["in_order"]["test"] != other["in_order"]["test"]


def test_a_text_in_each_batch_makes_other_batches_no_other_samples(tmp_path):
    """Red before: it was hashed with each batch, so that there were as many as batches."""
    found = [
        evaluated(TakesTwo(), tmp_path, kind(size=70, seed=1)).given for kind in (Says, SaysWide)
    ]
    assert found[0] == found[1]
    assert found[0]["numbers"] == {"test": [70], "predict": [70]}
    other = evaluated(TakesTwo(), tmp_path, SaysOther(size=70, seed=1)).given
    assert other["in_any_order"]["test"] != found[0]["in_any_order"]["test"]


def test_samples_are_hashed_once_where_nothing_casts_them(tmp_path, monkeypatch):
    """Red before: twice."""
    looked = []
    look_at = evaluated_samples.look_at
    monkeypatch.setattr(
        evaluated_samples, "look_at", lambda batch: looked.append(1) or look_at(batch)
    )
    numbers = []
    kinds = [(Small, "32-true"), (Small, "64-true"), (Transfers, "32-true")]
    for module, precision in kinds:
        looked.clear()
        evaluated(module(), tmp_path, precision=precision)
        numbers.append(len(looked))
    assert numbers == [10, 20, 20]


@pytest.mark.parametrize("precision", ["64-true", "bf16-true"])
def test_samples_are_known_in_another_precision(tmp_path, precision):
    """Red before: they were hashed as Lightning had cast them, and taken for others."""
    plain = evaluated(Small(), tmp_path)
    cast = evaluated(Small(), tmp_path, precision=precision)
    assert cast.loaded == plain.loaded == plain.given != cast.given
    assert set(cast.loaded["in_order"]) == {"test", "predict"}


def test_a_list_of_a_sample_each_takes_nothing_beside_it_away(tmp_path):
    """Red before: its last batch is shorter, and all was kept as fingerprints, without a word."""

    def give(out):
        texts = [f"{value:.3f}" for value in out.flatten().tolist()]
        return {"scores": out, "texts": texts, "of": {"pairs": (out + 1, [1.0] * len(out))}}

    found = evaluated(Predicts(give), tmp_path)
    assert not found.missing
    names = ["scores", "texts (fingerprint)", "of.pairs.0", "of.pairs.1 (fingerprint)"]
    assert list(found.predictions) == names
    assert found.predictions["scores"].shape == (70, 1)
