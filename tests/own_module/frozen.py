"""Tell two spirals apart with a head on features that were learned before and stay as they are."""

import pytorch_lightning as pl
import torch
from torch import nn
from torch.nn import functional


class FrozenFeatures(pl.LightningModule):
    def __init__(self, width: int = 32, learning_rate: float = 0.01):
        super().__init__()
        self.save_hyperparameters()
        self.features = nn.Sequential(nn.Linear(2, width), nn.BatchNorm1d(width), nn.Tanh())
        # In place of a file of pretrained weights: the same numbers whatever the run's seed.
        generator = torch.Generator().manual_seed(0)
        for parameter in self.features.parameters():
            parameter.data = torch.randn(parameter.shape, generator=generator)
        self.features.requires_grad_(False)
        self.head = nn.Linear(width, 2)

    def on_train_epoch_start(self):
        self.features.eval()  # running statistics are frozen too

    def forward(self, points):
        return self.head(self.features(points))

    def training_step(self, batch, batch_idx):
        points, labels = batch
        loss = functional.cross_entropy(self(points), labels.long())
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        points, labels = batch
        self.log("val_accuracy", (self(points).argmax(1) == labels).float().mean())

    def predict_step(self, batch, batch_idx):
        return {"scores": self(batch[0])}

    def configure_optimizers(self):
        return torch.optim.SGD(self.head.parameters(), lr=self.hparams.learning_rate)
