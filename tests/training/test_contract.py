"""What a workload should keep is said where it does not: each break is planted in a module."""

import itertools
import os
from typing import ClassVar

import pytest
import torch
from example_trainings import VARIANT
from small import Points, Small, Undeterministic

from twinrun.config.definitions import Training, Variant, Workload
from twinrun.training.contract import deviations

COUNT = itertools.count()
# Red before: of memory that nothing has written it was said that something is drawn.
UNDECIDED = "something is drawn without the seed, or memory is read that nothing has written (`"


class Unseeded(Small):
    def __init__(self):
        super().__init__()
        with torch.no_grad():
            self.hidden.weight += int.from_bytes(os.urandom(2)) / 2**16 + 1


class SeedingItself(Small):
    def __init__(self):
        torch.manual_seed(0)
        super().__init__()


class MadeLate(Small):
    """Its layers are made once the Trainer is there."""

    def setup(self, stage):
        self.hidden = torch.nn.Linear(self.hidden.in_features, self.hidden.out_features)


class HalfZero(Small):
    """The gradient of what lies before a layer of zeros is zero."""

    def __init__(self):
        super().__init__()
        torch.nn.init.zeros_(self.output.weight)


class Alternating(Points):
    """Batches that no seed decides."""

    def train_dataloader(self):
        self.inputs = self.inputs + next(COUNT)
        return super().train_dataloader()


class ByWorkers(Points):
    """Batches that depend on who prepares them."""

    def train_dataloader(self):
        self.inputs = self.inputs + self.data_workers
        return super().train_dataloader()


class OnceInAProcess(Small):
    """Registers itself, as one cannot do twice."""

    registered: ClassVar[list[str]] = []

    def __init__(self):
        super().__init__()
        if self.registered:
            raise ValueError("the name 'accuracy' is already registered")
        self.registered.append("accuracy")


@pytest.fixture(autouse=True)
def _as_found(monkeypatch):
    """Put back afterwards what seeding sets."""
    for name in ("PL_GLOBAL_SEED", "PL_SEED_WORKERS"):
        monkeypatch.setenv(name, "0")
    with torch.random.fork_rng():
        yield


def found(module=Small, data=Points, monkeypatch=None):
    """What is said of a module and a data module of this file."""
    monkeypatch.setattr("small.Small", module)
    monkeypatch.setattr("small.Points", data)
    workload = {"dataset": None, "hyperparameters": {}, "epochs": 2}
    training = Training(
        workload=Workload(module="small:Small", data="small:Points", **workload),
        variant=Variant(**VARIANT),
        seed=1,
        dataset=None,
        search_path=[],
    )
    return list(deviations(training, lambda text: None))


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("module", "data", "sentences"),
    [
        (Small, Points, []),
        (MadeLate, Points, []),
        (Unseeded, Points, [f"the same seed gives other initial weights: {UNDECIDED}"]),
        (SeedingItself, Points, ["another seed gives the same initial weights"]),
        (HalfZero, Points, ["the first step leaves unchanged: hidden.weight, hidden.bias"]),
        (Undeterministic, Points, ["a deterministic variant cannot train it: put_"]),
        (Small, Alternating, ["the same seed gives another first batch"]),
        (OnceInAProcess, Points, ["its first step could not be compared with another one: made"]),
        (Small, ByWorkers, ["two data workers give another first batch"]),
    ],
)
def test_what_is_not_kept_is_said(module, data, sentences, monkeypatch):
    said = found(module, data, monkeypatch)
    assert len(said) == len(sentences), said
    for text, sentence in zip(said, sentences, strict=True):
        assert text.startswith(sentence)
