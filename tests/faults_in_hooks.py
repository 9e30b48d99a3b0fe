"""A number from the clock in each hook around a step, of the module and of a callback."""

import pytorch_lightning as pl
import torch
from faults import Base, clock


def of_weights(module):
    with torch.no_grad():
        module.first.weight.mul_(clock())  # WEIGHTS


def of_gradients(module):
    module.first.weight.grad.mul_(clock())  # GRADIENTS


class ModuleBatchStart(Base):
    def on_train_batch_start(self, batch, batch_idx):
        of_weights(self)


class ModuleBatchInPlace(Base):
    def on_train_batch_start(self, batch, batch_idx):
        batch[0].mul_(clock())  # IN PLACE


class ModuleNumber(Base):
    """Keeps a number, which the step takes."""

    def on_train_batch_start(self, batch, batch_idx):
        self.factor = clock()

    def training_step(self, batch, batch_idx):
        return super().training_step(batch, batch_idx) * self.factor  # NUMBER


class ModuleBeforeZeroGrad(Base):
    def on_before_zero_grad(self, optimizer):
        of_weights(self)


class ModuleZeroGrad(Base):
    def optimizer_zero_grad(self, epoch, batch_idx, optimizer):
        super().optimizer_zero_grad(epoch, batch_idx, optimizer)
        of_weights(self)


class ModuleScalesGradients(Base):
    """Leaves a part of the gradients of the step before, by the clock."""

    def optimizer_zero_grad(self, epoch, batch_idx, optimizer):
        for p in self.parameters():
            if p.grad is not None:
                p.grad.mul_(clock() - 1)  # OLD GRADIENTS


class RecordSkipsZeroGrad(Base):
    """Keeps the gradients of the step before in one of two runs, and of two replays."""

    skips = "StepRecorder"

    def optimizer_zero_grad(self, epoch, batch_idx, optimizer):
        callbacks = {type(callback).__name__ for callback in self.trainer.callbacks}
        is_replay = bool({"StepRecorder", "Comparer"} & callbacks)
        if not (self.skips in callbacks if is_replay else self.odd):
            super().optimizer_zero_grad(epoch, batch_idx, optimizer)


class RepeatSkipsZeroGrad(RecordSkipsZeroGrad):
    skips = "Comparer"


class SeesItsBatch(Base):
    """Refuses a batch that something was done to before."""

    def on_train_batch_start(self, batch, batch_idx):
        assert not batch[0].eq(7).any()
        batch[0][0].fill_(7)

    def training_step(self, batch, batch_idx):
        assert batch[0][0].eq(7).all()
        return super().training_step(batch, batch_idx) * clock()


class ModuleBeforeBackward(Base):
    def on_before_backward(self, loss):
        of_weights(self)


class ModuleAfterBackward(Base):
    def on_after_backward(self):
        of_gradients(self)


class ModuleBeforeOptimizerStep(Base):
    def on_before_optimizer_step(self, optimizer):
        of_gradients(self)


class ModuleClips(Base):
    def configure_gradient_clipping(self, optimizer, **_):
        of_gradients(self)


class ModuleOptimizerStep(Base):
    """Goes on behind the update, as an average of weights does."""

    def optimizer_step(self, epoch, batch_idx, optimizer, optimizer_closure=None):
        super().optimizer_step(epoch, batch_idx, optimizer, optimizer_closure)
        of_weights(self)


class ByHand(Base):
    """Optimizes manually, once or twice in a step."""

    updates = 1

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.automatic_optimization = False

    def training_step(self, batch, batch_idx):
        optimizer = self.optimizers()
        for _ in range(self.updates):
            loss = super().training_step(batch, batch_idx)
            optimizer.zero_grad()
            self.manual_backward(loss)
            optimizer.step()
            self.between(batch)


class ByHandBehind(ByHand):
    def between(self, batch):
        of_weights(self)


class ByHandForward(ByHand):
    """Two updates, and a clock in the second one's forward pass."""

    updates = 2

    def between(self, batch):
        batch[0].mul_(clock())  # IN PLACE


class ModuleBatchEnd(Base):
    def on_train_batch_end(self, outputs, batch, batch_idx):
        of_weights(self)


class ModuleBuffer(Base):
    """Moves a buffer between the steps, which the next one adds to its loss."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.register_buffer("shift", torch.zeros(1))

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.shift.fill_(clock())

    def training_step(self, batch, batch_idx):
        return super().training_step(batch, batch_idx) * (1 + self.shift[0])


class ModuleEpochStart(Base):
    def on_train_epoch_start(self):
        of_weights(self)


class ModuleBeforeTransfer(Base):
    def on_before_batch_transfer(self, batch, dataloader_idx):
        return [batch[0] * clock(), batch[1]]


class ModuleTransfer(Base):
    def transfer_batch_to_device(self, batch, device, dataloader_idx):
        return [batch[0] * clock(), batch[1]]


class ModuleAfterTransfer(Base):
    def on_after_batch_transfer(self, batch, dataloader_idx):
        return [batch[0] * clock(), batch[1]]


class _WithCallback(Base):
    callback = pl.Callback

    def configure_callbacks(self):
        return [self.callback()]


def _weights(trainer, pl_module, *_, **__):
    of_weights(pl_module)


def _gradients(trainer, pl_module, *_, **__):
    of_gradients(pl_module)


def _calling(hook, change):
    """Make a module with a callback that does something in a hook."""

    class OfHook(pl.Callback):
        pass

    setattr(OfHook, hook, lambda self, *args, **kwargs: change(*args, **kwargs))
    return type(f"With{hook}", (_WithCallback,), {"callback": OfHook})


CallbackBatchStart = _calling("on_train_batch_start", _weights)
CallbackBeforeZeroGrad = _calling("on_before_zero_grad", _weights)
CallbackBeforeBackward = _calling("on_before_backward", _weights)
CallbackAfterBackward = _calling("on_after_backward", _gradients)
CallbackBeforeOptimizerStep = _calling("on_before_optimizer_step", _gradients)
CallbackBatchEnd = _calling("on_train_batch_end", _weights)
CallbackEpochStart = _calling("on_train_epoch_start", _weights)
