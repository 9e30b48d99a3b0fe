"""Two small workloads that the layouts are for: many points of few features, and images."""

import pytorch_lightning as pl
import torch
from torch import nn
from torch.nn import functional


class Regression(pl.LightningModule):
    """A network of one hidden layer for points (N, 3); `unused` gets no gradient."""

    def __init__(self):
        super().__init__()
        self.hidden, self.output = nn.Linear(3, 6), nn.Linear(6, 1)
        self.unused = nn.Linear(2, 2)

    def forward(self, points):
        return self.output(self.hidden(points).tanh())

    def training_step(self, batch, batch_idx):
        points, targets = batch
        loss = functional.mse_loss(self(points), targets)
        self.log("train_loss", loss)
        return {"loss": loss}

    def predict_step(self, batch, batch_idx):
        return self(batch[0])

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=0.01, weight_decay=0.01)
        return {
            "optimizer": optimizer,
            "lr_scheduler": torch.optim.lr_scheduler.ConstantLR(optimizer),
        }


class Images(pl.LightningModule):
    """A convolution, batch norm and a linear head on images (N, 2, 8, 8)."""

    def __init__(self):
        super().__init__()
        self.network = nn.Sequential(
            nn.Conv2d(2, 4, 3, bias=False),
            nn.BatchNorm2d(4),
            nn.Tanh(),
            nn.Flatten(),
            nn.Linear(144, 3),
        )

    def training_step(self, batch, batch_idx):
        images, labels = batch
        return functional.cross_entropy(self.network(images), labels)

    def predict_step(self, batch, batch_idx):
        return self.network(batch[0])

    def configure_optimizers(self):
        return [torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)], []


def points(count=1280, seed=0):
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(count, 3, generator=generator)
    return [inputs, inputs.prod(1, keepdim=True) + inputs.sum(1, keepdim=True)]


def images(count=16, seed=0):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(3, (count,), generator=generator)
    return [torch.randn(count, 2, 8, 8, generator=generator) + labels[:, None, None, None], labels]
