"""What one of several workers draws: numbers of its own, and the same in every run of a seed."""

import random

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from example_trainings import VARIANT
from small import Points, Small

from twinrun.config.definitions import Variant
from twinrun.parallel.team import join_team
from twinrun.parallel.workers import Workers
from twinrun.process.determinism import restore_rng_states, rng_states


@pytest.fixture
def drawn(monkeypatch):
    """Return what a worker draws in a training, by its rank and the run's seed."""
    before = rng_states()

    def draw(rank, seed):
        # As a run has done before; Lightning keeps the seed here.
        monkeypatch.delenv("PL_GLOBAL_SEED", raising=False)
        pl.seed_everything(seed, workers=True, verbose=False)
        variant = Variant(**VARIANT | {"devices": 2})
        workers = Workers(rank, count=2)
        join_team(workers, Small(), Points(), object(), variant=variant, seed=seed)
        return torch.rand(1).item(), np.random.random(), random.random()

    yield draw
    restore_rng_states(before)


def alone(seed):
    pl.seed_everything(seed, workers=True, verbose=False)
    Small(), Points()
    return torch.rand(1).item(), np.random.random(), random.random()


def test_the_first_worker_draws_what_one_process_draws(drawn):
    assert drawn(0, seed=1) == alone(seed=1)


def test_the_second_worker_draws_the_same_in_every_run_and_nobody_elses_numbers(drawn):
    """A dropout would drop the same units of every shard; a sum of seed and rank, another run's."""
    found = drawn(1, seed=1)
    assert drawn(1, seed=1) == found
    for others in (drawn(0, seed=1), drawn(0, seed=2), drawn(1, seed=2), alone(seed=2)):
        assert not set(others) & set(found)
