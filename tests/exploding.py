"""Small networks of which some become NaN, and tell classes all the same."""

import torch
from small import Small


class Sorts(Small):
    """Tells by the larger of two scores, of which NaN has the first."""

    def predict_step(self, batch, batch_idx):
        return self._scores(batch).argmax(1)

    def test_step(self, batch, batch_idx):
        self.log("test_accuracy", (self._scores(batch).argmax(1) == 0).float().mean())

    def _scores(self, batch):
        first = self(batch[0])
        return torch.cat([first, -first], 1)


class Explodes(Sorts):
    """Its loss is so large that the weights become NaN."""

    def training_step(self, batch, batch_idx):
        return super().training_step(batch, batch_idx) * 1e30


class Averages(Sorts):
    """Skips what would break its weights, and keeps an average that breaks."""

    def __init__(self, **options):
        super().__init__(**options)
        self.register_buffer("running", torch.zeros(()))

    def training_step(self, batch, batch_idx):
        self.running.mul_(torch.nan)
        return super().training_step(batch, batch_idx)


class Masked(Sorts):
    """Masks scores, and has a place for what is not measured yet; both on purpose."""

    def __init__(self, **options):
        super().__init__(**options)
        self.register_buffer("mask", torch.tensor([0.0, -torch.inf]))
        self.register_buffer("best", torch.tensor(torch.nan))
        self.frozen = torch.nn.Parameter(torch.tensor([-torch.inf]), requires_grad=False)

    def on_fit_start(self):
        self.register_buffer("late", torch.tensor(torch.nan))


class NormalizesNothing(Sorts):
    """Its running mean is NaN, with which it computes where it does not train."""

    def __init__(self, **options):
        super().__init__(**options)
        self.norm = torch.nn.BatchNorm1d(1)

    def training_step(self, batch, batch_idx):
        self.norm.running_mean.mul_(torch.nan)
        return super().training_step(batch, batch_idx)


class LossIsNaN(Sorts):
    """Its loss is NaN, and its gradients are left out."""

    def training_step(self, batch, batch_idx):
        return super().training_step(batch, batch_idx) * torch.nan

    def configure_gradient_clipping(self, optimizer, *_, **__):
        optimizer.zero_grad()


class LossIsInfinite(Sorts):
    """Its loss is infinite, and its gradients are not."""

    def training_step(self, batch, batch_idx):
        return super().training_step(batch, batch_idx) + torch.inf


class HandsOn(Small):
    """Predicts numbers, and hands on targets that nobody has."""

    def predict_step(self, batch, batch_idx):
        return {"scores": self(batch[0]), "target": torch.full_like(batch[1], torch.nan)}


class Sparse(Sorts):
    """Holds a sparse matrix, which is refused."""

    def __init__(self, **options):
        super().__init__(**options)
        self.register_buffer("adjacency", torch.eye(4).to_sparse_csr())


class Skips(Sorts):
    """Leaves out a step whose loss is no number, which every loss is."""

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx) * torch.nan
        return loss if loss.isfinite() else None


class SkipsAFew(Sorts):
    """Leaves out the last step of each epoch."""

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        return loss if batch_idx < 4 else None


class Once(Sorts):
    """Gives a loss in the first step of each epoch, and none behind it."""

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        return loss if batch_idx == 0 else None


class ByHand(Sorts):
    """Returns no loss, and steps by itself."""

    def __init__(self, **options):
        super().__init__(**options)
        self.automatic_optimization = False

    def training_step(self, batch, batch_idx):
        optimizer = self.optimizers()
        optimizer.zero_grad()
        self.manual_backward(super().training_step(batch, batch_idx))
        optimizer.step()


class Overflows(Small):
    """Its weights are numbers, and nothing that it predicts is."""

    def predict_step(self, batch, batch_idx):
        return self(batch[0]) * torch.inf * 0
