"""What belongs to a whole mini-batch when several workers shard it: gradients, loss, metrics.

Worker j holds m_j of the mini-batch's M samples. Its gradients, its loss and what its training step
logs count with weight w_j = m_j / M, so that the sums over the workers are those of the whole
mini-batch. This holds for losses and metrics that are means over the samples; a sum over them would
need weight 1.

DistributedDataParallel does the exchange of gradients, with a hook that weighs them where the loss
was not (`weighed_loss`). Buffers are not broadcast from the first worker: for batch normalisation
see `batch_norm`, other buffers are the first worker's own.
"""

import functools
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, cast

import pytorch_lightning as pl
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torchmetrics import Metric

from twinrun.checkpoint.stop_request import Stop
from twinrun.errors import TwinrunError
from twinrun.parallel.asked_ends import AskedEnds
from twinrun.parallel.batch_norm import JoinedBatchNorm, check_buffers
from twinrun.parallel.batch_sharding import ShardedBatches
from twinrun.parallel.exchange_times import Mark, covered, in_seconds, mark
from twinrun.parallel.joined_logs import JoinedLogs, is_users, not_synchronised
from twinrun.parallel.joint_optimizers import check_optimizers
from twinrun.parallel.log_arguments import log_arguments
from twinrun.parallel.weighed_loss import WeighedLoss
from twinrun.parallel.workers import Workers
from twinrun.parameters import trained_in
from twinrun.returned_loss import loss_of
from twinrun.trace.fingerprints import join, joined
from twinrun.trace.pending import fetch, kind_of, value_of
from twinrun.trace.step_fingerprints import StepFingerprints


class WholeBatch(pl.Callback):
    """Weighs gradients and logged values by the shards, and holds the one exchange after a step."""

    def __init__(
        self,
        workers: Workers,
        sharded: Sequence[ShardedBatches],
        stop: Stop,
        statistics: JoinedBatchNorm | None,
    ) -> None:
        self.loss: torch.Tensor | None = None
        """The loss of the last step's whole mini-batch."""
        self.own_gradients = 0
        """A fingerprint of every worker's gradients of the last step, before they were summed."""
        self.own_kind = 0
        """By which hash: see `trace.hash_kinds`."""
        self.counted = 0
        """What Lightning takes for the size of the mini-batch under way, at the first worker; 0
        where that is not known."""
        self.ends = AskedEnds("devices", "shard")
        """Who has asked for the end of the training."""
        self._workers, self.sharded = workers, sharded
        self._stop, self._statistics = stop, statistics
        self._own_gradients: list[torch.Tensor] = []
        self._intervals: list[tuple[Mark, Mark]] = []
        self._losses = WeighedLoss(workers)
        self._is_in_step = self._is_epoch_over = False
        self._alone = ExitStack()
        self._trained: dict[torch.nn.Parameter, str] = {}
        self._steps, self._next_check = 0, 1
        self._until_end = 0.0, 0

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Weigh the gradients, and stand between the module and its log.

        Raises:
            TwinrunError: if the workers cannot step the optimizers together.
        """
        check_optimizers(trainer, pl_module)
        # Under DDP it is the DistributedDataParallel that wraps the module. Lightning itself
        # registers such hooks on GPUs only; torch takes one, before the first backward pass.
        cast(DistributedDataParallel, trainer.strategy.model).register_comm_hook(
            self, _weighted_sum
        )
        self._losses.watch(pl_module)
        self._steps, self._next_check = 0, 1
        self._trained = trained_in(pl_module)  # DDP has been made, with these
        log = pl_module.log
        self.logs = JoinedLogs(self._workers, pl_module, log)
        pl_module.log = self._noted(self.logs, log, trainer)
        for callback in vars(trainer)["callbacks"]:
            if vars(callback).get("log") == log:  # Lightning has handed them the module's
                callback.log = pl_module.log
        hooks = ["on_train_start", "on_train_epoch_start", "on_train_epoch_end"]
        hooks.append("on_validation_end")  # for who ends the training: nothing is joined there
        # After all callbacks' hooks; asked for only where code may log by then.
        late = "on_train_batch_end"
        if any(is_users(getattr(each, late)) for each in (pl_module, *vars(trainer)["callbacks"])):
            hooks.append(late)
        for hook in hooks:
            setattr(pl_module, hook, self._then_joined(hook, pl_module))

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Join again what is logged."""
        self._is_epoch_over = False

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: object, batch_idx: int
    ) -> None:
        """Take the shards of the mini-batch.

        Raises:
            TwinrunError: if the module trains other parameters than it began with.
        """
        # Here, before a training is spent on it: hooks of the epoch have been called by now.
        trained = trained_in(pl_module)  # a parameter may have another name by now
        if changed := trained.keys() ^ self._trained.keys():
            name = min({**self._trained, **trained}[parameter] for parameter in changed)
            raise TwinrunError(
                f"devices: {name} was frozen, unfrozen, added or taken away under way, and "
                f"workers exchange the gradients of what was trained at the start; train with "
                f"devices: 1"
            )
        self._workers.sizes = self.sharded[0].sizes[batch_idx]
        self._own_gradients.clear()
        if self._statistics is not None and not self._is_in_step:
            self._statistics.watch(pl_module)  # hooks may have made layers, or copies of them
        self.logs.aggregated.begin()
        self._is_in_step = True

    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: object,
        *_: object,
        **__: object,
    ) -> None:
        """Exchange the loss, the statistics of batch normalisation and requests to stop."""
        self.logs.aggregated.end()
        loss = loss_of(outputs)
        weight = self._workers.weight
        # Not 0 * loss: the loss of a sample that counts nothing may be NaN.
        weighted = float(loss) * weight if weight and loss is not None else 0.0
        # A fingerprint's two halves: float64 holds 53 bits.
        buckets = {str(n): bucket for n, bucket in enumerate(self._own_gradients)}
        own = joined(StepFingerprints().tensors(buckets).values())
        fetch([own])
        halves = divmod(value_of(own), 2**32)
        self.own_kind = kind_of(own)
        # All in one exchange, since each waits for the slowest worker.
        seen = self._exchange([self._stop.asked(), weighted, *halves, trainer.should_stop])
        self._stop.agree(seen[:, 0].tolist())
        self.loss = None if loss is None else seen[:, 1].sum().to(loss.dtype)
        self.own_gradients = join([int(half) for half in seen[:, 2:4].flatten().tolist()])
        # A module that ends the training ends it for all: the others would wait for its gradients.
        trainer.should_stop = self.ends.agreed(seen[:, 4])
        self._steps += 1
        # A check is an exchange: after steps 1, 2, 4, 8, ..., and at the end of each epoch, since a
        # running mean may begin after a warm-up.
        if self._steps == self._next_check:
            check_buffers(pl_module, self._workers)
            self._next_check *= 2

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Let every worker measure alone, since each validates on the whole set."""
        self._is_in_step = False
        self._alone.enter_context(not_synchronised(pl_module))

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Have the metrics of the training summed up over the workers again."""
        self._alone.close()

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Make sure that all workers keep the same buffers."""
        # Not where a step ends: the module's own hook, which may log, is called after this one's.
        self._is_in_step = False
        check_buffers(pl_module, self._workers)

    def on_test_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Let every worker measure alone, since each tests on the whole set."""
        self._alone.enter_context(not_synchronised(pl_module))

    def on_test_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Put back how the metrics are summed up."""
        self._alone.close()

    def on_predict_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Let every worker predict alone: a module may keep metrics of it."""
        self._alone.enter_context(not_synchronised(pl_module))

    on_predict_end = on_test_end

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Make sure of it once more, also of a training that was stopped in mid-epoch."""
        check_buffers(pl_module, self._workers)

    def seconds(self) -> float:
        """Return the seconds from the last call to `end_step` in which they exchanged or waited."""
        exchanged, count = self._until_end
        seconds = exchanged + covered(in_seconds(self._intervals[:count]))
        self._workers.seconds = 0.0
        self._intervals.clear()
        self._until_end = 0.0, 0
        return seconds

    def end_step(self) -> None:
        """Note how much was exchanged so far; no more, as to ask a GPU would hold it up."""
        self._until_end = self._workers.seconds, len(self._intervals)

    def weighted_sum(self, gradients: torch.Tensor) -> torch.futures.Future[torch.Tensor]:
        """Begin to sum gradients over the workers, weighted by their shards."""
        # A clone, since what follows changes DDP's bucket in place.
        self._own_gradients.append(gradients.clone())
        started = mark(gradients.device)
        # DDP does not divide by the number of workers what a hook returns: the weights do.
        future = dist.all_reduce(gradients.mul_(self._losses.left), async_op=True).get_future()

        def ended(future: torch.futures.Future[list[torch.Tensor]]) -> torch.Tensor:
            # An exchange may end while the backward pass still fills other buckets.
            self._intervals.append((started, mark(gradients.device)))
            return future.value()[0]

        return future.then(ended)

    def _noted(
        self, logs: JoinedLogs, log: Callable[..., None], trainer: pl.Trainer
    ) -> Callable[..., None]:
        """Return a log of the training that exchanges nothing: it is joined later."""

        def noted(name: str, value: object, *flags: Any, **options: Any) -> None:
            options = log_arguments(trainer.lightning_module, flags, options)
            if trainer.training and not options.get("rank_zero_only") and not self._is_epoch_over:
                logs.note(name, value, options, self._is_in_step)
                return
            if isinstance(value, Metric) and not trainer.training:
                self._alone.enter_context(not_synchronised(value))  # no submodule, perhaps
            # Every worker validates on the whole set, so that no exchange is needed there.
            options["sync_dist"] = trainer.training
            log(name, value, **options)

        return noted

    def _then_joined(self, name: str, pl_module: pl.LightningModule) -> Callable[..., object]:
        """Return a hook of the module's that joins what was logged and who ends the training."""
        hook = getattr(pl_module, name)

        @functools.wraps(hook)
        def joined(*arguments: object, **options: object) -> object:
            found = hook(*arguments, **options)
            if self._is_in_step:  # such a hook is given a shard, too
                self.logs.aggregated.end()
            trainer = pl_module.trainer
            # As at the end of a step, behind which this hook of one worker may have asked for it.
            trainer.should_stop = self.ends.agreed(self._exchange([trainer.should_stop])[:, 0])
            # Callbacks that monitor come later in this hook, and are not waited for.
            self._is_epoch_over = name == "on_train_epoch_end"
            return found

        return joined

    def _exchange(self, own: Sequence[float]) -> torch.Tensor:
        """Exchange numbers, and join what workers logged and what their layers noted.

        Args:
            own: (k,) of this worker.

        Returns:
            Every worker's, (N, k) float64.

        Raises:
            TwinrunError: at every worker, if they called different layers or left out a metric.
        """
        called = 0 if self._statistics is None else self._statistics.called()
        # What comes next has a length that they must agree upon.
        agreed = [*divmod(self.logs.fingerprint(), 2**32), *divmod(called, 2**32)]
        told = [*own, self.counted]
        seen = self._workers.gather(torch.tensor([*told, *agreed], dtype=torch.float64))
        *are_same_logs, first, second = (seen == seen[:1]).all(0).tolist()[len(told) :]
        if not (first and second):
            raise TwinrunError(
                "devices: workers called different layers of batch normalisation in one step, "
                "whose statistics cannot be joined; call the same ones whatever a shard holds, or "
                "train with devices: 1"
            )
        if not all(are_same_logs):
            self.logs.complete(self._workers.everyones(self.logs.notes()))
        statistics = torch.empty(0) if self._statistics is None else self._statistics.noted()
        more = torch.cat([statistics.double(), self.logs.means()])
        found = self._workers.gather(more) if len(more) else more.expand(self._workers.count, 0)
        if self._statistics is not None:
            self._statistics.update(found[:, : len(statistics)])
        self.logs.hand_on(found[:, len(statistics) :], int(seen[0, len(own)]))
        return seen[:, : len(own)]


def _weighted_sum(state: WholeBatch, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Reduce one bucket of gradients: DDP's communication hook."""
    return state.weighted_sum(bucket.buffer())
