"""What tracing costs: the time of a step with it over that without, for two networks.

    python docs/measurements/tracing.py results/data/digits.npz

The denoiser at batch 500, and a network of the size of ResNet-18 (11.7 million parameters) at batch
32 of 3x224x224 with momentum, both on two threads. The tracer's hooks are timed themselves, from
the second step on: epochs with and without them differ by more than the hooks take.
"""

import statistics
import sys
import time
import warnings
from typing import Any

import pytorch_lightning as pl
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from twinrun.trace.step_tracer import Tracer
from twinrun.workloads.denoiser import Denoiser, DenoisingPairs

ROUNDS = 5
HOOKS = ("on_train_batch_start", "on_before_optimizer_step", "on_train_batch_end")


class TimedTracer(Tracer):
    """Adds up the seconds of its hooks, and of the steps, from the second step on."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds, self.started, self.ended = 0.0, 0.0, 0.0


def _timed(name: str) -> Any:
    def hook(self: TimedTracer, *arguments: Any) -> None:
        started = time.perf_counter()
        getattr(Tracer, name)(self, *arguments)
        self.ended = time.perf_counter()
        if self.started:
            self.seconds += self.ended - started
        elif name == "on_train_batch_end":
            self.started = self.ended

    return hook


for _name in HOOKS:
    setattr(TimedTracer, _name, _timed(_name))


class Block(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.path = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.shortcut = nn.Sequential()
        if stride > 1:
            convolution = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.shortcut = nn.Sequential(convolution, nn.BatchNorm2d(outputs))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Add the path and the shortcut: (N, C, H, W)."""
        return functional.relu(self.path(images) + self.shortcut(images))


class ResNet18(pl.LightningModule):
    """The usual network of 11.7 million parameters."""

    def __init__(self) -> None:
        super().__init__()
        widths = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1)]
        widths += [(128, 256, 2), (256, 256, 1), (256, 512, 2), (512, 512, 1)]
        self.network = nn.Sequential(
            *(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU()),
            nn.MaxPool2d(3, 2, 1),
            *(Block(*width) for width in widths),
            *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000)),
        )

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        """Give the cross-entropy."""
        images, labels = batch
        return functional.cross_entropy(self.network(images), labels)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Take momentum: a state as large as the parameters."""
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)


def denoiser(path: str) -> tuple[pl.LightningModule, list[Any]]:
    """Give the denoiser and the batches of an epoch, prepared outside the clock."""
    data, module = DenoisingPairs(path), Denoiser()
    data.setup("fit")
    module.on_fit_start = lambda: None  # without its data module it has no mean to fetch
    module.configure_callbacks = list  # nor a validation to stop early by
    return module, list(data.train_dataloader())


def resnet18() -> tuple[pl.LightningModule, list[Any]]:
    """Give the network and four batches of noise."""
    return ResNet18(), [(torch.randn(32, 3, 224, 224), torch.arange(32)) for _ in range(4)]


def ratio(module: pl.LightningModule, batches: list[Any]) -> float:
    """Train on the batches; give the time of a step with tracing over that without."""
    tracer = TimedTracer()
    trainer = pl.Trainer(
        accelerator="cpu",
        max_epochs=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        limit_val_batches=0,
        callbacks=[tracer],
    )
    trainer.fit(module, DataLoader(batches, batch_size=None))
    whole = tracer.ended - tracer.started
    return whole / (whole - tracer.seconds)


def main() -> None:
    """Measure and print."""
    torch.set_num_threads(2)
    for name, rounds, made in (
        ("the denoiser", ROUNDS, lambda: denoiser(sys.argv[1])),
        ("ResNet-18", 2, resnet18),
    ):
        pl.seed_everything(1, verbose=False)
        ratios = [ratio(*made()) for _ in range(rounds)]
        print(
            f"{name}: a traced step takes {statistics.median(ratios):.4f} times as long "
            f"({min(ratios):.4f} to {max(ratios):.4f} over {rounds} trainings)",
            flush=True,
        )


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    main()
