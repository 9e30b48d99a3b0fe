"""Modules with steps that change behind a proof in what a CUDA graph does not see."""

import pytest
import pytorch_lightning as pl
import replay_stand_in
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from training_together import train_each

from twinrun.config.definitions import Run
from twinrun.training import train

LATE = 2
"""The epoch from which on something is otherwise, behind the first replays."""
SCALE = 0.0


class Usual(pl.LightningModule):
    """Dropout, batch normalisation, a schedule, logs, and attributes that nothing changes."""

    def __init__(self):
        super().__init__()
        self.save_hyperparameters({"width": 8})
        self.net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
        self.norm, self.drop = nn.BatchNorm1d(6), nn.Dropout(0.1)
        self.scale, self.epochs_seen, self.names = 1.0, 0, ["loss"]
        self.make()

    def make(self):
        pass

    def on_train_epoch_start(self):
        self.epochs_seen += 1  # which no step reads
        if self.current_epoch >= LATE:
            self.change()

    def change(self):
        pass

    def train_dataloader(self):
        generator = torch.Generator().manual_seed(5)
        inputs = torch.randn(64, 6, generator=generator)
        return DataLoader(TensorDataset(inputs, inputs[:, :1].sin()), batch_size=8)

    def forward(self, inputs):
        return self.net(self.drop(self.norm(inputs)))

    def loss(self, batch):
        return nn.functional.mse_loss(self(batch[0]), batch[1])

    def training_step(self, batch, batch_idx):
        loss = self.scale * self.loss(batch)
        self.log("train_loss", loss, on_step=True, on_epoch=True)
        return loss

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=0.01)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=4)
        return {"optimizer": optimizer, "lr_scheduler": schedule}


class HandsTheNumberOn(Usual):
    def training_step(self, batch, batch_idx):
        return self.shared(batch, batch_idx, stage="train")

    def shared(self, batch, index, stage):
        loss = self.loss(batch)
        self.log(f"{stage}_loss", loss)
        return loss


class Still(Usual):
    """Without what draws, so that weights can be compared."""

    def make(self):
        self.drop.p = 0.0


class Warm(Still):
    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        if self.current_epoch >= LATE:
            loss = loss + self.net(batch[0]).pow(2).mean()
        return loss


class WarmInAHelper(Still):
    def weight(self):
        return 1.0 if self.trainer.global_step < 16 else 2.0

    def training_step(self, batch, batch_idx):
        return self.weight() * super().training_step(batch, batch_idx)


class Lazy(Still):
    def training_step(self, batch, index):
        return self.shared(batch, index)

    def shared(self, batch, number):
        loss = self.loss(batch)
        if (number + 1) % 8 == 0:
            loss = loss + 5 * self.net(batch[0]).pow(2).mean()
        return loss


class Share(Usual):
    def change(self):
        self.drop.p = 0.5


class Scale(Still):
    def change(self):
        self.scale = 3.0


class Hyperparameter(Still):
    def training_step(self, batch, batch_idx):
        return self.hparams.width * self.loss(batch)

    def change(self):
        self.hparams.width = 2


class OfTheFile(Still):
    def training_step(self, batch, batch_idx):
        return (1 + SCALE) * self.loss(batch)

    def change(self):
        global SCALE
        SCALE = 1.0


class Loss(Still):
    def make(self):
        super().make()
        self.distance = nn.functional.mse_loss

    def loss(self, batch):
        return self.distance(self(batch[0]), batch[1])

    def change(self):
        self.distance = nn.functional.l1_loss


class Tensor(Still):
    def make(self):
        super().make()
        self.centre = torch.zeros(6)

    def loss(self, batch):
        return super().loss((batch[0] - self.centre, batch[1]))

    def change(self):
        self.centre = torch.ones(6)


class OfACallback(Still):
    def configure_callbacks(self):
        return [Sets()]


class Sets(pl.Callback):
    def on_train_epoch_start(self, trainer, pl_module):
        if trainer.current_epoch == LATE:
            pl_module.scale = 3.0


class Buffer(Still):
    def make(self):
        super().make()
        self.register_buffer("centre", torch.zeros(6))

    def loss(self, batch):
        return super().loss((batch[0] - self.centre, batch[1]))

    def change(self):
        self.centre = torch.ones(6)


class Frozen(Still):
    def change(self):
        self.norm.eval()


class Layer(Still):
    def change(self):
        self.net[1] = nn.ReLU()


class LossLayer(Still):
    def make(self):
        super().make()
        self.distance = nn.MSELoss()

    def loss(self, batch):
        return self.distance(self(batch[0]), batch[1])

    def change(self):
        self.distance = nn.L1Loss()


class Shrinks(Still):
    def change(self):
        if self.current_epoch == LATE:
            for parameter in self.net.parameters():
                parameter.data = parameter.data * 0.2


class Hook(Still):
    def change(self):
        if self.current_epoch == LATE:
            self.net[0].register_forward_hook(lambda layer, inputs, output: 2 * output)


class Moments(Still):
    def change(self):
        if self.current_epoch == LATE:
            for state in self.optimizers().state.values():
                state["exp_avg"] = torch.zeros_like(state["exp_avg"])


def train_captured(runs: list[Run]) -> None:
    """Train each with the CPU in place of a GPU, and without a proof, which sees none of it."""
    with pytest.MonkeyPatch.context() as patch:
        replay_stand_in.put_in_place(patch)
        patch.setattr(train, "proven", lambda training: (None, None))
        train_each(runs)
