"""Small trainings of which one is rounded otherwise, or computes something else."""

import copy
import json
import os

import torch
from small import Points, Small
from torch.nn import functional
from torch.utils.data import DataLoader


class Clipped(Small):
    """Clips gradients, to CLIP, under an optimizer that does not feel their scale at first."""

    def __init__(self, optimizer="Adam", width=8):
        super().__init__(width=width)
        self.name = optimizer

    def on_before_optimizer_step(self, optimizer):
        torch.nn.utils.clip_grad_norm_(self.parameters(), float(os.environ.get("CLIP", "inf")))

    def configure_optimizers(self):
        return getattr(torch.optim, self.name)(self.parameters(), lr=0.01)


class Inside(torch.optim.Adam):
    """Takes INSIDE, settings by name, for the time of a step alone, so that nobody reads them."""

    def step(self, closure=None):
        (group,) = self.param_groups
        own, told = {**group}, json.loads(os.environ.get("INSIDE", "{}"))
        group.update(told)
        found = super().step(closure)
        group.update({name: own[name] for name in told})
        return found


class SetsInside(Small):
    def configure_optimizers(self):
        return Inside(self.parameters(), lr=0.01)


class Precise(Small):
    """Keeps double precision, and adds a small PENALTY to the loss; in SINGLE precision, if so."""

    def __init__(self, single=False):
        super().__init__()
        self.single = single
        self.double()

    def training_step(self, batch, batch_idx):
        inputs, targets = (part.double() for part in batch)
        found = self(inputs)
        squares = sum(p.square().sum() for p in self.parameters())
        if self.single:
            found, targets, squares = found.float(), targets.float(), squares.float()
        if os.environ.get("FLIPPED"):
            found, targets = found.flip(0), targets.flip(0)
        return (found - targets).square().mean() + float(os.environ.get("PENALTY", "0")) * squares

    test_step = None

    def validation_step(self, batch, batch_idx):
        pass

    def predict_step(self, batch, batch_idx):
        return self(batch[0].double())


class Standardised(Precise):
    """Standardises its batch as it comes, ahead of a network of double precision."""

    def training_step(self, batch, batch_idx):
        inputs, targets = batch[0] + 10, batch[1]
        seen = inputs.flip(0) if os.environ.get("FLIPPED") else inputs
        moved = (inputs - seen.mean(0)) / seen.std(0)
        return super().training_step([moved, targets], batch_idx)


class Critic(Small):
    """A difference of two means that are nearly equal."""

    def __init__(self):
        super().__init__(width=128)

    def training_step(self, batch, batch_idx):
        inputs = batch[0] + 3
        return self(inputs.roll(1, 1)).mean() - self(inputs).mean()

    def configure_optimizers(self):
        return torch.optim.RMSprop(self.parameters(), lr=5e-5)


class HandsOn(Small):
    """Batch normalisation behind a bias, Adam, and no loss that is given."""

    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.norm = torch.nn.BatchNorm1d(8)

    def forward(self, inputs):
        return self.output(self.norm(self.hidden(inputs)).relu())

    def training_step(self, batch, batch_idx):
        inputs, targets = (part.flip(0) if os.environ.get("FLIPPED") else part for part in batch)
        optimizer = self.optimizers()
        optimizer.zero_grad()
        self.manual_backward(functional.mse_loss(self(inputs), targets))
        optimizer.step()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


class Whole(Points):
    """Batches of 32 samples, in their order."""

    def train_dataloader(self):
        data = torch.utils.data.TensorDataset(self.inputs, self.targets)
        return DataLoader(data, batch_size=32)


class Taught(Small):
    """Learns from what it computes itself, in double precision: all is rounding at its start."""

    def __init__(self, optimizer="Adam", rate=0.01):
        super().__init__(width=128)
        self.name, self.rate = optimizer, rate
        self.teacher = copy.deepcopy(torch.nn.Sequential(self.hidden, torch.nn.ReLU(), self.output))
        self.teacher.requires_grad_(requires_grad=False)

    def forward(self, inputs):
        weight = self.hidden.weight
        if os.environ.get("FLIPPED"):
            inputs, weight = inputs.flip(1), weight.flip(1)
        return self.output(functional.linear(inputs, weight, self.hidden.bias).relu())

    def training_step(self, batch, batch_idx):
        taught = copy.deepcopy(self.teacher).double()(batch[0].double()).float()
        return (self(batch[0]) - taught).square().mean()

    def configure_optimizers(self):
        trained = [*self.hidden.parameters(), *self.output.parameters()]
        return getattr(torch.optim, self.name)(trained, lr=self.rate)
