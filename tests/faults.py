"""Small modules and data with one fault each, and clean ones; what each fault is stands beside it.

A fault that a plain repeat must show takes another course in every second training (`odd`), so that
it does not depend on luck.
"""

import ctypes
import itertools
import os
import time

import numpy as np
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

_TRAININGS = itertools.count()


class Base(pl.LightningModule):
    """Clean: two layers, a batch normalisation and a dropout, Adam."""

    def __init__(self):
        super().__init__()
        self.odd = next(_TRAININGS) % 2
        self.first = torch.nn.Linear(4, 8)
        self.norm = torch.nn.BatchNorm1d(8)
        self.dropout = torch.nn.Dropout(0.2)
        self.second = torch.nn.Linear(8, 1)

    def forward(self, inputs):
        return self.second(self.dropout(self.norm(self.first(inputs)).relu()))

    def training_step(self, batch, batch_idx):
        inputs, targets = batch
        return (self(inputs) - targets).square().mean()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


class Points(pl.LightningDataModule):
    """Clean: 40 points, shuffled every epoch."""

    def __init__(self, seed=0, data_workers=0):
        super().__init__()
        self.seed, self.data_workers = seed, data_workers
        generator = torch.Generator().manual_seed(3)
        self.inputs = torch.randn(40, 4, generator=generator)
        self.targets = self.inputs.sum(1, keepdim=True)

    def dataset(self):
        return TensorDataset(self.inputs, self.targets)

    def train_dataloader(self):
        return DataLoader(
            self.dataset(),
            batch_size=8,
            shuffle=True,
            num_workers=self.data_workers,
        )


class Changed(Dataset):
    """Rows of inputs with noise from a function."""

    def __init__(self, data, noise):
        self.data, self.noise = data, noise

    def __len__(self):
        return len(self.data.inputs)

    def __getitem__(self, index):
        noise = torch.as_tensor(self.noise(4), dtype=torch.float32)
        return self.data.inputs[index] + noise, self.data.targets[index]


class UnseededAugmentation(Points):
    """Draws its noise from a generator that nobody seeds."""

    def dataset(self):
        return Changed(self, np.random.default_rng().normal)


class NumpyInWorkers(Points):
    """Draws from NumPy's global generator, which is another one in every data worker."""

    def dataset(self):
        return Changed(self, np.random.normal)


class SetOfStrings(Points):
    """Takes its samples in the order of a set of strings."""

    def train_dataloader(self):
        rows = {f"sample {index}": index for index in range(40)}
        order = [rows[name] for name in set(rows)]
        return DataLoader(TensorDataset(self.inputs[order], self.targets[order]), batch_size=8)


class TimeSeededDropout(Base):
    """Seeds the mask of its dropout from the clock."""

    class Dropout(torch.nn.Module):
        def forward(self, inputs):
            generator = torch.Generator().manual_seed(time.time_ns())
            return inputs * torch.bernoulli(torch.full_like(inputs, 0.8), generator=generator)

    def __init__(self):
        super().__init__()
        self.dropout = self.Dropout()


class DrawingCallback(Base):
    """Has a callback that draws a random number, after the second step of an odd training."""

    class Draws(pl.Callback):
        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
            if pl_module.odd and batch_idx == 1:
                torch.rand(())

    def configure_callbacks(self):
        return [self.Draws()]


class SwappedBatch(Points):
    """Gives its second and third batch in the other order in every odd training."""

    def train_dataloader(self):
        order = torch.arange(40).reshape(5, 8)
        if next(_TRAININGS) % 4 in (0, 3):  # the module's own training counts too
            order = order[[0, 2, 1, 3, 4]]
        order = order.flatten()
        return DataLoader(TensorDataset(self.inputs[order], self.targets[order]), batch_size=8)


class FlippedSign(Base):
    """Turns the sign of the gradient of one layer in every odd training."""

    class Layer(torch.nn.Module):
        class Signed(torch.autograd.Function):
            @staticmethod
            def forward(ctx, inputs, sign):
                ctx.sign = sign
                return inputs.clone()

            @staticmethod
            def backward(ctx, gradient):
                return gradient * ctx.sign, None

        def __init__(self, sign):
            super().__init__()
            self.sign = sign

        def forward(self, inputs):
            return self.Signed.apply(inputs, self.sign)

    def __init__(self):
        super().__init__()
        self.dropout = self.Layer(-1.0 if self.odd else 1.0)


class RacingGather(Base):
    """Gathers 131,072 elements by few indices: with two threads their gradients race."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(16, 512))

    def training_step(self, batch, batch_idx):
        rows = torch.arange(256).repeat(16) % 16
        weights = torch.linspace(1, 2, len(rows))[:, None]
        return (
            super().training_step(batch, batch_idx) + (self.table[rows] * weights).square().mean()
        )


class ClockBuffer(Base):
    """Writes the time into a buffer."""

    def __init__(self):
        super().__init__()
        self.register_buffer("clock", torch.zeros(1, dtype=torch.float64))

    def training_step(self, batch, batch_idx):
        self.clock.fill_(time.time())
        return super().training_step(batch, batch_idx)


class ClockRate(Base):
    """Sets its learning rate from the clock, after each step."""

    def on_train_batch_end(self, outputs, batch, batch_idx):
        for group in self.trainer.optimizers[0].param_groups:
            group["lr"] = 0.01 * (1 + time.time_ns() % 1000 / 1000)


def clock():
    """Return a number between 1 and 2 that is another one at every call."""
    return 1 + time.time_ns() % 1_000_003 / 1_000_003


class ClockRateFromTheStart(Base):
    """Takes the learning rate of its second layers from the clock."""

    def configure_optimizers(self):
        groups = [
            {"params": self.first.parameters()},
            {"params": [*self.norm.parameters(), *self.second.parameters()], "lr": 0.01 * clock()},
        ]
        return torch.optim.SGD(groups, lr=0.01)


class ClockSchedule(Base):
    """Has a schedule that follows the clock from the third step on."""

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.01)
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: clock() if step > 1 else 1.0
        )
        return [optimizer], [{"scheduler": schedule, "interval": "step"}]


class ClockBetas(Base):
    """Takes a beta of its optimizer from the clock."""

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01, betas=(0.9 / clock(), 0.99))


class LateClock(Base):
    """Adds the time to the loss at one step of the second epoch, told by all that tells a step."""

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        at = (self.trainer.current_epoch, self.trainer.global_step, batch_idx)
        if at == (1, 7, 2) and self.trainer.num_training_batches == 5:
            # Float32 tells whole numbers up to 2^24 apart.
            loss = loss + time.time_ns() % 10_000_000
        return loss

    def on_train_batch_start(self, batch, batch_idx):
        assert batch_idx == self.trainer.fit_loop.epoch_loop.batch_idx

    def configure_optimizers(self):
        optimizer = super().configure_optimizers()
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.01, total_steps=12)
        return [optimizer], [{"scheduler": schedule, "interval": "step"}]


class Uninitialised(Base):
    """Adds memory that no operation has written; what lies there is another thing each time.

    What a process finds there is chance, and often zeros: so that the test can fail, something is
    put there behind torch's back.
    """

    def training_step(self, batch, batch_idx):
        unwritten = torch.empty(64)
        ctypes.memmove(unwritten.data_ptr(), os.urandom(256), 256)
        rubbish = unwritten.nan_to_num().clamp(-1, 1).sum()
        return super().training_step(batch, batch_idx) + rubbish


class UnseededWeights(Base):
    """Starts from weights that the seed does not decide."""

    def __init__(self):
        super().__init__()
        noise = np.frombuffer(os.urandom(8), dtype=np.uint8) / 255
        self.second.weight.data += torch.from_numpy(noise).float()


class TwoOptimizers(Base):
    """Clean: manual optimization with an optimizer for each layer; returns nothing."""

    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch, batch_idx):
        inputs, targets = batch
        for optimizer in self.optimizers():
            loss = (self(inputs) - targets).square().mean()
            optimizer.zero_grad()
            self.manual_backward(loss)
            optimizer.step()

    def configure_optimizers(self):
        return [
            torch.optim.SGD(self.first.parameters(), lr=0.01),
            torch.optim.Adam(self.second.parameters(), lr=0.01),
        ]


class ClockRateOfOne(TwoOptimizers):
    """Sets the learning rate of the second of its optimizers from the clock, after each step."""

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.trainer.optimizers[1].param_groups[0]["lr"] = 0.01 * clock()


class Frozen(Base):
    """Clean: the first layer is a pretrained one that does not learn."""

    def __init__(self):
        super().__init__()
        self.first.requires_grad_(False)

    def configure_optimizers(self):
        return torch.optim.Adam(filter(lambda p: p.requires_grad, self.parameters()), lr=0.01)
