"""Points on two spirals, made in memory from a seed."""

import math

import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader, TensorDataset, random_split


class SpiralPoints(pl.LightningDataModule):
    def __init__(
        self,
        points: int = 600,
        noise: float = 0.05,
        batch_size: int = 50,
        seed: int = 0,
        data_workers: int = 0,
    ):
        super().__init__()
        self.save_hyperparameters()

    def setup(self, stage):
        generator = torch.Generator().manual_seed(self.hparams.seed)
        labels = torch.arange(self.hparams.points) % 2
        radius = torch.rand(self.hparams.points, generator=generator).sqrt()
        angle = 3 * math.pi * radius + math.pi * labels
        points = torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1)
        points += self.hparams.noise * torch.randn(points.shape, generator=generator)
        dataset = TensorDataset(points, labels.float())
        self.training, self.validation = random_split(dataset, [0.8, 0.2], generator=generator)

    def train_dataloader(self):
        return self._loader(self.training, shuffle=True)

    def val_dataloader(self):
        return self._loader(self.validation)

    def predict_dataloader(self):
        return self._loader(self.validation)

    def _loader(self, dataset, shuffle=False):
        return DataLoader(
            dataset,
            batch_size=self.hparams.batch_size,
            shuffle=shuffle,
            num_workers=self.hparams.data_workers,
        )
