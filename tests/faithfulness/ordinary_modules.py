"""Modules that do what Lightning's manual shows, in the smallest form that can be told apart.

A class's docstring is its line in docs/faithfulness.md. What a callback or hook keeps (an average
of the weights, say) is in a buffer, where it is compared.
"""

import copy

import pytorch_lightning as pl
import torch
from torch import nn
from torch.nn import functional
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader, TensorDataset

FEATURES = 3


class Plain(pl.LightningModule):
    """Adam, one loss, one log"""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(FEATURES, 4), nn.Linear(4, 1)

    def forward(self, inputs):
        return self.last(self.first(inputs).tanh())

    def loss(self, batch):
        inputs, targets = batch
        return functional.mse_loss(self(inputs), targets)

    def training_step(self, batch, batch_idx):
        loss = self.loss(batch)
        self.log("loss", loss, on_step=True, on_epoch=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.02)


class ClippedByTrainer(Plain):
    """Trainer(gradient_clip_val=...)"""

    def setup(self, stage):
        self.trainer.gradient_clip_val = 0.05

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)


class ClippedByHook(Plain):
    """configure_gradient_clipping"""

    def configure_gradient_clipping(
        self, optimizer, gradient_clip_val=None, gradient_clip_algorithm=None
    ):
        self.clip_gradients(optimizer, gradient_clip_val=0.02, gradient_clip_algorithm="value")


class KeepsRatesInFloat32(Plain):
    """ASGD, whose rates torch keeps in float32 beside parameters of float64"""

    def configure_optimizers(self):
        return torch.optim.ASGD(self.parameters(), lr=0.05, t0=2)


class KeepsRatesAndClips(KeepsRatesInFloat32, ClippedByHook):
    """The same, clipped in configure_gradient_clipping"""


class DrawsForNothing(Plain):
    """Draws random numbers that nothing uses, before those of a dropout"""

    def training_step(self, batch, batch_idx):
        torch.rand(7)
        points, values = batch
        loss = nn.functional.mse_loss(nn.functional.dropout(self(points), 0.2), values)
        self.log("loss", loss)
        return loss


class ClippedBeforeStep(Plain):
    """Clipping in on_before_optimizer_step"""

    def on_before_optimizer_step(self, optimizer):
        nn.utils.clip_grad_norm_(self.parameters(), 0.05)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class StepSchedule(Plain):
    """A rate that changes at every step"""

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.05)
        schedule = lr_scheduler.ExponentialLR(optimizer, 0.7)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": schedule, "interval": "step"},
        }


class EpochSchedule(Plain):
    """A rate that changes at every epoch"""

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9, nesterov=True)
        return [optimizer], [lr_scheduler.StepLR(optimizer, 1, gamma=0.3)]


class Plateau(Plain):
    """ReduceLROnPlateau"""

    def configure_optimizers(self):
        optimizer = torch.optim.RMSprop(self.parameters(), lr=0.02)
        schedule = lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.1, patience=0, threshold=9)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "monitor": "loss"}}


class OneCycle(Plain):
    """OneCycleLR, which moves rate and momentum"""

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)
        schedule = lr_scheduler.OneCycleLR(
            optimizer, 0.1, total_steps=int(self.trainer.estimated_stepping_batches)
        )
        return [optimizer], [{"scheduler": schedule, "interval": "step"}]


class Averaged(Plain):
    """Keeps an average of the weights; the base of two below"""

    def __init__(self):
        super().__init__()
        self.register_buffer("average", torch.zeros(FEATURES * 4))

    def update_average(self):
        self.average.mul_(0.5).add_(self.first.weight.detach().flatten(), alpha=0.5)


class AverageByCallback(Averaged):
    """An EMA kept by a callback's on_train_batch_end"""

    def configure_callbacks(self):
        class Average(pl.Callback):
            def on_train_batch_end(self, trainer, pl_module, *_):
                pl_module.update_average()

        return [Average()]


class AverageByOptimizerHook(Averaged):
    """An EMA kept by register_step_post_hook"""

    def configure_optimizers(self):
        optimizer = super().configure_optimizers()
        optimizer.register_step_post_hook(lambda *_: self.update_average())
        return optimizer


class AverageBeforeZeroGrad(Averaged):
    """An EMA kept by on_before_zero_grad"""

    def on_before_zero_grad(self, optimizer):
        self.update_average()


class HookFromSecondEpoch(Plain):
    """register_step_post_hook in the second epoch, which shrinks the weights"""

    def on_train_epoch_start(self):
        if self.current_epoch == 1:
            optimizer = self.optimizers(use_pl_optimizer=False)
            optimizer.register_step_post_hook(lambda *_: self.shrink())

    @torch.no_grad()
    def shrink(self):
        for parameter in self.parameters():
            parameter.mul_(0.9)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class DecayGroups(Plain):
    """Two groups with their own weight decay and rate"""

    def configure_optimizers(self):
        groups = [
            {"params": [self.first.weight, self.last.weight], "weight_decay": 0.1},
            {"params": [self.first.bias, self.last.bias], "weight_decay": 0.0, "lr": 0.01},
        ]
        return torch.optim.AdamW(groups, lr=0.03)


class Unfrozen(Plain):
    """A layer unfrozen in the second epoch"""

    def __init__(self):
        super().__init__()
        self.first.requires_grad_(False)

    def on_train_epoch_start(self):
        self.first.requires_grad_(self.current_epoch >= 1)


class LateGroup(Plain):
    """add_param_group in the second epoch, as BaseFinetuning does"""

    def on_train_epoch_start(self):
        if self.current_epoch == 1:
            self.first.requires_grad_(True)
            optimizer = self.optimizers(use_pl_optimizer=False)
            optimizer.add_param_group({"params": list(self.first.parameters()), "lr": 0.01})

    def configure_optimizers(self):
        self.first.requires_grad_(False)
        return torch.optim.Adam(self.last.parameters(), lr=0.02)


class StepsEverySecond(Plain):
    """Accumulates by itself: optimizer_step and optimizer_zero_grad at every second batch"""

    def optimizer_step(self, epoch, batch_idx, optimizer, optimizer_closure=None):
        if self.trainer.fit_loop.epoch_loop.total_batch_idx % 2:
            super().optimizer_step(epoch, batch_idx, optimizer, optimizer_closure)
        else:
            optimizer_closure()

    def optimizer_zero_grad(self, epoch, batch_idx, optimizer):
        if self.trainer.fit_loop.epoch_loop.total_batch_idx % 2 == 0:
            optimizer.zero_grad()


class WarmUp(Plain):
    """A warm-up in optimizer_step"""

    def optimizer_step(self, epoch, batch_idx, optimizer, optimizer_closure=None):
        optimizer.step(closure=optimizer_closure)
        for group in optimizer.param_groups:
            group["lr"] = 0.02 * min(1.0, (self.trainer.global_step + 1) / 5)


class OwnBackward(Plain):
    """Its own backward: a second loss is added to the gradients"""

    def backward(self, loss, *arguments, **options):
        loss.backward()
        (0.1 * sum(p.square().sum() for p in self.parameters())).backward()


class AroundBackward(Plain):
    """on_before_backward counts, on_after_backward changes the gradients"""

    def __init__(self):
        super().__init__()
        self.register_buffer("losses", torch.zeros(()))

    def on_before_backward(self, loss):
        self.losses += loss.detach()

    def on_after_backward(self):
        for parameter in self.parameters():
            parameter.grad += 0.01 * parameter.detach()


class ClippedByCallback(Plain):
    """A callback that clips in on_before_optimizer_step"""

    def configure_callbacks(self):
        class Clip(pl.Callback):
            def on_before_optimizer_step(self, trainer, pl_module, optimizer):
                nn.utils.clip_grad_norm_(pl_module.parameters(), 0.01)

        return [Clip()]

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class ParameterHook(Plain):
    """A hook of a parameter (Tensor.register_hook) that masks its gradient"""

    def __init__(self):
        super().__init__()
        mask = torch.arange(FEATURES * 4).reshape(4, FEATURES) % 2
        self.first.weight.register_hook(lambda gradient: gradient * mask.to(gradient))


class Tied(Plain):
    """Two layers that share a weight"""

    def __init__(self):
        super().__init__()
        self.middle, self.again = nn.Linear(4, 4), nn.Linear(4, 4)
        self.again.weight = self.middle.weight

    def forward(self, inputs):
        return self.last(self.again(self.middle(self.first(inputs).tanh()).tanh()))


class TwoOptimizers(Plain):
    """Manual optimization with two optimizers and a schedule"""

    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch, batch_idx):
        for optimizer in self.optimizers():
            loss = self.loss(batch)
            optimizer.zero_grad()
            self.manual_backward(loss)
            optimizer.step()
        self.lr_schedulers().step()
        self.log("loss", loss, on_step=True, on_epoch=True)

    def configure_optimizers(self):
        first = torch.optim.SGD(self.first.parameters(), lr=0.1)
        last = torch.optim.Adam(self.last.parameters(), lr=0.01)
        return [first, last], [lr_scheduler.ExponentialLR(first, 0.8)]


class Dropout(Plain):
    """Two layers of dropout"""

    def forward(self, inputs):
        hidden = functional.dropout(self.first(inputs).tanh(), 0.4, self.training)
        return self.last(functional.dropout(hidden, 0.2, self.training))


class BatchNorm(Plain):
    """Batch normalisation"""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)

    def forward(self, inputs):
        return self.last(self.norm(self.first(inputs)).tanh())


class Convolution(Plain):
    """A convolution and batch normalisation on images made of the inputs"""

    def __init__(self):
        super().__init__()
        self.convolution, self.norm = nn.Conv2d(FEATURES, 4, 3, bias=False), nn.BatchNorm2d(4)

    def forward(self, inputs):
        ramp = torch.linspace(-1, 1, 25, dtype=inputs.dtype, device=inputs.device).reshape(5, 5)
        images = inputs[:, :, None, None] * ramp
        return self.last(self.norm(self.convolution(images)).tanh().mean((2, 3)))


class Buffers(Plain):
    """Buffers updated in place in training_step: a running scale, a counter"""

    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.ones(()))
        self.register_buffer("count", torch.zeros((), dtype=torch.long))

    def loss(self, batch):
        found = super().loss(batch)
        with torch.no_grad():
            self.scale.mul_(0.9).add_(0.1 * found.detach())
            self.count += 1
        return found / self.scale


class MadeInSetup(Plain):
    """Layers made in setup"""

    def __init__(self):
        super().__init__()
        del self.first

    def setup(self, stage):
        if not hasattr(self, "first"):
            self.first = nn.Sequential(nn.Linear(FEATURES, 4), nn.BatchNorm1d(4))


class MadeInConfigureModel(Plain):
    """Layers made in configure_model"""

    def __init__(self):
        super().__init__()
        self.middle = None

    def configure_model(self):
        if self.middle is None:
            self.middle = nn.Sequential(nn.Conv2d(1, 2, 2), nn.BatchNorm2d(2))

    def forward(self, inputs):
        hidden = self.first(inputs).reshape(-1, 1, 2, 2)
        return self.last(torch.cat([self.middle(hidden).flatten(1), hidden.flatten(1)[:, :2]], 1))


class SkippedBatches(Plain):
    """training_step returns None for some batches"""

    def training_step(self, batch, batch_idx):
        return None if batch_idx == 1 else super().training_step(batch, batch_idx)


class UsesOutputs(Averaged):
    """training_step returns more than the loss, and on_train_batch_end uses it"""

    def training_step(self, batch, batch_idx):
        return {"loss": self.loss(batch), "mean": self(batch[0]).mean()}

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.average += outputs["mean"].detach()


class ChangingHeads(Plain):
    """Which layer is trained depends on the batch's number"""

    def __init__(self):
        super().__init__()
        self.other = nn.Linear(4, 1)

    def training_step(self, batch, batch_idx):
        inputs, targets = batch
        head = self.last if batch_idx % 2 == 0 else self.other
        return functional.mse_loss(head(self.first(inputs)), targets)


class Annealed(Plain):
    """A Python number that changes at every step weighs the loss"""

    def __init__(self):
        super().__init__()
        self.weight = 0.1

    def training_step(self, batch, batch_idx):
        loss = self.weight * self.loss(batch)
        self.weight = min(1.0, self.weight + 0.03)
        return loss


class ByEpoch(Plain):
    """The loss depends on current_epoch"""

    def training_step(self, batch, batch_idx):
        return self.loss(batch) / (1 + self.current_epoch)


class ReadsBack(Plain):
    """Reads a value back in training_step and logs a Python number"""

    def training_step(self, batch, batch_idx):
        loss = self.loss(batch)
        self.log("number", 2.0 * loss.item())
        return loss if loss.item() < 1.0 else loss.sqrt()


class Lbfgs(Plain):
    """LBFGS, which calls its closure several times"""

    def configure_optimizers(self):
        return torch.optim.LBFGS(self.parameters(), lr=0.1, max_iter=3)


class OwnOptimizer(Plain):
    """An optimizer of the user's own class, with a decorated step"""

    def configure_optimizers(self):
        class Signed(torch.optim.SGD):
            @torch.no_grad()
            def step(self, closure=None):
                loss = super().step(closure)
                for group in self.param_groups:
                    for parameter in group["params"]:
                        parameter.mul_(0.99)
                return loss

        return Signed(self.parameters(), lr=0.1)


class OutsideOptimizer(Averaged):
    """A parameter that no optimizer holds, whose gradient is read"""

    def __init__(self):
        super().__init__()
        self.probe = nn.Parameter(torch.zeros(FEATURES * 4))

    def loss(self, batch):
        return super().loss(batch) + (self.probe * self.first.weight.flatten()).sum()

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.average += self.probe.grad

    def configure_optimizers(self):
        return torch.optim.SGD([*self.first.parameters(), *self.last.parameters()], lr=0.05)


class Teacher(Plain):
    """A frozen copy of the network, renewed at every epoch's end"""

    def __init__(self):
        super().__init__()
        self.teacher = copy.deepcopy(self.first).requires_grad_(False)

    def loss(self, batch):
        known = self.teacher(batch[0])
        return super().loss(batch) + functional.mse_loss(self.first(batch[0]), known + 0.1)

    def on_train_epoch_end(self):
        self.teacher.load_state_dict(self.first.state_dict())


class Points(pl.LightningDataModule):
    """Three batches an epoch, the last of another shape; shuffled."""

    def __init__(self, data_workers=0, persistent_workers=False):
        super().__init__()
        self.persistent_workers = persistent_workers
        generator = torch.Generator().manual_seed(5)
        inputs = torch.randn(21, FEATURES, generator=generator)
        targets = inputs.prod(1, keepdim=True) + inputs.sum(1, keepdim=True)
        self.dataset, self.data_workers = TensorDataset(inputs, targets), data_workers

    def train_dataloader(self):
        return DataLoader(
            self.dataset,
            batch_size=8,
            shuffle=True,
            num_workers=self.data_workers,
            persistent_workers=self.persistent_workers,
            generator=torch.Generator().manual_seed(6),
        )


class OneBatch(Points):
    """All in one batch, which stays where it is."""

    def train_dataloader(self):
        return DataLoader([list(self.dataset.tensors)], batch_size=None, collate_fn=list)


class EverySecondStep(Plain):
    """A schedule of steps with a frequency of 2"""

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=0.05)
        schedule = lr_scheduler.ExponentialLR(optimizer, 0.7)
        config = {"scheduler": schedule, "interval": "step", "frequency": 2}
        return {"optimizer": optimizer, "lr_scheduler": config}


class TakesArguments(Plain):
    """training_step(self, *args)"""

    def training_step(self, *args):
        batch, batch_idx = args
        return super().training_step(batch, batch_idx)


class CountsInUpdate(Plain):
    """Adagrad, of which torch has no capturable form"""

    def configure_optimizers(self):
        return torch.optim.Adagrad(self.parameters(), lr=0.1, lr_decay=0.1)


MODULES = [
    Plain,
    ClippedByTrainer,
    ClippedByHook,
    ClippedBeforeStep,
    ClippedByCallback,
    StepSchedule,
    EpochSchedule,
    Plateau,
    OneCycle,
    WarmUp,
    AverageByCallback,
    AverageByOptimizerHook,
    AverageBeforeZeroGrad,
    HookFromSecondEpoch,
    DecayGroups,
    Unfrozen,
    LateGroup,
    StepsEverySecond,
    OwnBackward,
    AroundBackward,
    ParameterHook,
    Tied,
    TwoOptimizers,
    Dropout,
    BatchNorm,
    Convolution,
    Buffers,
    MadeInSetup,
    MadeInConfigureModel,
    SkippedBatches,
    UsesOutputs,
    ChangingHeads,
    Annealed,
    ByEpoch,
    ReadsBack,
    Lbfgs,
    OwnOptimizer,
    OutsideOptimizer,
    Teacher,
    EverySecondStep,
    TakesArguments,
    CountsInUpdate,
]
