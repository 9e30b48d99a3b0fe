"""The loss that a training step returned."""

from collections.abc import Mapping

import torch


def loss_of(outputs: object) -> torch.Tensor | None:
    """Return the loss that a training step returned, alone or in a mapping; None for neither.

    ASSUME several values, or a complex one, are no loss: where a module steps by itself it may
    return them.
    """
    loss = outputs.get("loss") if isinstance(outputs, Mapping) else outputs
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1 or loss.is_complex():
        return None
    return loss
