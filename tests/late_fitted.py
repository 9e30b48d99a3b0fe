"""Trainings on data that make something late: straight, or killed and resumed."""

import pytest
import torch
from resumed import Killed, every, fit
from small import Points, Small
from torch.utils.data import DataLoader

from twinrun.checkpoint.resumable import Resumable
from twinrun.errors import TwinrunError


class MovedByValidation(Small):
    """Its weights depend on what was validated, too."""

    @torch.no_grad()
    def on_validation_epoch_end(self):
        self.output.bias += 1e-3 * self.trainer.callback_metrics["val_loss"]


def data_of(kind, *, is_of_validation=False, workers=0):
    class Late(Points):
        def setup(self, stage):
            self.rows = kind(self)

        def train_dataloader(self):
            if is_of_validation:
                return self._loader(shuffle=True)
            return DataLoader(self.rows, 16, shuffle=True, num_workers=workers)

        def val_dataloader(self):
            if not is_of_validation:
                return self._loader()
            return DataLoader(self.rows, 16, num_workers=workers)

    return Late


def called(kinds):
    return [kind.__name__ for kind in kinds]


def never_wrong(folder, kind, *, kill, minutes=1000, is_noted=True, epochs=3, **where):
    """Resume a killed training; return whether it came to the bits of an uninterrupted one."""
    options = {"data": data_of(kind, **where), "module": MovedByValidation, "minutes": minutes}
    options["max_epochs"] = epochs
    if minutes:
        options["in_epoch"] = every(1)
    whole, _, _ = fit(folder / "whole", **{**options, "in_epoch": None, "minutes": 1000})
    with pytest.MonkeyPatch.context() as patch:
        if not is_noted:
            patch.setattr(Resumable, "_write", killed_behind(Resumable._write, kill))
        fit(folder / "killed", kill=kill if is_noted else 0, **options)
    try:
        found, _, _ = fit(folder / "killed", **options)
    except TwinrunError:  # and the next attempt trains from the beginning
        return False
    assert found == whole
    return True


def killed_behind(write, step):
    """Write a checkpoint, and die before a batch comes."""

    def writes(self, trainer, *arguments):
        write(self, trainer, *arguments)
        if trainer.global_step >= step - 1:
            raise Killed

    return writes
