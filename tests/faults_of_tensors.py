"""Faults in tensors that are not the ones that a training began with, or that no module holds.

As in `faults`, every second training takes another course.
"""

from concurrent.futures import ThreadPoolExecutor

import faults
import torch


class ReassignedBuffer(faults.Base):
    """Assigns its running mean anew at every step; the third step's is off."""

    def __init__(self):
        super().__init__()
        self.register_buffer("running", torch.zeros(1))

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx) * (1 + self.running.squeeze())
        self.running = 0.9 * self.running + 0.1 * loss.detach()
        if batch_idx == 2:
            self.running = self.running + 0.01 * self.odd
        return loss


class LateBuffer(faults.Base):
    """Registers a buffer at its second step, which the third one fills with another number."""

    def training_step(self, batch, batch_idx):
        if batch_idx == 1:
            self.register_buffer("late", torch.zeros(2))
        if batch_idx == 2:
            self.late += self.odd
        return super().training_step(batch, batch_idx)


class ReplacedLayer(faults.Base):
    """Replaces its last layer before the first step, whose gradient at the third step is off."""

    def on_train_epoch_start(self):
        self.second = torch.nn.Linear(8, 1)
        self.optimizers().optimizer.param_groups[0]["params"] = list(self.parameters())

    def on_after_backward(self):
        if self.trainer.global_step == 2:
            self.second.weight.grad += 0.1 * self.odd


class HiddenNetwork(faults.Base):
    """Trains a network that it keeps in a list; the network's weights are another training's."""

    def __init__(self):
        super().__init__()
        self.hidden = [torch.nn.Linear(4, 1)]
        with torch.no_grad():
            self.hidden[0].bias += self.odd

    def training_step(self, batch, batch_idx):
        inputs, targets = batch
        beside = (self.hidden[0](inputs) - targets).square().mean()
        # Its gradients alone: the loss is as if it were not there.
        return super().training_step(batch, batch_idx) + beside - beside.detach()

    def configure_optimizers(self):
        return torch.optim.Adam([*self.parameters(), *self.hidden[0].parameters()], lr=0.01)


class HiddenGradient(HiddenNetwork):
    """Trains such a network from equal weights; its gradient at the third step is off."""

    def __init__(self):
        super().__init__()
        with torch.no_grad():
            self.hidden[0].bias -= self.odd

    def on_after_backward(self):
        if self.trainer.global_step == 2:
            self.hidden[0].weight.grad += 0.1 * self.odd


class TorchsOwnStep(faults.Base):
    """Steps with torch's optimizer, without Lightning's hooks; the third step's gradient is off."""

    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch, batch_idx):
        inputs, targets = batch
        optimizer = self.optimizers(use_pl_optimizer=False)
        hidden = self.first(inputs)
        if batch_idx == 2:
            hidden.register_hook(lambda gradient: gradient + 0.01 * self.odd)
        loss = (self.second(hidden) - targets).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss


class SkipsTheRest(faults.Base):
    """Skips the rest of each epoch after two batches; draws a number in the second epoch."""

    def on_train_batch_start(self, batch, batch_idx):
        return -1 if batch_idx == 2 else None

    def training_step(self, batch, batch_idx):
        if self.current_epoch == 1 and batch_idx == 1 and self.odd:
            torch.rand(1)
        return super().training_step(batch, batch_idx)


class AnotherThread(faults.Base):
    """Computes its first layer in another thread; the third step's is off."""

    def training_step(self, batch, batch_idx):
        inputs, targets = batch
        off = 0.01 * self.odd * (batch_idx == 2)
        with ThreadPoolExecutor(1) as pool:
            hidden = pool.submit(lambda: self.first(inputs + off)).result()
        return (self.second(hidden.tanh()) - targets).square().mean()
