"""Training steps through Lightning's Trainer, clocked with the loop around them.

The Trainer is set up as a run's, but for what a run keeps: it fetches the batches from the data
module's loader, moves them, calls hooks and logs. The clock runs from the end of one step to the
end of another, so what a fit costs once stays outside. Several fits share one module and one
optimizer, as the rounds of a timing need it.
"""

import tempfile
from dataclasses import replace

import pytorch_lightning as pl
import torch
from pytorch_lightning.strategies import SingleDeviceStrategy
from torch.utils.benchmark import timer  # synchronises the device, then reads the clock

from twinrun.acceleration.under_trainer import Speed
from twinrun.config.definitions import Variant
from twinrun.training.assemble import trainer_of

LEAD_IN = 2  # steps before the clock starts: the loader fetches, the loop sets up


class TrainerLoop:
    """A module that is trained a few steps at a time."""

    def __init__(
        self,
        module: pl.LightningModule,
        data: pl.LightningDataModule,
        variant: Variant,
        device: torch.device,
    ) -> None:
        """Take over a module of one's own.

        Raises:
            TwinrunError: if the variant's settings contradict each other, the device or the
                optimizer.
        """
        self._module, self._data = module.to(device), data
        # The clock is for the training step alone.
        self._variant = replace(variant, validation=False, checkpointing=False, logging=False)
        self._device = device
        self._speed = Speed(self._module, variant)
        # Lightning asks in each fit anew, but the optimizer's state must last from round to round.
        configured = self._module.configure_optimizers()
        self._module.configure_optimizers = lambda: configured

    def seconds(self, steps: int) -> float:
        """Train on, and give the seconds of the last `steps` steps."""
        clock = _Clock(first=LEAD_IN, last=LEAD_IN + steps)
        with tempfile.TemporaryDirectory(prefix="twinrun-") as empty:
            trainer = trainer_of(
                self._variant,
                root=empty,
                callbacks=[self._speed, clock],
                strategy=_Staying(self._device),
                # Without a limit of epochs: the steps alone end the fit.
                max_epochs=-1,
                max_steps=LEAD_IN + steps,
            )
            trainer.fit(self._module, datamodule=self._data)
        return clock.seconds


class _Clock(pl.Callback):
    def __init__(self, *, first: int, last: int) -> None:
        self._first, self._last = first, last
        self._ended = 0
        self.seconds = 0.0

    def on_train_batch_end(self, *_: object, **__: object) -> None:
        self._ended += 1
        # From end to end of a step: what lies between two steps is inside, what begins a fit is
        # not.
        if self._ended == self._first:
            self._started = timer()
        elif self._ended == self._last:
            self.seconds = timer() - self._started


class _Staying(SingleDeviceStrategy):
    """Leaves the module on its device after a fit, where a captured graph expects it."""

    def teardown(self) -> None:
        pass
