"""Modules as users of LightningCLI write them: given networks, optimizers and functions."""

import argparse
import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import pytorch_lightning as pl
import torch
from jsonargparse import lazy_instance
from pytorch_lightning.cli import LRSchedulerCallable, OptimizerCallable
from small import Points, Small
from torch import nn


class Net(nn.Module):
    def __init__(self, width: int = 8, activation: nn.Module | None = None, inner: Any = None):
        super().__init__()
        self.hidden, self.output = nn.Linear(4, width), nn.Linear(width, 1)
        self.activation = nn.ReLU() if activation is None else activation
        self.inner = inner

    def forward(self, inputs):
        return self.output(self.activation(self.hidden(inputs)))


def made():
    return Net()


class Noise:
    """Is drawn when it is made."""

    def __init__(self, scale: float = 0.1):
        self.values = scale * torch.randn(4)


class DrawnPoints(Points):
    """Draws its rows from the global generator when it is made, after its noise."""

    def __init__(self, noise: Noise, size: int = 50):
        super().__init__(size)
        self.inputs = torch.randn(size, 4) + noise.values


class Spaced(Small):
    """Takes its hyperparameters as the first examples of Lightning did, in one namespace."""

    def __init__(self, spaced: argparse.Namespace | None = None, untyped=None):
        super().__init__()
        self.spaced, self.untyped = spaced, untyped


class Given(pl.LightningModule):
    """Trained at rates that a schedule names by the epoch: a text for a key changes all of them."""

    def __init__(
        self,
        net: nn.Module,
        optimizer: OptimizerCallable = torch.optim.SGD,
        scheduler: LRSchedulerCallable | None = None,
        loss: Callable = nn.functional.mse_loss,
        betas: tuple[float, float] = (0.9, 0.99),
        factors: dict[int, float] | None = None,
        plain=None,
        **more,
    ):
        super().__init__()
        self.net, self.loss = net, loss
        self.optimizer, self.scheduler = optimizer, scheduler
        self.betas, self.factors, self.plain, self.more = betas, factors, plain, more
        self.own = nn.Parameter(torch.randn(3))

    def forward(self, inputs):
        return self.net(inputs) + self.own.sum()

    def training_step(self, batch, batch_idx):
        inputs, targets = batch
        loss = self.loss(self(inputs), targets)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        optimizer = self.optimizer(self.parameters())
        if self.scheduler is None:
            return optimizer
        return {"optimizer": optimizer, "lr_scheduler": self.scheduler(optimizer)}

    @classmethod
    def tiny(cls, rate: float = 0.1, net: nn.Module | None = None):
        optimizer = functools.partial(torch.optim.SGD, lr=rate)
        return cls(Net(width=2) if net is None else net, optimizer)


part = functools.partial(Given, plain="part")


class Loading(Small):
    """Brings its own loaders, of data that it makes of what the run gives."""

    def __init__(self, size=70, seed=0, data_workers=0, learning_rate=0.05):
        super().__init__(learning_rate=learning_rate)
        self.given = (size, seed, data_workers)

    def setup(self, stage):
        self.points = Points(*self.given)

    def train_dataloader(self):
        return self.points.train_dataloader()

    def val_dataloader(self):
        return self.points.val_dataloader()

    def predict_dataloader(self):
        return self.points.val_dataloader()


class Saved(pl.LightningModule):
    """Keeps its hyperparameters, and brings no optimizer."""

    def __init__(self, net: nn.Module, rates: tuple[float, ...] = (1.0,)):
        super().__init__()
        self.save_hyperparameters()
        self.net, self.rates = net, rates

    def training_step(self, batch, batch_idx):
        return (self.net(batch[0]) - batch[1]).square().mean()


class Bare(Saved):
    """Takes nothing; counts its validations, of which a command has one before the first step."""

    def __init__(self):
        super().__init__(Net())
        self.register_buffer("validations", torch.zeros(()))

    def validation_step(self, batch, batch_idx):
        self.validations += 1

    def training_step(self, batch, batch_idx):
        return super().training_step(batch, batch_idx) * (1 + self.validations)


DEFAULT = lazy_instance(nn.Linear, in_features=1, out_features=1)


class BareWithActivation(Bare):
    """Takes nothing that it must be given."""

    def __init__(self, activation: nn.Module = DEFAULT):
        super().__init__()
        self.activation = activation


class BarePoints(Points):
    def __init__(self):
        super().__init__()


class Draws(pl.Callback):
    """Draws when it is made, and shifts the first weights by that."""

    def __init__(self, numbers: int = 3):
        self.drawn = torch.randn(numbers)

    def on_fit_start(self, trainer, pl_module):
        with torch.no_grad():
            next(pl_module.parameters()).add_(self.drawn.mean())


@dataclasses.dataclass
class Encoder:
    width: int = 4


@dataclasses.dataclass
class DeepEncoder(Encoder):
    depth: int = 2


@dataclasses.dataclass
class Settings:
    encoder: Encoder = dataclasses.field(default_factory=Encoder)
    rate: float = 0.01


def settings_of(rate: float = 0.5) -> Settings:
    return Settings(DeepEncoder(depth=7), rate)


class BySettings(Small):
    def __init__(self, settings: Settings, encoder: Encoder | None = None):
        super().__init__()
        self.settings, self.encoder = settings, encoder


KINDS = {"small": Net}


def made_with(kind: str, **kwargs) -> Net:
    return KINDS[kind](**kwargs)


class MadeWith(Net):
    def __init__(self, kind: str, **kwargs):
        super().__init__(*kwargs.values())
