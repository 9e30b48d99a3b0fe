"""Modules with the habits of many; annotations are texts, and one names what nobody imports."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import torch
from small import Small
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Sequence


class Act(enum.Enum):
    RELU = "relu"
    GELU = "gelu"


class Postponed(Small):
    def __init__(
        self,
        act: Act = Act.RELU,
        names: Sequence[str] = ("a", "b"),
        folder: Path | None = None,
        size: int | tuple[int, int] = 3,
        mode: Literal["min", "max"] = "min",
        net: nn.Module | None = None,
    ):
        super().__init__()
        self.given = {"act": act, "names": names, "folder": folder, "size": size, "mode": mode}
        self.net = net


class Templated(Small):
    """As of a template for Hydra, whose optimizer and schedule are partials."""

    def __init__(
        self, optimizer: torch.optim.Optimizer, scheduler: torch.optim.lr_scheduler | None = None
    ):
        super().__init__()
        self.save_hyperparameters(logger=False)

    def configure_optimizers(self):
        optimizer = self.hparams.optimizer(params=self.parameters())
        scheduler = self.hparams.scheduler(optimizer=optimizer)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "monitor": "val_loss"},
        }


class Config(dict):
    """As of OmegaConf and others: its keys are attributes."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class Configured(Small):
    def __init__(self, cfg: "Config", untyped=None):  # noqa: UP037 (as many write it)
        super().__init__()
        self.cfg, self.untyped = cfg, untyped


class ByPosition(Small):
    def __init__(self, width, depth=1, /, rate=0.1):
        super().__init__()
        self.given = (width, depth, rate)
