"""A workload whose learning rate a callback of Lightning's finds ahead of the training."""

import pytorch_lightning as pl
import torch
from small import Points, Small
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics import MeanSquaredError


class Tries(Small):
    """Logs in every kind of hook, and its finder ends early, by the loss."""

    def __init__(self, learning_rate=0.1):
        super().__init__(learning_rate=learning_rate)
        self.errors = MeanSquaredError().set_dtype(torch.float64)

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        self.log("seen", loss, on_step=True, on_epoch=True)
        self.errors(self(batch[0]), batch[1])
        self.log("errors", self.errors, on_step=False, on_epoch=True)
        return loss

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.log("step", float(batch_idx))

    def on_train_epoch_end(self):
        self.log("rate", self.hparams.learning_rate)

    def configure_callbacks(self):
        return [pl.callbacks.LearningRateFinder(1e-4, 10, num_training_steps=25)]


class Halves(Points):
    """Whose second half of each mini-batch is far easier than the first, so shards are unlike."""

    def train_dataloader(self):
        scale = 1 + 9 * (torch.arange(len(self.targets)) % 16 < 8)[:, None]
        return DataLoader(TensorDataset(self.inputs, self.targets * scale), batch_size=16)
