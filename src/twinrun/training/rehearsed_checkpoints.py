"""Checkpoints of a rehearsal: written as in a training, since a module may read them."""

from collections.abc import Sequence
from pathlib import Path

import pytorch_lightning as pl
import torch


def write_checkpoints_below(module: pl.LightningModule, folder: str) -> list[pl.Callback]:
    """Have the ModelCheckpoints of a module write into a folder, at the end of the one epoch.

    A module may read what they wrote, such as the best weights when the training ends.

    Returns:
        Other callbacks that write checkpoints, once the module was asked for its own: it brings
        them no more, as nobody knows where they write.
    """
    original = module.configure_callbacks
    left_out: list[pl.Callback] = []

    def configure_callbacks() -> list[pl.Callback]:
        found = original()
        callbacks = list(found) if isinstance(found, Sequence) else [found]
        left_out.clear()
        for callback in callbacks:
            if isinstance(callback, pl.callbacks.ModelCheckpoint):
                _redirect(callback, folder)
            elif isinstance(callback, pl.callbacks.Checkpoint):
                left_out.append(callback)
        return [callback for callback in callbacks if callback not in left_out]

    module.configure_callbacks = configure_callbacks
    return left_out


def _redirect(callback: pl.callbacks.ModelCheckpoint, folder: str) -> None:
    if callback.dirpath is not None and not Path(callback.dirpath).is_relative_to(folder):
        # The anchor of an absolute path would have the last word.
        callback.dirpath = str(Path(folder, str(callback.dirpath).lstrip("/")))
    # The first epoch is the only one, and may log less than later ones.
    callback._every_n_epochs = 1
    original = type(callback)._monitor_candidates

    def candidates(trainer: pl.Trainer) -> dict[str, torch.Tensor]:
        found = original(callback, trainer)
        if callback.monitor is not None:
            found.setdefault(callback.monitor, torch.zeros(()))
        return found

    callback._monitor_candidates = candidates
