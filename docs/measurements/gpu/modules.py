"""Small trainings whose operations may race on a GPU: see docs/measurements/h100.md."""

from typing import Any

import pytorch_lightning as pl
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

ROWS, FEATURES, ENTRIES, PICKED, BATCH = 4096, 16, 50, 8, 512


class Points(pl.LightningDataModule):
    """Random points, a smooth value of each, and entries of a table that it picks."""

    def setup(self, stage: str | None = None) -> None:
        """Draw them."""
        generator = torch.Generator().manual_seed(0)
        points = torch.randn(ROWS, FEATURES, generator=generator)
        picked = torch.randint(ENTRIES, (ROWS, PICKED), generator=generator)
        self.dataset = TensorDataset(points, points.sum(1, keepdim=True).tanh(), picked)

    def train_dataloader(self) -> DataLoader:
        """Shuffle them."""
        return DataLoader(self.dataset, BATCH, shuffle=True)

    def test_dataloader(self) -> DataLoader:
        """Give all in order."""
        return DataLoader(self.dataset, BATCH)


class Dropping(pl.LightningModule):
    """A small network with dropout."""

    def __init__(self) -> None:
        super().__init__()
        hidden = nn.Linear(FEATURES, 64)
        self.net = nn.Sequential(hidden, nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 1))

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        """Return (N, 1)."""
        return self.net(points)

    def loss(self, batch: Any) -> torch.Tensor:
        """Return the mean squared error."""
        points, values, _ = batch
        return functional.mse_loss(self(points), values)

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        """Return the loss, logged."""
        loss = self.loss(batch)
        self.log("train_loss", loss)
        return loss

    def test_step(self, batch: Any, batch_idx: int) -> None:
        """Log the loss."""
        self.log("test_loss", self.loss(batch))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Take Adam."""
        return torch.optim.Adam(self.parameters(), 1e-3)


class Scattering(Dropping):
    """Adds into a table by `index_add`, whose additions are atomic on a GPU."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(ENTRIES, FEATURES))

    def loss(self, batch: Any) -> torch.Tensor:
        """Return the loss of points that were moved by what their entries have gathered."""
        points, values, picked = batch
        given = (points.unsqueeze(1).expand(-1, PICKED, -1) * self.table[picked]).flatten(0, 1)
        sums = torch.zeros_like(self.table).index_add(0, picked.flatten(), given)
        return functional.mse_loss(self(points + 0.01 * sums[picked].mean(1)), values)


class Counting(Dropping):
    """Counts by `bincount` with weights, which has no reproducible form on a GPU."""

    def loss(self, batch: Any) -> torch.Tensor:
        """Return the loss, and nothing times the counts."""
        entries = batch[2].flatten()
        counts = torch.bincount(entries, torch.ones_like(entries, dtype=torch.float32))
        return super().loss(batch) + 0 * counts.sum()


class Pooling(Dropping):
    """Convolution, batch normalisation, bilinear upsampling and adaptive pooling."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            *(nn.Unflatten(1, (1, 4, 4)), nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8)),
            *(nn.Upsample(scale_factor=2, mode="bilinear"), nn.AdaptiveAvgPool2d(3)),
            *(nn.Flatten(), nn.Linear(72, 1)),
        )


class Recurrent(Dropping):
    """An LSTM of two layers with dropout, over five copies of a point."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.LSTM(FEATURES, 32, 2, dropout=0.2, batch_first=True)
        self.out = nn.Linear(32, 1)

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        """Return (N, 1)."""
        found, _ = self.net(points.unsqueeze(1).repeat(1, 5, 1))
        return self.out(found[:, -1])
