"""Who asks for the end of a training within a step: a part of a mini-batch, by its own loss say.

A step of the whole mini-batch has one loss. Of its parts each has another, and the first that is
low enough would end the training.
"""

import functools
from collections.abc import Callable, Sequence

import pytorch_lightning as pl
import torch
from pytorch_lightning.utilities.types import STEP_OUTPUT

from twinrun.parallel.micro_batches import MicroBatches


class AskedEnds:
    """Notes whether parts of one mini-batch have asked for the end where others have not."""

    def __init__(self, setting: str, part: str) -> None:
        self.is_by_part = False
        """Whether they have."""
        self._setting, self._part = setting, part
        self._asked: list[bool] = []

    @property
    def sentence(self) -> str | None:
        """Say it; None if it has not been seen."""
        if not self.is_by_part:
            return None
        return (
            f"in part, {self._setting} has the training end where one {self._part} asks for it "
            f"(trainer.should_stop) and others of the mini-batch do not: by the loss of the whole "
            f"mini-batch it may go on"
        )

    def agreed(self, asked: torch.Tensor) -> bool:
        """Return whether a worker asks for the end: it ends the training for all.

        Args:
            asked: (N,) whether each worker does.
        """
        is_asked = bool(asked.any())
        self.is_by_part |= is_asked and not bool(asked.all())
        return is_asked

    def watch(self, module: pl.LightningModule, made: Sequence[MicroBatches]) -> None:
        """Look at what the steps of micro-batches ask for."""
        step = module.training_step

        # Lightning reads the signature of `training_step` to choose what it hands over.
        @functools.wraps(step)
        def training_step(*arguments: object, **options: object) -> STEP_OUTPUT:
            if module._current_fx_name != "training_step":  # a module may evaluate by it
                return step(*arguments, **options)
            return self._of_step(step, module, made[0], *arguments, **options)

        module.training_step = training_step

    def _of_step(
        self,
        step: Callable[..., STEP_OUTPUT],
        module: pl.LightningModule,
        batches: MicroBatches,
        *arguments: object,
        **options: object,
    ) -> STEP_OUTPUT:
        trainer = module.trainer
        before = trainer.should_stop
        # Asked for already, it would hide who asks.
        trainer.should_stop = False
        try:
            return step(*arguments, **options)
        finally:
            if batches.part == 0:
                self._asked.clear()
            self._asked.append(trainer.should_stop)
            trainer.should_stop = before or trainer.should_stop
            if batches.is_last:
                self.is_by_part |= any(self._asked) and not all(self._asked)
