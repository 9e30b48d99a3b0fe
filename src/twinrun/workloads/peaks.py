"""Fit a surface of two variables with a small network, all points in one batch.

    z = 3 (1-x1)^2 exp(-x1^2 - (x2+1)^2) - 10 (x1/5 - x1^3 - x2^5) exp(-x1^2 - x2^2)
        - 1/3 exp(-(x1+1)^2 - x2^2)

The batch stays on the device to which the training moved it: collating 40,000 points row by row
would take many times as long as the step. The seed determines the initial weights and nothing else.
The final loss depends on them, because ReLU units die at this learning rate: from the seeds 1 to
200, 2,000 steps over 400 points reached a median loss of 0.08; ten stayed above 1, and one
predicted only the mean of z (3.29).
"""

import math
from typing import cast

import pytorch_lightning as pl
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

REACH = 3.0  # both variables run from -REACH to REACH
PREDICTED_POINTS = 1600  # 40 by 40

Batch = tuple[torch.Tensor, torch.Tensor]


class Peaks(pl.LightningModule):
    """171 parameters; points (N, 2) float32 to z (N,)."""

    def __init__(self, learning_rate: float = 0.08) -> None:
        """Draw Glorot-uniform weights from the global generator; biases are 0.

        Args:
            learning_rate: of Adam.
        """
        super().__init__()
        self.save_hyperparameters()
        self.network = nn.Sequential(
            nn.Linear(2, 20), nn.ReLU(), nn.Linear(20, 5), nn.ReLU(), nn.Linear(5, 1)
        )
        for layer in self.modules():
            if isinstance(layer, nn.Linear):
                nn.init.xavier_uniform_(layer.weight)
                nn.init.zeros_(layer.bias)

    def forward(self, points_NC: torch.Tensor) -> torch.Tensor:
        # (N, 1) to (N,): the loss would broadcast (N, 1) against z (N,) to (N, N).
        return self.network(points_NC).squeeze(1)

    def training_step(self, batch: Batch, batch_idx: int) -> torch.Tensor:
        points_NC, z_N = batch
        loss = functional.mse_loss(self(points_NC), z_N)
        # An epoch is one step, so its loss needs no mean over the epoch, which would take time.
        self.log("train_loss", loss, on_step=True, on_epoch=False, batch_size=len(z_N))
        return loss

    def predict_step(self, batch: Batch, batch_idx: int) -> dict[str, torch.Tensor]:
        points_NC, z_N = batch
        return {"z": self(points_NC), "target": z_N}

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=self.hparams["learning_rate"])


class PeaksGrid(pl.LightningDataModule):
    """One batch of points (N, 2) and z (N,), float32; for prediction a grid of 40 by 40."""

    def __init__(self, points: int = 40_000) -> None:
        """Make the grids.

        Args:
            points: N of training, on the grid nearest to a square: 200 is 10 by 20.

        Raises:
            ValueError: if no grid of at least 2 by 2 has that many points.
        """
        super().__init__()
        self.save_hyperparameters()
        # Here and not in `setup`, so that a wrong number fails before anything trains. A list is a
        # dataset of one element, and that element is the batch.
        self.training = [grid(points)]
        self.predicted = [grid(PREDICTED_POINTS)]

    def train_dataloader(self) -> DataLoader:
        return _loader(self.training)

    def predict_dataloader(self) -> DataLoader:
        return _loader(self.predicted)

    def transfer_batch_to_device(
        self, batch: list[torch.Tensor], device: torch.device, dataloader_idx: int
    ) -> list[torch.Tensor]:
        moved = super().transfer_batch_to_device(batch, device, dataloader_idx)
        batch[:] = moved  # the loader returns this same list again: the next epoch copies nothing
        return moved


def grid(points: int) -> list[torch.Tensor]:
    """Return points (N, 2) and z (N,), float32; x1 varies fastest.

    Raises:
        ValueError: if no grid of at least 2 by 2 has that many points.
    """
    divisors = range(2, math.isqrt(max(points, 0)) + 1)
    # The largest divisor up to the root gives the grid that is nearest to a square.
    rows = max((d for d in divisors if points % d == 0), default=0)
    if not rows:
        raise ValueError(f"points: {points} is not the size of a grid of at least 2 by 2")
    x2, x1 = (torch.linspace(-REACH, REACH, n, dtype=torch.float64) for n in (rows, points // rows))
    # Its last factor varies fastest, hence x2 first; flip makes the columns (x1, x2).
    points_NC = torch.cartesian_prod(x2, x1).flip(1).float()
    # z belongs to the rounded points, which the network sees, and is itself rounded once.
    return [points_NC, peaks(*points_NC.double().unbind(1)).float()]


def peaks(x1: torch.Tensor, x2: torch.Tensor) -> torch.Tensor:
    """Return z at the points, element by element."""
    return (
        3 * (1 - x1) ** 2 * torch.exp(-(x1**2) - (x2 + 1) ** 2)
        - 10 * (x1 / 5 - x1**3 - x2**5) * torch.exp(-(x1**2) - x2**2)
        - torch.exp(-((x1 + 1) ** 2) - x2**2) / 3
    )


def _loader(batches: list[list[torch.Tensor]]) -> DataLoader:
    return DataLoader(
        cast("Dataset[list[torch.Tensor]]", batches),  # a list has all that a DataLoader asks for
        # No automatic batching: an element of the list is a batch.
        batch_size=None,
        collate_fn=_as_it_is,
        # A generator of its own: without one, each iteration draws from the global generator.
        generator=torch.Generator().manual_seed(0),
    )


def _as_it_is(batch: object) -> object:
    return batch
