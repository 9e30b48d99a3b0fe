"""Predict ratings from factors of users and items, gathered by index.

The gradient of `factors[index]` adds up one row for each occurrence of an index. On a CPU with two
threads or more, torch's default algorithm adds them in the order in which threads arrive (from
32,768 gathered elements on); the deterministic one adds them in a fixed order. This workload shows
a race without a GPU. See index_put with accumulate=True in
https://docs.pytorch.org/docs/stable/generated/torch.use_deterministic_algorithms.html
"""

import numpy as np
import pytorch_lightning as pl
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from twinrun.workloads.order import EpochOrder, ResidentTensors, loader

VALIDATION_SHARE = 0.05  # our choice

Batch = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


class Factorization(pl.LightningModule):
    """Rating of item i by user u: factors[u] . factors[i] + bias[u] + bias[i] + bias."""

    def __init__(self, users: int, items: int, rank: int = 16, learning_rate: float = 1e-2) -> None:
        """Draw normal factors from the global generator; biases are 0.

        Args:
            users: number of users.
            items: number of items.
            rank: length of the factors.
            learning_rate: of Adam.
        """
        super().__init__()
        self.save_hyperparameters()
        # 0.1 is our choice: the first predictions are near 0, the mean of the ratings.
        self.user_factors = nn.Parameter(torch.randn(users, rank) * 0.1)
        self.item_factors = nn.Parameter(torch.randn(items, rank) * 0.1)
        self.user_biases = nn.Parameter(torch.zeros(users))
        self.item_biases = nn.Parameter(torch.zeros(items))
        self.bias = nn.Parameter(torch.zeros(()))

    def forward(self, users_N: torch.Tensor, items_N: torch.Tensor) -> torch.Tensor:
        # Each gathers (N, rank): 8,192 x 16 = 131,072 elements by default. Both gradients may race.
        products_N = (self.user_factors[users_N] * self.item_factors[items_N]).sum(1)
        # The biases gather N elements each: 8,192 are too few for that algorithm to race.
        return products_N + self.user_biases[users_N] + self.item_biases[items_N] + self.bias

    def _step(self, batch: Batch, name: str) -> torch.Tensor:
        users_N, items_N, ratings_N = batch
        loss = functional.mse_loss(self(users_N, items_N), ratings_N)
        self.log(name, loss, on_step=False, on_epoch=True, batch_size=len(ratings_N))
        return loss

    def training_step(self, batch: Batch, batch_idx: int) -> torch.Tensor:
        return self._step(batch, "train_loss")

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        self._step(batch, "val_loss")

    def predict_step(self, batch: Batch, batch_idx: int) -> dict[str, torch.Tensor]:
        users_N, items_N, ratings_N = batch
        return {"predicted": self(users_N, items_N), "rating": ratings_N}

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=self.hparams["learning_rate"])


class Ratings(pl.LightningDataModule):
    """Batches of users (N,) int64, items (N,) int64, ratings (N,) float32, cut from memory."""

    def __init__(
        self, path: str, batch_size: int = 8192, seed: int = 0, data_workers: int = 0
    ) -> None:
        """Remember where the ratings are.

        Args:
            path: .npz of the ratings.
            batch_size: of training; the last partial batch is kept.
            seed: of the order.
            data_workers: processes that prepare batches.
        """
        super().__init__()
        self.save_hyperparameters()

    def setup(self, stage: str) -> None:
        with np.load(self.hparams["path"], allow_pickle=False) as arrays:
            columns = [torch.from_numpy(arrays[k]) for k in ("users", "items", "ratings")]
        # The pairs come in random order from the dataset, so that the first are a fair sample.
        num_validation = round(len(columns[0]) * VALIDATION_SHARE)
        self.validation = ResidentTensors(*(column[:num_validation] for column in columns))
        self.training = ResidentTensors(*(column[num_validation:] for column in columns))

    def train_dataloader(self) -> DataLoader:
        order = EpochOrder(len(self.training), seed=self.hparams["seed"])
        return self._loader(self.training, order)

    def val_dataloader(self) -> DataLoader:
        return self._loader(self.validation, range(len(self.validation)))

    predict_dataloader = val_dataloader

    def _loader(self, dataset: ResidentTensors, order: EpochOrder | range) -> DataLoader:
        return loader(
            dataset,
            order,
            batch_size=self.hparams["batch_size"],
            drop_last=False,
            workers=self.hparams["data_workers"],
        )
