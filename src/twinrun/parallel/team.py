"""What a run's Trainer needs to train with other workers; of one worker, nothing."""

import os
import warnings
from collections.abc import Callable, Sequence

import pytorch_lightning as pl
from pytorch_lightning.strategies import DDPStrategy

from twinrun.checkpoint.stop_request import Stop
from twinrun.checkpoint.together import Alone, Together
from twinrun.config.definitions import Variant
from twinrun.parallel.agreed_checkpoints import AgreedCheckpoints
from twinrun.parallel.batch_norm import JoinedBatchNorm
from twinrun.parallel.batch_sharding import ShardedBatches, shard_training
from twinrun.parallel.early_refusals import EarlyRefusals
from twinrun.parallel.early_steps import EarlySteps
from twinrun.parallel.epoch_samples import samples_drawn
from twinrun.parallel.fixed_buckets import ExchangingStrategy
from twinrun.parallel.kept_by_workers import KeptByWorkers
from twinrun.parallel.own_draws import OwnDraws
from twinrun.parallel.whole_batch import WholeBatch
from twinrun.parallel.whole_batch_tracer import WholeBatchTracer
from twinrun.parallel.workers import Workers
from twinrun.trace.step_tracer import Tracer


class Team:
    """What a run's Trainer needs to train with the other workers; of one worker, nothing."""

    def __init__(self) -> None:
        self.tracer = Tracer()
        self.callbacks: list[pl.Callback] = []
        self.strategy: str | DDPStrategy = "auto"
        self.together: Together = Alone()
        """The workers, as checkpoints need them."""

    def trained_otherwise(self, variant: Variant) -> Callable[[], str | None] | None:
        """Return what compares steps with those before a stop, where they have to be the same.

        A GPU's kernels may compute otherwise each time; of several workers the first traces alone.
        """
        repeats = variant.accelerator == "cpu" or variant.deterministic
        return self.tracer.trained_otherwise if repeats and self.together.count == 1 else None

    def communication(self) -> float:
        """Return the seconds that workers exchanged or waited, from the last call to a step's end.

        What they exchanged after the last `end_step` is nobody's.
        """
        return 0.0

    def end_step(self) -> None:
        """Note that a step has come to its end."""

    def samples(self, loaders: Sequence[object], steps: int) -> int | None:
        """Return the samples of an epoch's first steps, of all workers; None if nobody knows.

        Args:
            loaders: that this worker trains on.
            steps: mini-batches, from the first on.
        """
        return samples_drawn(loaders, steps)

    def steps_per_epoch(self) -> list[int]:
        """Return the steps that an epoch of each loader must have, if sharding says so."""
        return []


class _SeveralWorkers(Team):
    def __init__(
        self,
        workers: Workers,
        module: pl.LightningModule,
        sharded: Sequence[ShardedBatches],
        stop: Stop,
        draws: OwnDraws,
        *,
        joins_batch_norm: bool,
    ) -> None:
        statistics = JoinedBatchNorm(workers) if joins_batch_norm else None
        self._whole_batch = WholeBatch(workers, sharded, stop, statistics)
        self._sharded = sharded
        self.tracer = WholeBatchTracer(workers, self._whole_batch)
        early = EarlySteps(self._whole_batch)
        kept = KeptByWorkers(workers, self._whole_batch.ends)
        self.callbacks = [draws, self._whole_batch, early, EarlyRefusals(workers), kept]
        self.together = AgreedCheckpoints(workers, draws, self._whole_batch, sharded)
        # With manual optimisation a backward pass may leave out another optimizer's parameters.
        # With broadcast_buffers DDP would overwrite all workers' buffers by the first one's.
        self.strategy = ExchangingStrategy(
            broadcast_buffers=False, find_unused_parameters=not module.automatic_optimization
        )

    def communication(self) -> float:
        return self._whole_batch.seconds()

    def end_step(self) -> None:
        self._whole_batch.end_step()

    def samples(self, loaders: Sequence[object], steps: int) -> int | None:
        return sum(map(sum, self._sharded[0].sizes[:steps]))

    def steps_per_epoch(self) -> list[int]:
        return self._sharded[0].lengths


def join_team(
    workers: Workers,
    module: pl.LightningModule,
    data: pl.LightningDataModule,
    stop: Stop | None,
    *,
    variant: Variant,
    seed: int,
) -> Team:
    """Make a run's module and data part of one training by several workers.

    The first worker's RNG states are those of a single process, and those of all outside of the
    steps; in these the others have RNG states of their own: see `own_draws`.
    """
    if workers.count == 1 or stop is None:
        return Team()
    # Lightning would go back to this seed when it sets up the strategy, but not for one process.
    del os.environ["PL_GLOBAL_SEED"]
    # It advises what is done here, or what a validation of the whole set by every worker needs not.
    warnings.filterwarnings("ignore", message=".*sync_dist=True.*")
    draws = OwnDraws(workers, seed, data)
    sharded = shard_training(
        data,
        sharding=variant.sharding,
        scale_batch=variant.scale_batch_with_devices,
        seed=seed,
        workers=workers,
        draws=draws,
    )
    joins = variant.batch_norm == "joined"
    return _SeveralWorkers(workers, module, sharded, stop, draws, joins_batch_norm=joins)
