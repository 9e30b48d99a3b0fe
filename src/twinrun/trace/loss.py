"""The loss of a training step, and where a training is."""

from collections.abc import Mapping
from typing import NamedTuple

import torch


class Now(NamedTuple):
    """Where a training is: its last step."""

    step: int
    """From 1."""
    epoch: int
    """From 1."""
    loss: float
    """NaN of a step that gave none."""


def loss_of(outputs: object) -> torch.Tensor | None:
    """Return the loss that a training step returned, alone or in a mapping; None for neither."""
    loss = outputs.get("loss") if isinstance(outputs, Mapping) else outputs
    return loss if isinstance(loss, torch.Tensor) else None


def value_of(loss: torch.Tensor | None) -> float:
    """Return the number; NaN without a loss."""
    return float("nan") if loss is None else float(loss)
