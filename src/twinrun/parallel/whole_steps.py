"""The trace of mini-batches that are cut into micro-batches."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytorch_lightning as pl
import torch

from twinrun.parallel.asked_ends import AskedEnds
from twinrun.parallel.counters_read import counters_read
from twinrun.parallel.drawn_in_steps import DrawnInSteps
from twinrun.parallel.kept_by_parts import KeptByParts
from twinrun.parallel.logged_sizes import LoggedSizes
from twinrun.parallel.micro_batch_logs import aggregated_by, logged_of_parts
from twinrun.parallel.micro_batches import MicroBatches
from twinrun.parallel.moved_tensors import MovedTensors
from twinrun.parallel.read_outputs import readers
from twinrun.parallel.seen_of_parts import seen_of_parts
from twinrun.returned_loss import loss_of
from twinrun.trace.step_tracer import Tracer
from twinrun.wording import some

PART = ("accumulate", "micro-batch")
"""The setting that cuts mini-batches, and what it makes of them."""


class SeenInSteps(NamedTuple):
    """What looks at each micro-batch's step."""

    moved: MovedTensors
    """At parameters, buffers and settings of optimizers."""
    kept: KeptByParts
    """At plain attributes, and at what normalises."""
    ends: AskedEnds
    """At who asks for the end of the training."""


class WholeSteps(Tracer):
    """Traces steps as if the mini-batches had not been cut."""

    def __init__(
        self,
        made: list[MicroBatches],
        seen: SeenInSteps,
        sizes: LoggedSizes,
        drawn: DrawnInSteps,
        of_last: set[str],
    ) -> None:
        super().__init__()
        self._made, self._seen, self._sizes = made, seen, sizes
        self._drawn, self._of_last = drawn, of_last
        self._losses: list[torch.Tensor | None] = []
        self._is_ending = self._has_gaps = False

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Look at what steps draw."""
        self._drawn.watch(trainer)

    def on_before_backward(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, loss: torch.Tensor
    ) -> None:
        """End the part of a step that draws for samples."""
        self._drawn.begin_backward()

    def on_before_optimizer_step(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, optimizer: object
    ) -> None:
        """End the step of the last part; the update is the mini-batch's."""
        super().on_before_optimizer_step(trainer, pl_module, optimizer)
        self._drawn.end_step()

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: object, batch_idx: int
    ) -> None:
        """Begin a step with its first micro-batch."""
        step, index = divmod(batch_idx, self._made[0].number)
        if index == 0 or not self._start:  # a training may be resumed between two of them
            self._losses = []
            # The Trainer converts each micro-batch and never sees the whole one.
            whole = trainer.precision_plugin.convert_input(self._made[0].whole)
            super().on_train_batch_start(trainer, pl_module, whole, step)
        if index == self._made[0].number - 1 and self._is_ending:
            trainer.should_stop, self._is_ending = True, False

    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: object,
        batch: object,
        batch_idx: int,
    ) -> None:
        """End it with its last one; Lightning has divided each loss by their number."""
        self._losses.append(loss_of(outputs))
        step, index = divmod(batch_idx, self._made[0].number)
        if index == self._made[0].number - 1:
            given = [loss for loss in self._losses if loss is not None]
            self._has_gaps |= 0 < len(given) < len(self._losses)
            total = torch.stack(given).sum() if given else None
            super().on_train_batch_end(trainer, pl_module, total, self._made[0].whole, step)
        elif trainer.should_stop:
            # Lightning would leave its loop within the mini-batch.
            trainer.should_stop, self._is_ending = False, True

    def not_of_whole(self, module: pl.LightningModule) -> Iterator[str]:
        """Say what of the training is that of its micro-batches."""
        if names := logged_of_parts(module):
            what = (
                f"values of a step's last micro-batch (torchmetrics logged as {', '.join(names)})"
            )
            yield f"in part, accumulate logs {what}; log them with on_step=False"
        yield from counters_read(module.trainer, module)
        if self._has_gaps:
            yield (
                "in part, accumulate trains on parts of mini-batches: of some micro-batches "
                "training_step gives no loss, of others of the same mini-batch it does"
            )
        aggregated = aggregated_by(module)
        yield from seen_of_parts(module, aggregated, setting="accumulate", part="micro-batch")
        if self._of_last:
            yield (
                f"in part, accumulate gives hooks ({some(sorted(self._of_last))}) what "
                f"training_step returns of the last micro-batch, but for the loss"
            )
        if names := readers(module.trainer, module, "on_before_backward"):
            yield (
                f"in part, accumulate gives hooks ({some(names)}) the loss of each micro-batch, "
                f"which is its part of the mini-batch's"
            )
        found = (self._seen.moved.sentence, self._seen.ends.sentence)
        for sentence in (*found, self._sizes.sentence("accumulate")):
            if sentence is not None:
                yield sentence
        if (normalising := self._seen.kept.normalising) is not None:
            yield normalising
        yield from self._drawn.sentences(*PART)

    def kept(self) -> Iterator[str]:
        """Say what steps keep of micro-batches, whether or not it matters."""
        if (sentence := self._seen.kept.sentence) is not None:
            yield sentence

    def of_batches(self) -> Iterator[str]:
        """Say in what mini-batches may be others."""
        yield from self._drawn.of_batches("accumulate", "micro-batch")

    def state_dict(self) -> dict[str, Any]:
        """Return the tables so far, and what is not of the whole mini-batches."""
        moved, kept, ends = self._seen
        own = {"sizes": self._sizes.state(), "moved": moved.state(), "gaps": self._has_gaps}
        more = {"drawn": self._drawn.state(), "of_last": sorted(self._of_last)}
        seen = {"kept": kept.state(), "ends": ends.is_by_part}
        return {**super().state_dict(), **own, **more, **seen}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take what a checkpoint has of it."""
        super().load_state_dict(state_dict)
        self._sizes.load(state_dict["sizes"])
        self._seen.moved.load(state_dict["moved"])
        self._has_gaps = state_dict["gaps"]
        self._drawn.load(state_dict["drawn"])
        self._of_last.update(state_dict.get("of_last", ()))  # one of an older version has none
        if "kept" in state_dict:
            self._seen.kept.load(state_dict["kept"])
            self._seen.ends.is_by_part |= state_dict["ends"]
