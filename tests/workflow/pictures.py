"""A user's own networks of images and of a surface, his names, and a dataset of his own."""

import numpy as np
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader, TensorDataset

SIDE = 8


def make():
    """Return colour photographs of two kinds."""
    photos = np.random.default_rng(0).random((12, SIDE, SIDE, 3), np.float32)
    return {"photos": photos, "kinds": np.arange(12) % 2}


class Restorer(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Conv2d(3, 3, 3, padding=1)

    def forward(self, inputs):
        return self.layer(inputs)

    def training_step(self, batch, batch_idx):
        blurred, sharp = batch
        return (self(blurred) - sharp).square().mean()

    def predict_step(self, batch, batch_idx):
        blurred, sharp = batch
        return {"blurred": blurred, "restored": self(blurred), "sharp": sharp}

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


class Photos(pl.LightningDataModule):
    def __init__(self, path):
        super().__init__()
        self.path = path

    def setup(self, stage):
        with np.load(self.path) as arrays:
            sharp = torch.from_numpy(arrays["photos"]).movedim(-1, 1)
        self.pairs = TensorDataset(sharp.flip(-1), sharp)

    def train_dataloader(self):
        return DataLoader(self.pairs, batch_size=4)

    predict_dataloader = train_dataloader


class Height(Restorer):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)

    def predict_step(self, batch, batch_idx):
        points, heights = batch
        return {"height": self(points), "truth": heights}


class Hill(pl.LightningDataModule):
    def __init__(self, points=100):
        super().__init__()
        points = torch.cartesian_prod(*[torch.linspace(-1, 1, SIDE)] * 2).flip(1)
        self.pairs = TensorDataset(points, points.square().sum(1, keepdim=True))

    def train_dataloader(self):
        return DataLoader(self.pairs, batch_size=SIDE**2)

    predict_dataloader = train_dataloader
