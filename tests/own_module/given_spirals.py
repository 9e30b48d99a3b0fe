"""The spirals again, as one writes a module for LightningCLI, and one that brings its own data."""

import pytorch_lightning as pl
import torch
from pytorch_lightning.cli import OptimizerCallable
from spirals_data import SpiralPoints
from spirals_model import Spirals
from torch import nn
from torch.nn import functional


class Network(nn.Module):
    def __init__(self, width: int = 32, activation: nn.Module | None = None):
        super().__init__()
        activation = nn.ReLU() if activation is None else activation
        self.layers = nn.Sequential(nn.Linear(2, width), activation, nn.Linear(width, 1))

    def forward(self, points):
        return self.layers(points).squeeze(1)


class Classifier(pl.LightningModule):
    def __init__(
        self,
        network: nn.Module,
        optimizer: OptimizerCallable = torch.optim.SGD,
        factors: dict[int, float] | None = None,
    ):
        super().__init__()
        self.network, self.optimizer, self.factors = network, optimizer, factors or {0: 1.0}

    def training_step(self, batch, batch_idx):
        points, labels = batch
        loss = functional.binary_cross_entropy_with_logits(self.network(points), labels)
        self.log("train_loss", loss)
        # From these epochs on, the loss counts so much.
        return loss * self.factors[max(e for e in self.factors if e <= self.current_epoch)]

    def configure_optimizers(self):
        return self.optimizer(self.parameters())


class SpiralsWithData(Spirals):
    def __init__(self, batch_size: int = 50, seed: int = 0, data_workers: int = 0):
        super().__init__()
        self.points = SpiralPoints(batch_size=batch_size, seed=seed, data_workers=data_workers)

    def setup(self, stage):
        self.points.setup(stage)

    def train_dataloader(self):
        return self.points.train_dataloader()

    def val_dataloader(self):
        return self.points.val_dataloader()
