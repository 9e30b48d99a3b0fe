"""Which of two spirals does a point belong to? A small network, written as one writes Lightning."""

import pytorch_lightning as pl
import torch
from torch import nn
from torch.nn import functional


class Spirals(pl.LightningModule):
    def __init__(self, width: int = 32, dropout: float = 0.1, learning_rate: float = 0.01):
        super().__init__()
        self.save_hyperparameters()
        self.network = nn.Sequential(
            nn.Linear(2, width),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, 1),
        )

    def forward(self, points):
        return self.network(points).squeeze(1)

    def training_step(self, batch, batch_idx):
        points, labels = batch
        loss = functional.binary_cross_entropy_with_logits(self(points), labels)
        self.log("train_loss", loss, on_step=False, on_epoch=True)
        return loss

    def validation_step(self, batch, batch_idx):
        points, labels = batch
        scores = self(points)
        self.log("val_loss", functional.binary_cross_entropy_with_logits(scores, labels))
        self.log("val_accuracy", ((scores > 0) == (labels > 0)).float().mean())

    def predict_step(self, batch, batch_idx):
        points, labels = batch
        return {"probability": self(points).sigmoid(), "label": labels}

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.hparams.learning_rate)
