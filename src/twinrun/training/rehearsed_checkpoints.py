"""Checkpoints of a rehearsal: written as in a training, since a module may read them."""

from pathlib import Path

import pytorch_lightning as pl
import torch

from twinrun.training.without_checkpoints import without_checkpoints


def write_checkpoints_below(module: pl.LightningModule, folder: str) -> list[pl.Callback]:
    """Have the ModelCheckpoints of a module write into a folder, at the end of the one epoch.

    A module may read what they wrote, such as the best weights when the training ends.

    Returns:
        Other callbacks that write checkpoints, once the module was asked for its own: it brings
        them no more, as nobody knows where they write.
    """

    def is_redirected(callback: pl.callbacks.Checkpoint) -> bool:
        if isinstance(callback, pl.callbacks.ModelCheckpoint):
            _redirect(callback, folder)
            return True
        return False

    return without_checkpoints(module, unless=is_redirected)


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
