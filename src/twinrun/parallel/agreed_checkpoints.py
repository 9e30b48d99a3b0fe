"""Several workers on the CPUs of one machine, as their checkpoints need them."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import pytorch_lightning as pl
import torch
from torch.distributed.optim import ZeroRedundancyOptimizer

from twinrun.parallel.batch_sharding import ShardedBatches
from twinrun.parallel.fixed_buckets import ExchangingStrategy
from twinrun.parallel.own_draws import OwnDraws
from twinrun.parallel.whole_batch import WholeBatch
from twinrun.parallel.workers import Workers
from twinrun.process.determinism import RNGStates

Told = TypeVar("Told")


class AgreedCheckpoints:
    """This worker and the others: see `checkpoint.together`."""

    def __init__(
        self,
        workers: Workers,
        draws: OwnDraws,
        whole_batch: WholeBatch,
        sharded: Sequence[ShardedBatches],
    ) -> None:
        self._workers, self._draws, self._whole_batch = workers, draws, whole_batch
        self._sharded = sharded

    @property
    def rank(self) -> int:
        """This worker's number, from 0."""
        return self._workers.rank

    @property
    def count(self) -> int:
        """How many they are."""
        return self._workers.count

    def first(self, value: Told) -> Told:
        """Return the first worker's picklable value to everyone."""
        return self._workers.first(value)

    def firsts_number(self, value: float) -> float:
        """Return the first worker's number to everyone."""
        return float(self._workers.gather(torch.tensor([value], dtype=torch.float64))[0, 0])

    def everyones(self, value: Told) -> list[Told]:
        """Return every worker's picklable value to everyone."""
        return self._workers.everyones(value)

    def random_of_steps(self) -> RNGStates:
        """Return the RNG states by which this worker draws next in its steps."""
        return self._draws.states()

    def as_one(self) -> AbstractContextManager[None]:
        """Draw the first worker's numbers in the body, also in the midst of steps."""
        return self._draws.everyones()

    def hindrances(self, trainer: pl.Trainer) -> Iterator[str]:
        """Say what stands against ending in the same bits."""
        if trainer.strategy.root_device.type != "cpu":
            yield "several workers train on GPUs, where it is not known how a new process sums"
        if trainer.num_nodes > 1:
            yield "several workers train on several machines, not on the CPUs of one"
        for optimizer in trainer.optimizers:
            if isinstance(optimizer, ZeroRedundancyOptimizer):
                yield "ZeroRedundancyOptimizer has a part of its state at each worker"
        strategy = trainer.strategy
        if not isinstance(strategy, ExchangingStrategy) or not strategy.has_fixed_buckets:
            yield (
                f"{type(strategy).__name__} sums gradients in buckets that a new process may make "
                f"otherwise"
            )
        if self._whole_batch.logs.notes():
            yield "values wait to be joined that workers have logged between two steps"

    def state(self) -> dict[str, Any]:
        """Return its RNG states for steps, what it saw of `batch_size`, and lengths of epochs."""
        return {
            "random": self._draws.states(),
            "sizes": self._whole_batch.logs.sizes.state(),
            "lengths": list(self._sharded[0].lengths),
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Take what `state` gave."""
        self._draws.take(state["random"])
        self._whole_batch.logs.sizes.load(state["sizes"])
        # Of the loaders that were made by then; the epoch's own is the last of them, here as there.
        self._sharded[0].lengths = list(state["lengths"])
