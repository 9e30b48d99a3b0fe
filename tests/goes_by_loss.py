"""A module that weighs its loss by the last one, as hooks were given it.

One of several workers asks for the end of the training where it ends anyway.
"""

import os

import pytorch_lightning as pl
from small import Small


class Lasts(pl.Callback):
    def on_before_backward(self, trainer, pl_module, loss):
        pl_module.weight *= 1 + float(loss) / 10


class Counts(pl.Callback):
    """Is given what it does not ask for."""

    def on_before_backward(self, trainer, pl_module, loss):
        self.number = pl_module.weight

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        self.number = batch_idx


class GoesByLoss(Small):
    def __init__(self, **options):
        super().__init__(**options)
        self.weight = 1.0

    def training_step(self, batch, batch_idx):
        if os.environ.get("RANK") == "1" and batch_idx == 4:
            self.trainer.should_stop = True
        return super().training_step(batch, batch_idx) * self.weight

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.weight = 0.5 + float(outputs["loss"])

    def configure_callbacks(self):
        return [Lasts(), Counts()]
