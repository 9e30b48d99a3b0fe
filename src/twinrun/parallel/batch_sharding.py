"""How the workers of one run share its mini-batches.

A mini-batch of M samples is cut into floor(M/N) for each of N workers, one more for the first
M mod N. `canonical`: there is one global order, the one that a single process would have drawn, and
each mini-batch is cut into shards, so that mini-batches are the same whatever the number of
workers. `partitioned`: the samples are dealt out once, without overlap; each worker shuffles its
own part as often as the loader does, and an epoch ends for all as soon as one has run out.

What is exchanged is the batch sampler of the loader that the Trainer trains on, so any data module
will do whose loader draws batches of indices from a dataset that has a length.
"""

import copy
import itertools
from collections.abc import Callable, Iterator, Sized
from typing import Any, cast

import numpy as np
import pytorch_lightning as pl
from torch.utils.data import BatchSampler, DataLoader, IterableDataset

from twinrun.errors import TwinrunError
from twinrun.parallel.drawn_in_steps import DrawnInSteps
from twinrun.parallel.drawn_indices import Batches, Indices, checked, joined, not_sharded
from twinrun.parallel.own_draws import OwnDraws
from twinrun.parallel.own_request import exchange_for_trainer
from twinrun.parallel.sampler_looks import SamplerLooks, draws_at_once
from twinrun.parallel.workers import Workers


def shards(size: int, workers: int) -> list[int]:
    """Cut a mini-batch into one shard for each worker.

    >>> shards(130, 4)
    [33, 33, 32, 32]
    """
    return [size // workers + (rank < size % workers) for rank in range(workers)]


class ShardedBatches:
    """Stands in for a loader's batch sampler: yields this worker's shard of each mini-batch.

    `sizes` holds the shards of all workers, step by step, of the epoch that was begun last, as far
    as it is drawn, and `drawn_by_one` the samples of one process's; `lengths` the steps of an epoch
    of each loader made so far, this one's last. A worker whose shard is empty gets one sample all
    the same, to take part in every step; it counts nothing.
    """

    def __init__(self, set_epoch: Callable[[int], None] | None) -> None:
        self.sizes: list[list[int]] = []
        self.drawn_by_one = 0
        self.drawn = DrawnInSteps()
        self.unlike: set[str] = set()
        self.lengths: list[int] = []
        self.sampler = self  # where Lightning looks for `set_epoch`
        self._set_epoch = set_epoch

    def set_epoch(self, epoch: int) -> None:
        """Take the epoch's number; the sampler this one stands in for is told as well."""
        if self._set_epoch is not None:
            self._set_epoch(epoch)

    def __len__(self) -> int:
        """Return the steps of an epoch."""
        raise NotImplementedError


class CanonicalBatches(ShardedBatches):
    """Cuts the mini-batches of the one global order."""

    def __init__(
        self,
        batches: Batches,
        *,
        scale: int,
        workers: Workers,
        set_epoch: Callable[[int], None] | None,
    ) -> None:
        """Cut `batches`, each `scale` of them first joined to one."""
        super().__init__(set_epoch)
        self.batch_sampler = batches  # where checkpoints look for what has a position
        self._scale = scale
        self._workers = workers
        # What is left at the end makes a smaller mini-batch, unless the loader drops such.
        self._drops = getattr(batches, "drop_last", False)
        self._length = len(batches) // scale if self._drops else -(-len(batches) // scale)
        # Each when it is asked for, as a loader does: steps and samples may have a say in it. Where
        # they cannot, or the mini-batches are others anyway, all in one exchange.
        self._at_once = len(batches) if scale > 1 or draws_at_once(batches) else 1
        self._looks = SamplerLooks(batches, workers)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Indices]:
        # Begun now, as a loader does: a sampler may draw where its iterator is made. The first
        # worker's generators are those of a single process; the others have their own.
        drawn = iter(self.batch_sampler) if self._workers.is_first else iter(())
        return self._shards(map(checked, drawn))

    def _shards(self, drawn: Iterator[Indices]) -> Iterator[Indices]:
        rank, number = self._workers.rank, 0
        while whole := self._next(drawn, number):
            for batch in whole:
                sizes = shards(len(batch), self._workers.count)
                start = sum(sizes[:rank])
                # A worker without a backward pass would leave the others waiting for its gradients.
                yield batch[start : start + sizes[rank]] if sizes[rank] else batch[:1]
            number += len(whole)

    def _next(self, drawn: Iterator[Indices], number: int) -> list[Indices]:
        """Draw the next mini-batch, or all of the epoch, and tell the others."""
        self.unlike |= self._looks.unlike(number)
        with self.drawn.data(number=number):
            found = [*itertools.islice(drawn, self._at_once)]
        if found:
            self._looks.drew(number)
        order = self._workers.first(found)
        if number == 0:
            self.sizes, self.drawn_by_one = [], 0
        self.drawn_by_one += sum(map(len, order))
        kept = len(order) - len(order) % self._scale if self._drops else len(order)
        whole = [joined(order[n : n + self._scale]) for n in range(0, kept, self._scale)]
        self.sizes += [shards(len(batch), self._workers.count) for batch in whole]
        return whole


class PartitionedBatches(ShardedBatches):
    """Keeps of the order that is drawn each epoch what lies in this worker's own part."""

    def __init__(
        self,
        batches: BatchSampler,
        *,
        samples: int,
        scale: int,
        seed: int,
        workers: Workers,
        set_epoch: Callable[[int], None] | None,
    ) -> None:
        """Deal out `samples` samples by chance."""
        super().__init__(set_epoch)
        size = batches.batch_size * scale
        own_sizes = shards(size, workers.count)
        if not all(own_sizes):
            raise TwinrunError(
                f"sharding: partitioned: a mini-batch of {size} is not enough for {workers.count} "
                f"workers; make it {workers.count} or more, or say canonical"
            )
        self.batch_sampler = batches
        self.order = batches.sampler
        self._workers = workers
        self._size = own_sizes[workers.rank]
        self._samples = samples
        self.drawn_by_one = samples - samples % batches.batch_size * batches.drop_last
        # Dealt in turn and then permuted: shards differ by one sample at most.
        owners = np.arange(samples) % workers.count
        self._is_own = np.random.default_rng(seed).permutation(owners) == workers.rank
        steps = [
            [min(own, part - start) for start in range(0, part, own)]
            for part, own in zip(shards(samples, workers.count), own_sizes, strict=True)
        ]
        if batches.drop_last:
            steps = [[s for s in cut if s == cut[0]] for cut in steps]
        # An epoch ends for all as soon as one of them has run out.
        self.sizes = [list(step) for step in zip(*steps, strict=False)]

    def __len__(self) -> int:
        return len(self.sizes)

    def __iter__(self) -> Iterator[list[int]]:
        # Every worker draws, so that each sampler moves on; the first one's order counts.
        order = np.array(self._workers.first(list(self.order)))
        self.drawn.leave_out()
        # An index beyond the samples names a sample again, in a later epoch: see workloads.order.
        own = order[self._is_own[order % self._samples]].tolist()
        # By the samples themselves: drawn with replacement, a worker's may be as many by chance.
        if len(np.unique(order % self._samples)) != len(order):
            raise not_sharded("draws some samples more than once, which no partition allows")
        for step in range(len(self)):
            yield own[step * self._size : (step + 1) * self._size]


def shard_training(
    data: pl.LightningDataModule,
    *,
    sharding: str,
    scale_batch: bool,
    seed: int,
    workers: Workers,
    draws: OwnDraws,
) -> list[ShardedBatches]:
    """Have the data module's training loader yield this worker's shards.

    Args:
        data: of its training loader the Trainer gets shards.
        sharding: `canonical` or `partitioned`.
        scale_batch: make mini-batches as many times larger as there are workers.
        seed: of the run.
        workers: this worker and the others.
        draws: of random numbers; what reads shards draws a worker's own.

    Returns:
        A list that holds the sharded batches once the loader has been made.

    Raises:
        TwinrunError: when the loader is made, if it cannot be sharded.
    """
    made: list[ShardedBatches] = []
    scale = workers.count if scale_batch else 1

    def shard(loader: Any, trainer: pl.Trainer) -> DataLoader:
        found, batches = sharded(loader, sharding=sharding, scale=scale, seed=seed, workers=workers)
        draws.prepare(found, trainer)
        batches.drawn, batches.unlike = draws.drawn, draws.unlike
        batches.lengths = [*(made[0].lengths if made else []), len(batches)]
        # In place, since the callers hold this list.
        made[:] = [batches]
        return found

    # Where the mini-batches are others, a module that asks how many there are is told of these.
    is_same = sharding == "canonical" and scale == 1
    exchange_for_trainer(data, shard, shows_own=is_same)
    return made


def sharded(
    loader: DataLoader, *, sharding: str, scale: int, seed: int, workers: Workers
) -> tuple[DataLoader, ShardedBatches]:
    """Return a loader that yields this worker's shards of another one, which stays as it is."""
    key = _name_of_sampler(loader)
    batches = getattr(loader, key)
    # What Lightning would tell the epoch to, were it not for us.
    told = getattr(batches, "sampler", None) if key == "batch_sampler" else batches
    # A user's own, as `use_distributed_sampler=False` wants it.
    if getattr(told, "num_replicas", 1) != 1:
        raise not_sharded(
            f"has a {type(told).__name__}, which gives each worker a part of the samples; Twinrun "
            f"cuts the mini-batches of one process itself: leave that sampler out"
        )
    options = {
        "scale": scale,
        "workers": workers,
        "set_epoch": getattr(told, "set_epoch", None),
    }
    if sharding == "canonical":
        drawn = CanonicalBatches(batches, **options)
    else:
        samples = _check_partition(loader, batches)
        drawn = PartitionedBatches(batches, samples=samples, seed=seed, **options)
    # The module may hand out the same loader for validation too, or once more.
    own = copy.copy(loader)
    # DataLoader refuses this by assignment, for fear of a sampler of another kind. Workers that it
    # keeps are of one loader.
    vars(own).update({key: drawn, "_iterator": None})
    return own, drawn


def _check_partition(loader: DataLoader, batches: object) -> int:
    """Return the number of samples, if every one of them is drawn once an epoch."""
    if not isinstance(batches, BatchSampler):
        raise not_sharded(
            f"draws from a {type(batches).__name__}, where a partition needs torch's BatchSampler"
        )
    # torch's types promise no length; a loader without one has been refused before.
    samples, drawn = len(cast(Sized, loader.dataset)), len(cast(Sized, batches.sampler))
    if samples != drawn:
        raise not_sharded(f"draws {drawn} of {samples} samples, where a partition needs them all")
    return samples


def _name_of_sampler(loader: DataLoader) -> str:
    """Name the attribute of a loader that yields batches of indices."""
    # A subclass that iterates in its own way need not look at its batch sampler.
    if type(loader).__iter__ is not getattr(DataLoader, "__iter__", None):
        kind = type(loader).__name__
        raise not_sharded(f"is a {kind}, and what can be sharded is a torch DataLoader")
    if isinstance(loader.dataset, IterableDataset):
        raise not_sharded("reads an iterable dataset, and what can be sharded has indices")
    # With batch_size=None torch has no batch sampler: what the sampler yields makes a batch.
    key = "sampler" if loader.batch_sampler is None else "batch_sampler"
    if not hasattr(getattr(loader, key), "__len__"):
        raise not_sharded(f"has a {key} without a length")
    return key
