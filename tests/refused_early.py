"""Workloads that several workers do not train as one; the first keeps count of its steps."""

import os
from pathlib import Path

import torch
from small import Small


class Counted(Small):
    """Writes to a file which step it takes."""

    def __init__(self, width=8, learning_rate=0.05, steps_file=""):
        super().__init__(width, learning_rate)
        self.steps_file = steps_file

    def training_step(self, batch, batch_idx):
        if os.environ.get("RANK", "0") == "0":
            Path(self.steps_file).write_text(str(int(self.calls) + 1))
        return super().training_step(batch, batch_idx)


class NoisyGradients(Counted):
    def on_after_backward(self):
        for parameter in self.parameters():
            parameter.grad += 0.01 * torch.randn_like(parameter)


class NoisyWeights(Counted):
    @torch.no_grad()
    def on_train_batch_end(self, *_):
        for parameter in self.parameters():
            parameter += 0.01 * torch.randn_like(parameter)


class Langevin(torch.optim.SGD):
    @torch.no_grad()
    def step(self, closure=None):
        found = super().step(closure)
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter += 0.01 * torch.randn_like(parameter)
        return found


class NoisySteps(Counted):
    def configure_optimizers(self):
        return Langevin(self.parameters(), lr=0.05)


class EndsEpochs(Counted):
    def on_train_batch_start(self, batch, batch_idx):
        return -1 if batch_idx == 1 else None


class ByHand(Counted):
    """Optimizes by hand, and has torch compute the gradients instead of Lightning."""

    def __init__(self, **options):
        super().__init__(**options)
        self.automatic_optimization = False

    def training_step(self, batch, batch_idx):
        optimizer = self.optimizers()
        optimizer.zero_grad()
        super().training_step(batch, batch_idx).backward()
        optimizer.step()


class ByItsLoss(Counted):
    """Goes by the loss, of which each worker has its shard's."""

    def training_step(self, batch, batch_idx):
        self.loss = super().training_step(batch, batch_idx)
        return self.loss

    def on_before_optimizer_step(self, optimizer):
        optimizer.param_groups[0]["lr"] = 0.01 * float(self.loss)
