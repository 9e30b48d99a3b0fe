"""Gradients that live from one batch to the next are state, and a checkpoint holds them."""

import pytest
import torch
from resumed import assert_resumed
from small import Restless


class Unvalidated(Restless):
    """Needs no validation: one would zero all gradients before the next epoch starts."""

    def configure_callbacks(self):
        return []


class ByHand(Unvalidated):
    """Steps at every second batch; of an odd number of batches the last one waits."""

    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch, batch_idx):
        optimizer = self.optimizers()
        loss = super().training_step(batch, batch_idx)
        self.manual_backward(loss)
        if batch_idx % 2:
            optimizer.step()
            optimizer.zero_grad()
        return loss.detach()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.05)


class Fading(Unvalidated):
    """Keeps a part of each gradient, as a momentum of its own."""

    def optimizer_zero_grad(self, epoch, batch_idx, optimizer):
        for parameter in self.parameters():
            if parameter.grad is not None:
                parameter.grad.mul_(0.5)


class LooksBack(Unvalidated):
    """Weighs its loss by the last gradient."""

    def training_step(self, batch, batch_idx):
        last = self.output.weight.grad
        loss = super().training_step(batch, batch_idx)
        return loss if last is None else loss * (1 + last.norm())


class Indexed(Unvalidated):
    """Has an embedding with sparse gradients, which are kept in part."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(5, 1, sparse=True)

    def forward(self, inputs):
        return super().forward(inputs) + self.table(inputs[:, 0].abs().long().clamp(max=4))

    def optimizer_zero_grad(self, epoch, batch_idx, optimizer):
        if batch_idx % 2:
            super().optimizer_zero_grad(epoch, batch_idx, optimizer)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)


MODULES = [ByHand, Fading, LooksBack, Indexed]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("module", MODULES)
def test_they_go_on_where_an_epoch_starts(tmp_path, module):
    """Red before: the resumed training began without any, and ended in other bits."""
    options = {"minutes": 0, "max_epochs": 3, "limit_val_batches": 0}
    assert_resumed(tmp_path, [5], kills=[8], every_batches=1000, module=module, **options)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("module", MODULES)
def test_they_go_on_in_mid_epoch(tmp_path, module):
    assert_resumed(tmp_path, [3], kills=[4], module=module, limit_val_batches=0)


class BackwardAtStart(LooksBack):
    """Has gradients before the first epoch, as each process that trains it."""

    def on_train_start(self):
        self(torch.ones(2, 4)).sum().backward()


def test_none_are_left_where_there_were_none(tmp_path):
    """Red before: a validation had zeroed them, and the resumed training read its own."""
    options = {"minutes": 0, "max_epochs": 3, "module": BackwardAtStart}
    assert_resumed(tmp_path, [5], kills=[8], every_batches=1000, **options)
