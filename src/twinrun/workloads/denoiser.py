"""Remove salt-and-pepper noise from images of digits: a small convolutional autoencoder.

The noise and the rotations of the training pairs are drawn anew in each epoch from (seed, epoch,
image) alone. So every repeat gets the same draws, with any number of data workers and whatever else
draws random numbers.
"""

import numpy as np
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import EarlyStopping
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

from twinrun.workloads.order import EpochOrder, loader

NOISE_DENSITY = 0.05
SIZE = 32
TRAINING_SHARE, VALIDATION_SHARE = 0.95, 0.025


class Denoiser(pl.LightningModule):
    """12,609 parameters; images (N, 1, 32, 32) in [0, 1] to images of the same shape."""

    def __init__(self, learning_rate: float = 1e-3, weight_decay: float = 1e-4) -> None:
        """Draw Glorot-uniform weights from the global generator; biases are 0.

        Args:
            learning_rate: of Adam.
            weight_decay: factor of the L2 penalty on the weights; biases have none.
        """
        super().__init__()
        self.save_hyperparameters()
        self.encoder = nn.Sequential(
            *_down(1, 8),
            *_down(8, 16),
            *_down(16, 32),
        )
        self.decoder = nn.Sequential(
            *_up(32, 32),
            *_up(32, 16),
            *_up(16, 8),
            nn.Conv2d(8, 1, kernel_size=1),
        )
        # The mean of the training inputs, (1, 32, 32). The data module computes it; as a
        # buffer it is saved with the weights.
        self.register_buffer("mean", torch.zeros(1, SIZE, SIZE))
        # The order of the layers is part of what a seed means: each draws from the same generator.
        for name, parameter in self.named_parameters():
            if name.endswith("weight"):
                nn.init.xavier_uniform_(parameter)
            else:
                nn.init.zeros_(parameter)

    def forward(self, noisy_NCHW: torch.Tensor) -> torch.Tensor:
        # (N, 1, 32, 32) to (N, 32, 4, 4) and back. A clipped pixel has no gradient.
        return self.decoder(self.encoder(noisy_NCHW - self.mean)).clamp(0.0, 1.0)

    def on_fit_start(self) -> None:
        # Trainer.fit sets `datamodule` without declaring it.
        data = self.trainer.datamodule  # pyrefly: ignore[missing-attribute]
        # In place: the buffer stays on the device to which Lightning has moved the module.
        self.mean.copy_(data.training_mean)

    def _step(self, batch: tuple[torch.Tensor, torch.Tensor], name: str) -> torch.Tensor:
        noisy, clean = batch
        loss = functional.mse_loss(self(noisy), clean)
        self.log(name, loss, on_step=False, on_epoch=True, batch_size=len(noisy))
        return loss

    def training_step(
        self, batch: tuple[torch.Tensor, torch.Tensor], batch_idx: int
    ) -> torch.Tensor:
        return self._step(batch, "train_loss")

    def validation_step(self, batch: tuple[torch.Tensor, torch.Tensor], batch_idx: int) -> None:
        self._step(batch, "val_loss")

    def test_step(self, batch: tuple[torch.Tensor, torch.Tensor], batch_idx: int) -> None:
        noisy, clean = batch
        metrics = {
            "test_psnr_noisy": psnr(noisy, clean),
            "test_psnr_denoised": psnr(self(noisy), clean),
        }
        self.log_dict(metrics, on_step=False, on_epoch=True, batch_size=len(noisy))

    def predict_step(
        self, batch: tuple[torch.Tensor, torch.Tensor], batch_idx: int
    ) -> dict[str, torch.Tensor]:
        noisy, clean = batch
        # All three are kept: the figure shows them in this order, and compares with the last.
        return {"noisy": noisy, "denoised": self(noisy), "clean": clean}

    def configure_optimizers(self) -> torch.optim.Optimizer:
        weights = [p for name, p in self.named_parameters() if name.endswith("weight")]
        biases = [p for name, p in self.named_parameters() if name.endswith("bias")]
        groups = [
            {"params": weights, "weight_decay": self.hparams["weight_decay"]},
            {"params": biases, "weight_decay": 0.0},
        ]
        return torch.optim.Adam(groups, lr=self.hparams["learning_rate"])

    def configure_callbacks(self) -> list[pl.Callback]:
        # It cannot run out of patience in the config's 5 epochs: the first one sets the best loss,
        # and four are left. There it only stops at a loss that is not finite.
        return [EarlyStopping(monitor="val_loss", patience=5)]


def psnr(images_NCHW: torch.Tensor, clean_NCHW: torch.Tensor) -> torch.Tensor:
    """Return the mean over images of the peak signal-to-noise ratio in dB, for a peak of 1.

    Of an image: -10 log10(mean squared error), see
    https://en.wikipedia.org/wiki/Peak_signal-to-noise_ratio; infinite where nothing differs.
    """
    error_N = (images_NCHW - clean_NCHW).square().flatten(1).mean(1)
    # Our choice: the mean of decibels, not the decibels of the mean error. Images count alike.
    return (-10.0 * error_N.log10()).mean()


def _down(channels_in: int, channels_out: int) -> list[nn.Module]:
    convolution = nn.Conv2d(channels_in, channels_out, kernel_size=3, padding="same")
    return [convolution, nn.ReLU(), nn.MaxPool2d(kernel_size=2, stride=2)]


def _up(channels_in: int, channels_out: int) -> list[nn.Module]:
    return [nn.ConvTranspose2d(channels_in, channels_out, kernel_size=2, stride=2), nn.ReLU()]


class DenoisingPairs(pl.LightningDataModule):
    """Pairs (noisy, clean), each (N, 1, 32, 32) float32 in [0, 1], from the dataset digits."""

    def __init__(
        self, path: str, batch_size: int = 500, seed: int = 0, data_workers: int = 0
    ) -> None:
        """Remember where the images are.

        Args:
            path: .npz of the digits.
            batch_size: of all loaders; training drops the last partial batch, as published.
            seed: determines the noise, the rotations and the order.
            data_workers: processes that prepare batches.
        """
        super().__init__()
        self.save_hyperparameters()

    def setup(self, stage: str) -> None:
        with np.load(self.hparams["path"], allow_pickle=False) as arrays:
            # All 10,000: this task has a split of its own. (10000, 28, 28) uint8.
            images = np.concatenate([arrays["train_images"], arrays["test_images"]])
            labels = np.concatenate([arrays["train_labels"], arrays["test_labels"]])
        seed = self.hparams["seed"]
        training, validation, test = split_by_class(labels)
        # 1, 2, 3 keep the noise of the three parts apart; 0 belongs to EpochOrder.
        self.training = NoisyImages(images[training], seed=(seed, 1), turns=True)
        # Their noise is the same in every epoch: metrics of two epochs are of the same images.
        self.validation = NoisyImages(images[validation], seed=(seed, 2), turns=False)
        self.test = NoisyImages(images[test], seed=(seed, 3), turns=False)
        # Later stages have the mean in the module's buffer, and need not make the images for it.
        if stage == "fit":
            self.training_mean = self.training.mean_of_inputs()

    def train_dataloader(self) -> DataLoader:
        order = EpochOrder(len(self.training), seed=self.hparams["seed"])
        return self._loader(self.training, order, drop_last=True)

    def val_dataloader(self) -> DataLoader:
        return self._loader(self.validation, range(len(self.validation)))

    def test_dataloader(self) -> DataLoader:
        return self._loader(self.test, range(len(self.test)))

    predict_dataloader = test_dataloader

    def _loader(
        self, dataset: "NoisyImages", order: EpochOrder | range, drop_last: bool = False
    ) -> DataLoader:
        return loader(
            dataset,
            order,
            batch_size=self.hparams["batch_size"],
            drop_last=drop_last,
            workers=self.hparams["data_workers"],
        )


class NoisyImages(Dataset):
    """Pairs of a noisy and a clean image; an index is epoch * size + image."""

    def __init__(self, images: np.ndarray, *, seed: tuple[int, ...], turns: bool) -> None:
        """Keep images (N, 28, 28) uint8; `turns` rotates each pair by a multiple of 90 degrees."""
        self._images, self._seed, self._turns = images, seed, turns

    def __len__(self) -> int:
        return len(self._images)

    def __getitems__(self, indices: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the noisy and the clean images of a whole batch, (N, 1, 32, 32) float32 each."""
        # An index array copies, so the rotation below does not touch the dataset. (B, 28, 28).
        images = self._images[np.array(indices) % len(self)]
        # The index holds the epoch, so this depends on (seed, epoch, image) and on no state: a data
        # worker, a resumed run and a single process draw the same.
        generators = [np.random.default_rng([*self._seed, index]) for index in indices]
        if self._turns:
            # Before the noise: the order of the two draws is part of the result.
            turns = np.array([generator.integers(4) for generator in generators])
            for turn in (1, 2, 3):
                images[turns == turn] = np.rot90(images[turns == turn], turn, axes=(1, 2))
        draws = [generator.random(images.shape[1:], np.float32) for generator in generators]
        return _resized(salt_and_pepper(images, np.stack(draws))), _resized(images)

    def mean_of_inputs(self) -> torch.Tensor:
        """Return the mean of the noisy images of the first epoch, (1, 32, 32) float32.

        Summed in float64, so that 9,500 images add no rounding of their own.
        """
        total = torch.zeros(1, SIZE, SIZE, dtype=torch.float64)
        for start in range(0, len(self), 1000):
            noisy, _ = self.__getitems__(list(range(start, min(start + 1000, len(self)))))
            total += noisy.sum(0, dtype=torch.float64)
        return (total / len(self)).float()


def salt_and_pepper(images: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """Return uint8 images, black or white where `draws`, uniform in [0, 1), are small.

    Half of the proportion NOISE_DENSITY becomes black, half white; `draws` has the images' shape.
    """
    noisy = np.where(draws < NOISE_DENSITY, np.uint8(255), images)
    return np.where(draws < NOISE_DENSITY / 2, np.uint8(0), noisy)


def split_by_class(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Split the indices of `labels` (N,) 95 / 2.5 / 2.5 % within each class, in their order."""
    # Not shuffled: the dataset has its labels in random order already.
    parts: list[list[np.ndarray]] = [[], [], []]
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        # Rounded first: 0.95 + 0.025 is no exact binary number, and astype(int) cuts off.
        cuts = np.round(np.cumsum([TRAINING_SHARE, VALIDATION_SHARE]) * len(members)).astype(int)
        for part, indices in zip(parts, np.split(members, cuts), strict=True):
            part.append(indices)
    training, validation, test = (np.concatenate(part) for part in parts)
    return training, validation, test


def _resized(images: np.ndarray) -> torch.Tensor:
    """Resize (N, 28, 28) uint8 to (N, 1, 32, 32) float32, each scaled to its own [0, 1]."""
    images_NCHW = torch.from_numpy(images).unsqueeze(1).float()
    images_NCHW = functional.interpolate(
        images_NCHW, size=(SIZE, SIZE), mode="bicubic", align_corners=False
    )
    # Bicubic interpolation overshoots 0 and 255; this scaling brings it back into [0, 1].
    # ASSUME that no image has one grey only: it would be 0 / 0.
    low, high = images_NCHW.amin((1, 2, 3), True), images_NCHW.amax((1, 2, 3), True)
    return (images_NCHW - low) / (high - low)
