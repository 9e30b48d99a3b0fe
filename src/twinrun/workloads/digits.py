"""Classify a digit and predict its angle in degrees: a small residual network with two heads.

The strided 3x3 convolution pads at the bottom and at the right only, as the original does for
"same". With torch's symmetric padding the branch would see other pixels than the skip beside it.
The test images are used for the test only: there is no validation, and nothing is chosen by them.
"""

import numpy as np
import pytorch_lightning as pl
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader
from torchmetrics import MeanSquaredError

from twinrun.workloads.order import EpochOrder, ResidentTensors, loader

FEATURES = 32 * 14 * 14

Batch = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


class Digits(pl.LightningModule):
    """84,075 parameters; images (N, 1, 28, 28) to class scores (N, 10) and degrees (N,)."""

    def __init__(self, learning_rate: float = 1e-3, angle_weight: float = 0.05) -> None:
        """Draw Glorot-uniform weights from the global generator; biases are 0.

        Args:
            learning_rate: of Adam.
            angle_weight: factor of the mean squared error (in square degrees) that is added to the
                cross-entropy.
        """
        super().__init__()
        self.save_hyperparameters()
        self.stem = nn.Sequential(
            # Batch norm subtracts a bias before it again. The 84,075 parameters count these biases.
            nn.Conv2d(1, 16, kernel_size=5, padding="same"),
            nn.BatchNorm2d(16),
            nn.ReLU(),
        )
        self.branch = nn.Sequential(
            # (left, right, top, bottom): torch has no padding="same" for strided convolutions.
            nn.ZeroPad2d((0, 1, 0, 1)),
            nn.Conv2d(16, 32, kernel_size=3, stride=2),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.Conv2d(32, 32, kernel_size=3, padding="same"),
            nn.BatchNorm2d(32),
        )
        self.skip = nn.Sequential(nn.Conv2d(16, 32, kernel_size=1, stride=2), nn.BatchNorm2d(32))
        self.classifier = nn.Linear(FEATURES, 10)
        self.regressor = nn.Linear(FEATURES, 1)
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d | nn.Linear):
                nn.init.xavier_uniform_(layer.weight)
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)
        # A metric object, since `self.log` would average the roots of the batches, which is not the
        # root of the mean over all images.
        self.angle_rmse = MeanSquaredError(squared=False)

    def forward(self, images_NCHW: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        stem_NCHW = self.stem(images_NCHW)  # (N, 16, 28, 28)
        # Both summands are (N, 32, 14, 14); flat (N, 6272).
        features_N = (self.branch(stem_NCHW) + self.skip(stem_NCHW)).relu().flatten(1)
        return self.classifier(features_N), self.regressor(features_N).squeeze(1)

    def training_step(self, batch: Batch, batch_idx: int) -> torch.Tensor:
        images_NCHW, labels_N, angles_N = batch
        scores_NC, degrees_N = self(images_NCHW)
        loss = functional.cross_entropy(scores_NC, labels_N)
        # The original adds 0.1 times half the squared error; this is 0.05 times the whole.
        loss = loss + self.hparams["angle_weight"] * functional.mse_loss(degrees_N, angles_N)
        metrics = {"train_loss": loss, "train_accuracy": accuracy(scores_NC, labels_N)}
        self.log_dict(metrics, on_step=False, on_epoch=True, batch_size=len(labels_N))
        return loss

    def test_step(self, batch: Batch, batch_idx: int) -> None:
        images_NCHW, labels_N, angles_N = batch
        scores_NC, degrees_N = self(images_NCHW)
        self.angle_rmse.update(degrees_N, angles_N)
        metrics = {
            "test_accuracy": accuracy(scores_NC, labels_N),
            "test_angle_rmse": self.angle_rmse,
        }
        self.log_dict(metrics, on_step=False, on_epoch=True, batch_size=len(labels_N))

    def predict_step(self, batch: Batch, batch_idx: int) -> dict[str, torch.Tensor]:
        images_NCHW, labels_N, angles_N = batch
        scores_NC, degrees_N = self(images_NCHW)
        return {"scores": scores_NC, "angle": degrees_N, "label": labels_N, "true_angle": angles_N}

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=self.hparams["learning_rate"])


def accuracy(scores_NC: torch.Tensor, labels_N: torch.Tensor) -> torch.Tensor:
    """Return the proportion of rows of scores (N, C) whose largest score is at the label (N,)."""
    return (scores_NC.argmax(1) == labels_N).float().mean()


class DigitImages(pl.LightningDataModule):
    """Batches of images (N, 1, 28, 28) float32 in [0, 1], labels (N,) int64, degrees (N,)."""

    def __init__(
        self, path: str, batch_size: int = 32, seed: int = 0, data_workers: int = 0
    ) -> None:
        """Remember where the images are.

        Args:
            path: .npz of the digits.
            batch_size: of all loaders; the last partial batch is dropped in training only.
            seed: determines the order.
            data_workers: processes that prepare batches.
        """
        super().__init__()
        self.save_hyperparameters()

    def setup(self, stage: str) -> None:
        with np.load(self.hparams["path"], allow_pickle=False) as arrays:
            self.training, self.test = (_tensors(arrays, split) for split in ("train", "test"))

    def train_dataloader(self) -> DataLoader:
        order = EpochOrder(len(self.training), seed=self.hparams["seed"])
        return self._loader(self.training, order, drop_last=True)

    def test_dataloader(self) -> DataLoader:
        return self._loader(self.test, range(len(self.test)), drop_last=False)

    predict_dataloader = test_dataloader

    def _loader(
        self, dataset: ResidentTensors, order: EpochOrder | range, *, drop_last: bool
    ) -> DataLoader:
        return loader(
            dataset,
            order,
            batch_size=self.hparams["batch_size"],
            drop_last=drop_last,
            workers=self.hparams["data_workers"],
        )


def _tensors(arrays: np.lib.npyio.NpzFile, split: str) -> ResidentTensors:
    """Return images (N, 1, 28, 28) float32 in [0, 1], labels (N,) and angles (N,) of a split."""
    # Converted once, not in each batch: 5,000 images are 16 MB as float32.
    images_NCHW = torch.from_numpy(arrays[f"{split}_images"]).unsqueeze(1).float() / 255
    rest = (torch.from_numpy(arrays[f"{split}_{name}"]) for name in ("labels", "angles"))
    return ResidentTensors(images_NCHW, *rest)
