"""Shares of mini-batches: how large, whose, in which order; loaders that cannot be sharded."""

from itertools import chain

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from in_turn import InTurn
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    TensorDataset,
)

from twinrun.errors import TwinrunError
from twinrun.parallel.batch_sharding import sharded as shard
from twinrun.parallel.batch_sharding import shards
from twinrun.workloads.order import EpochOrder, ResidentTensors, loader


def ours(size=70, batch_size=16, drop_last=False):
    """A loader with an order from (seed, epoch), as our workloads have."""
    order = EpochOrder(size, seed=3)
    dataset = ResidentTensors(torch.arange(size))
    return loader(dataset, order, batch_size=batch_size, drop_last=drop_last, workers=0)


def torchs(size=70, batch_size=16, drop_last=False):
    """A loader with torch's own shuffling."""
    return DataLoader(
        TensorDataset(torch.arange(size)),
        batch_size=batch_size,
        shuffle=True,
        drop_last=drop_last,
        generator=torch.Generator().manual_seed(4),
    )


def sliced(size=70, batch_size=16, drop_last=False):
    """A loader without batches of its own: its sampler draws them."""
    order = RandomSampler(range(size), generator=torch.Generator().manual_seed(4))
    return DataLoader(
        TensorDataset(torch.arange(size)),
        sampler=BatchSampler(order, batch_size, drop_last),
        batch_size=None,
    )


def batches_of(training, epochs):
    """Give the samples of each batch, epoch by epoch; epochs are told as Lightning does."""
    holder = training.sampler if training.batch_sampler is None else training.batch_sampler.sampler
    found = []
    for epoch in range(epochs):
        if hasattr(holder, "set_epoch"):
            holder.set_epoch(epoch)
        found.append([batch[0].tolist() for batch in training])
    return found


def sharded(make, workers, *, sharding="canonical", scale_batch=False, epochs=2, **options):
    """Give each worker's batches, epoch by epoch, and the sizes of the last epoch."""
    sent, found, sizes = [], [], []
    for rank in range(workers):
        me, scale = InTurn(rank, workers, sent), workers if scale_batch else 1
        training, drawn = shard(make(**options), sharding=sharding, scale=scale, seed=5, workers=me)
        found.append(batches_of(training, epochs))
        sizes.append(drawn.sizes)
        assert len(training) == len(found[-1][0])
    assert all(other == sizes[0] for other in sizes)
    return found, sizes[0]


@pytest.mark.parametrize(
    ("size", "workers", "expected"),
    [
        (130, 4, [33, 33, 32, 32]),
        (32, 2, [16, 16]),
        (7, 3, [3, 2, 2]),
        (1, 3, [1, 0, 0]),
        (5, 1, [5]),
    ],
)
def test_shares(size, workers, expected):
    assert shards(size, workers) == expected


@given(st.integers(0, 10**6), st.integers(1, 64))
def test_shares_are_whole_and_even(size, workers):
    found = shards(size, workers)
    assert sum(found) == size
    assert max(found) - min(found) <= 1
    assert found == sorted(found, reverse=True)


@pytest.mark.parametrize("make", [ours, torchs, sliced])
@pytest.mark.parametrize("workers", [1, 2, 3, 4])
@pytest.mark.parametrize("drop_last", [True, False])
def test_canonical_shares_make_the_mini_batches_of_one_process(make, workers, drop_last):
    whole = batches_of(make(drop_last=drop_last), 2)
    found, sizes = sharded(make, workers, drop_last=drop_last)
    for epoch, batches in enumerate(whole):
        for step, batch in enumerate(batches):
            parts = [found[rank][epoch][step] for rank in range(workers)]
            assert list(chain(*parts)) == batch
            assert [len(part) for part in parts] == shards(len(batch), workers)
            assert sizes[step] == shards(len(batch), workers)
    assert whole[0] != whole[1]


def test_a_worker_without_a_share_gets_one_sample_that_counts_nothing():
    found, sizes = sharded(ours, 3, size=33)
    assert sizes[-1] == [1, 0, 0]
    last = [batches[0][-1] for batches in found]
    assert last[0] == last[1] == last[2]
    assert len(last[0]) == 1


@pytest.mark.parametrize(("drop_last", "expected"), [(True, [32, 32]), (False, [32, 32, 6])])
def test_mini_batches_are_scaled_so_that_each_worker_keeps_its_load(drop_last, expected):
    found, sizes = sharded(ours, 2, scale_batch=True, drop_last=drop_last)
    whole = batches_of(ours(), 1)[0]
    assert [sum(step) for step in sizes] == expected
    assert found[0][0][0] + found[1][0][0] == whole[0] + whole[1]


@pytest.mark.parametrize("make", [ours, torchs, sliced])
@pytest.mark.parametrize("workers", [2, 3])
def test_a_partition_does_not_overlap_and_is_reshuffled(make, workers):
    found, _ = sharded(make, workers, sharding="partitioned", size=66, batch_size=11, epochs=3)
    parts = [{i for epoch in batches for batch in epoch for i in batch} for batches in found]
    assert sum(len(part) for part in parts) == len(set.union(*parts))
    assert all(len(part) <= 66 // workers for part in parts)
    for batches in found:
        epochs = [list(chain(*epoch)) for epoch in batches]
        assert len({tuple(epoch) for epoch in epochs}) == 3
        assert all(len(set(epoch)) == len(epoch) for epoch in epochs)


@pytest.mark.parametrize("sharding", ["canonical", "partitioned"])
def test_samples_know_their_epoch_however_they_are_shared(sharding):
    """What a dataset draws for a sample, such as noise, must not be the same in every epoch."""
    sent, drawn = [], []
    for rank in (0, 1):
        whole, workers = ours(size=20, batch_size=4), InTurn(rank, 2, sent)
        _, batches = shard(whole, sharding=sharding, scale=1, seed=5, workers=workers)
        for epoch in (0, 1, 2):
            batches.sampler.set_epoch(epoch)  # as Lightning does
            drawn += chain(*batches)
    # EpochOrder numbers the samples of all epochs: epoch * size + sample.
    assert sorted(drawn) == list(range(60))


def test_an_epoch_ends_for_all_when_one_worker_has_run_out():
    # 70 samples are 24, 23, 23; batches of 16 are shared 6, 5, 5: the first has four, the others
    # would have five.
    found, sizes = sharded(ours, 3, sharding="partitioned")
    assert [len(batches[0]) for batches in found] == [4, 4, 4]
    assert sizes == [[6, 5, 5]] * 4
    # 23 and 22 in batches of 8: the last are partial.
    found, sizes = sharded(ours, 2, sharding="partitioned", size=45)
    assert sizes == [[8, 8], [8, 8], [7, 6]]
    assert [[len(batch) for batch in batches[0]] for batches in found] == [[8, 8, 7], [8, 8, 6]]
    assert sharded(ours, 2, sharding="partitioned", size=45, drop_last=True)[1] == [[8, 8]] * 2


def test_partitioned_batches_are_scaled_too():
    _, sizes = sharded(ours, 2, sharding="partitioned", scale_batch=True, size=64)
    assert sizes == [[16, 16], [16, 16]]


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(9))


class Unbounded:
    def __iter__(self):
        return iter([[0], [1]])


SAMPLES = TensorDataset(torch.arange(20))


@pytest.mark.parametrize(
    ("make", "sharding", "sentence"),
    [
        (lambda: [1, 2], "canonical", "is a list, and what can be sharded is a torch DataLoader"),
        (lambda: DataLoader(Stream()), "canonical", "reads an iterable dataset"),
        (
            lambda: DataLoader(SAMPLES, batch_sampler=Unbounded()),
            "canonical",
            "has a batch_sampler without a length",
        ),
        (
            lambda: DataLoader(SAMPLES, batch_size=None),
            "canonical",
            "draws values of type int, where lists or tensors of indices",
        ),
        (
            lambda: DataLoader(SAMPLES, batch_sampler=[[0, 1], [2, 3]]),
            "partitioned",
            "draws from a list, where a partition needs torch's BatchSampler",
        ),
        (
            lambda: DataLoader(SAMPLES, batch_size=4, sampler=range(9)),
            "partitioned",
            "draws 9 of 20 samples",
        ),
        (
            lambda: DataLoader(SAMPLES, 4, sampler=RandomSampler(SAMPLES, replacement=True)),
            "partitioned",
            "draws some samples more than once",
        ),
        (lambda: DataLoader(SAMPLES, batch_size=1), "partitioned", "a mini-batch of 1 is not"),
        # Red before: half of the samples were trained on, without a word.
        (
            lambda: DataLoader(SAMPLES, 4, sampler=DistributedSampler(SAMPLES, 2, 0)),
            "canonical",
            "has a DistributedSampler, which gives each worker a part of the samples",
        ),
    ],
)
def test_what_cannot_be_shared_is_one_sentence(make, sharding, sentence):
    with pytest.raises(TwinrunError, match=sentence):
        list(shard(make(), sharding=sharding, scale=1, seed=5, workers=InTurn(0, 2, []))[0])
