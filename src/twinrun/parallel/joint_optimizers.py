"""Which optimizers several workers can step together, each for itself with the same gradients."""

import pytorch_lightning as pl
import torch

from twinrun.errors import TwinrunError
from twinrun.parameters import unheld_parameters


def check_optimizers(trainer: pl.Trainer, module: pl.LightningModule) -> None:
    """Refuse optimizers that would not do the same at every worker.

    Raises:
        TwinrunError: if one trains what the module does not hold, or decides by its own loss.
    """
    # Of these DDP exchanges no gradients: each worker would train its own.
    if unheld_parameters(module.parameters(), trainer.optimizers):
        raise TwinrunError(
            f"devices: an optimizer trains parameters that {type(module).__name__} does not "
            f"hold, whose gradients workers cannot exchange; make their network an attribute "
            f"of the module, or train with devices: 1"
        )
    # Its closure returns a shard's loss: who goes on when others end waits for them for half an
    # hour.
    if any(isinstance(optimizer, torch.optim.LBFGS) for optimizer in trainer.optimizers):
        raise TwinrunError(
            "devices: LBFGS decides by the loss, of which each worker knows its shard's, how often "
            "it computes the gradients of a step; train with devices: 1, or with another optimizer"
        )
