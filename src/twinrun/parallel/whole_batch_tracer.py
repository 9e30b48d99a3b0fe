"""The steps of several workers traced as one: batch and loss are those of the whole mini-batch."""

from typing import Any

import pytorch_lightning as pl
import torch

from twinrun.copied_batches import with_tensors
from twinrun.parallel.joined_batch import counted_by_lightning, put_together
from twinrun.parallel.whole_batch import WholeBatch
from twinrun.parallel.workers import Workers
from twinrun.trace.hash_kinds import kind_of_shards
from twinrun.trace.step_tracer import Tracer


class WholeBatchTracer(Tracer):
    """Fingerprints the whole mini-batch, at the first worker; gradients are the same at all."""

    def __init__(self, workers: Workers, whole_batch: WholeBatch) -> None:
        super().__init__()
        self._workers = workers
        self._whole_batch = whole_batch

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: object, batch_idx: int
    ) -> None:
        """Take the mini-batch's fingerprint, its shards put together, or else one after another."""
        # On the host, since it is pickled and sent by gloo.
        own = with_tensors(batch, torch.Tensor.cpu)
        # A worker whose shard is empty holds a sample that is another one's.
        found = self._workers.collect(own if self._workers.shard else None)
        if found:
            sizes = [size for size in self._workers.sizes if size]
            # Not by what they are: None may be a shard, too.
            shards = [each for each, size in zip(found, self._workers.sizes, strict=True) if size]
            whole, is_whole = put_together(shards, sizes)
            self._whole_batch.counted = counted_by_lightning(whole, sizes, is_whole=is_whole)
            self._batch.kind = 0 if is_whole else kind_of_shards(self._workers.count)
            super().on_train_batch_start(trainer, pl_module, whole, batch_idx)

    def on_before_optimizer_step(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, optimizer: object
    ) -> None:
        """Take the fingerprints of the gradients, which are summed by now."""
        if self._workers.is_first:
            super().on_before_optimizer_step(trainer, pl_module, optimizer)

    def end_update(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, optimizer: object
    ) -> None:
        """Take them where Lightning did not announce the update, which is the same everywhere."""
        if self._workers.is_first:
            super().end_update(trainer, pl_module, optimizer)

    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: object,
        batch: object,
        batch_idx: int,
    ) -> None:
        """Add the step's row, with the whole mini-batch's loss."""
        if self._workers.is_first:
            loss = self._whole_batch.loss
            self.own_gradients = self._whole_batch.own_gradients
            self.own_kind = self._whole_batch.own_kind
            super().on_train_batch_end(trainer, pl_module, loss, batch, batch_idx)

    def state_dict(self) -> dict[str, Any]:
        """Return the tables so far, which the first worker has."""
        return super().state_dict() if self._workers.is_first else {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take them; from Lightning's checkpoint, which is the first worker's, none of it."""
        if self._workers.is_first:
            super().load_state_dict(state_dict)
