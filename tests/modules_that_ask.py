"""Modules whose step asks for a name that may not be there."""

import types

import pytorch_lightning as pl
import torch

SETTINGS = types.ModuleType("settings_of_modules")


class Asks(pl.LightningModule):
    """Of a Python module, which has it from the third epoch on."""

    def __init__(self):
        super().__init__()
        self.layer, self.losses = torch.nn.Linear(1, 1), []

    def change(self):
        SETTINGS.scale = 5.0

    def on_train_epoch_start(self):
        if self.current_epoch == 2:
            self.change()

    def scale(self):
        return getattr(SETTINGS, "scale", 1.0)

    def training_step(self, batch, batch_idx):
        return self.layer(batch).square().mean() * self.scale()

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.losses.append(float(outputs["loss"]))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.02)


class AsksOfItself(Asks):
    """In its own `__dict__`."""

    def change(self):
        vars(self)["scale"] = 5.0

    def training_step(self, batch, batch_idx):
        scale = vars(self).get("scale", 1.0)
        return self.layer(batch).square().mean() * scale


class Notes(Asks):
    """Nothing comes but what the step itself sets, and a function of another name."""

    def change(self):
        SETTINGS.other = self.other = 5.0

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        self.last_loss = loss.detach()
        return loss
