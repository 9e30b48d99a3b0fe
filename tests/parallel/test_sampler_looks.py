"""Samplers that go by what a training comes to: each mini-batch is drawn when it is asked for."""

from itertools import chain, islice

import numpy as np
import pytest
import torch
from in_turn import InTurn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, Sampler, WeightedRandomSampler

from twinrun.parallel.batch_sharding import sharded
from twinrun.parallel.sampler_looks import draws_at_once

SIZE = 64


class Growing(Sampler):
    """Draws from a share of the samples that the steps let grow."""

    def __init__(self):
        self.share, self.generator = 4, torch.Generator().manual_seed(3)
        self.weights = np.ones(SIZE)
        self.drawn = []

    def __len__(self):
        return SIZE

    def __iter__(self):
        for _ in range(SIZE):
            found = int(torch.randint(self.share, (1,), generator=self.generator))
            self.drawn.append(found)
            yield found


class AtOnce(BatchSampler):
    """Draws where its iterator is made."""

    def __iter__(self):
        return iter(torch.randperm(SIZE).reshape(-1, 8).tolist())


def growing():
    return DataLoader(torch.arange(SIZE), batch_size=8, sampler=Growing())


def steps(loader, sampler, epochs=2, change=None):
    """Return the samples of each mini-batch; each step lets the share grow, at every worker."""
    found = []
    for _ in range(epochs):
        for batch in islice(iter(loader), len(loader)):  # as Lightning, no further
            found.append(batch.tolist())
            if hasattr(sampler, "share"):
                sampler.share = min(SIZE, 4 + 3 * len(found))
            if change is not None:
                change(sampler, batch)
    return found


def of_workers(make, count=2, change=None):
    """Return the mini-batches of workers, and what they name."""
    sent, found, named = [], [], set()
    for rank in range(count):
        loader, drawn = sharded(
            make(), sharding="canonical", scale=1, seed=5, workers=InTurn(rank, count, sent)
        )
        found.append(steps(loader, drawn.batch_sampler.sampler, change=change))
        named |= drawn.unlike
    return [[*chain(*shards)] for shards in zip(*found, strict=True)], named


@pytest.mark.parametrize("count", [2, 3])
def test_a_sampler_sees_the_steps_before_its_next_mini_batch(count):
    """Red before: the whole epoch was drawn ahead of its first step."""
    loader = growing()
    whole, named = of_workers(growing, count)
    assert whole == steps(loader, loader.sampler)
    assert named == set()


def test_a_loaders_own_generator_is_left_where_one_process_leaves_it():
    """Red before: torch's sampler drew once more behind its last mini-batch, and none asked it."""

    def make():
        generator = torch.Generator().manual_seed(3)
        return DataLoader(torch.arange(SIZE), batch_size=8, shuffle=True, generator=generator)

    loader = make()
    assert of_workers(make) == (steps(loader, None), set())


def test_a_batch_sampler_begins_where_the_loaders_iterator_is_made():
    """Red before: it drew with the first mini-batch, behind what else is drawn by then."""
    before = torch.get_rng_state()
    orders = []
    for count in (None, 1):
        torch.manual_seed(1)
        loader = DataLoader(torch.arange(SIZE), batch_sampler=AtOnce(range(SIZE), 8, False))
        if count:
            workers = InTurn(0, count, [])
            loader, _ = sharded(loader, sharding="canonical", scale=1, seed=5, workers=workers)
        batches = iter(loader)
        torch.manual_seed(2)
        orders.append([batch.tolist() for batch in batches])
    torch.set_rng_state(before)
    assert orders[0] == orders[1]


def weighs(sampler, batch):
    """Weigh the samples of this worker's shard, as by their losses."""
    sampler.weights[batch.tolist()] += 0.5


def weighted():
    weights = torch.ones(SIZE)
    return DataLoader(
        torch.arange(SIZE), batch_size=8, sampler=WeightedRandomSampler(weights, SIZE, False)
    )


@pytest.mark.parametrize(
    ("make", "change", "named"),
    [
        (growing, weighs, {"Growing.weights"}),
        (weighted, weighs, {"WeightedRandomSampler.weights"}),
        (weighted, None, set()),
        # What drawing moves, and the steps too.
        (growing, lambda sampler, _: torch.rand(1, generator=sampler.generator), {"Growing.gen"}),
    ],
)
def test_what_each_worker_makes_another_thing_of_is_named(make, change, named):
    """Red before: only the first worker's losses were gone by, without a word."""
    before = torch.get_rng_state()
    _, found = of_workers(make, change=change)
    torch.set_rng_state(before)
    assert {each.replace("generator", "gen") for each in found} == named


@pytest.mark.parametrize(
    ("loader", "expected"),
    [
        (DataLoader(range(9), 4, shuffle=True), True),
        (DataLoader(range(9), 4), True),
        (DataLoader(range(9), 4, shuffle=True, generator=torch.Generator()), False),
        (DataLoader(range(9), 4, sampler=RandomSampler(range(9), replacement=True)), True),
        (DataLoader(range(9), batch_sampler=[[0, 1], [2]]), False),
        (DataLoader(range(SIZE), 4, sampler=Growing()), False),
    ],
)
def test_an_order_is_exchanged_once_where_nothing_can_have_a_say_in_it(loader, expected):
    assert draws_at_once(loader.batch_sampler) is expected
