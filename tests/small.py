"""A small workload for tests of what surrounds a workload: a network of 49 parameters."""

import os
import random
import signal
import time
from pathlib import Path

import numpy as np
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader, TensorDataset, random_split
from torchmetrics import SumMetric


class Small(pl.LightningModule):
    def __init__(self, width=8, learning_rate=0.05):
        super().__init__()
        self.save_hyperparameters()
        self.hidden = torch.nn.Linear(4, width)
        self.output = torch.nn.Linear(width, 1)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, inputs):
        return self.output(self.hidden(inputs).relu())

    def _step(self, batch, name):
        inputs, targets = batch
        loss = (self(inputs) - targets).square().mean()
        self.log(name, loss, on_step=False, on_epoch=True)
        return loss

    def training_step(self, batch, batch_idx):
        self.calls += 1
        return self._step(batch, "train_loss")

    def validation_step(self, batch, batch_idx):
        self._step(batch, "val_loss")

    def test_step(self, batch, batch_idx):
        self._step(batch, "test_loss")

    def predict_step(self, batch, batch_idx):
        return self(batch[0])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=self.hparams.learning_rate)


class Points(pl.LightningDataModule):
    def __init__(self, size=70, seed=0, data_workers=0):
        super().__init__()
        self.data_workers = data_workers
        generator = torch.Generator().manual_seed(seed)
        self.inputs = torch.randn(size, 4, generator=generator)
        self.targets = self.inputs.sum(1, keepdim=True)

    def _loader(self, **options):
        data = TensorDataset(self.inputs, self.targets)
        return DataLoader(data, batch_size=16, num_workers=self.data_workers, **options)

    def train_dataloader(self):
        return self._loader(shuffle=True)

    def val_dataloader(self):
        return self._loader()

    test_dataloader = val_dataloader
    predict_dataloader = val_dataloader


class OneLoader(Points):
    """Makes one loader, for training and all else."""

    def setup(self, stage):
        self.loader = self._loader(shuffle=stage == "fit")

    def train_dataloader(self):
        return self.loader

    def val_dataloader(self):
        return self.train_dataloader()

    test_dataloader = val_dataloader
    predict_dataloader = val_dataloader


class Splits(Points):
    """Chooses by chance what is trained on, and in which order."""

    def setup(self, stage):
        self.chosen = random_split(range(len(self.inputs)), [0.7, 0.3])

    def train_dataloader(self):
        order = np.random.permutation(self.chosen[0].indices)
        return self._loader(sampler=order.tolist())

    def val_dataloader(self):
        return self._loader(sampler=self.chosen[1].indices)

    test_dataloader = val_dataloader
    predict_dataloader = val_dataloader


class Drops(Small):
    """Drops hidden units by chance."""

    def forward(self, inputs):
        hidden = self.hidden(inputs).relu()
        return self.output(torch.nn.functional.dropout(hidden, 0.2, self.training))


class Masks(Small):
    """Draws in `setup` which inputs it looks at, and noise for its weights in each epoch."""

    def setup(self, stage):
        if stage == "fit":
            self.register_buffer("mask", torch.randint(1, 5, (4,)))

    def forward(self, inputs):
        return super().forward(inputs * self.mask)

    @torch.no_grad()
    def on_train_epoch_start(self):
        self.output.bias += random.random()


class LooksAtData(Small):
    """Asks for the training data wherever one can, and in the first of several processes alone."""

    def samples(self):
        return sum(len(inputs) for inputs, _ in self.trainer.datamodule.train_dataloader())

    def on_train_start(self):
        self.found = [self.samples(), len(self.trainer.train_dataloader.dataset)]

    def on_train_epoch_start(self):
        self.steps = len(self.trainer.datamodule.train_dataloader())

    def on_train_epoch_end(self):
        if self.trainer.is_global_zero:
            self.found.append(sum(len(inputs) for inputs, _ in self.trainer.train_dataloader))
            self.found.append(self.samples())
        self.log("steps", float(self.steps))
        self.log("least", float(min(self.found)))


class Normalised(Small):
    """A bias that is 0 and that batch normalisation takes away again: its gradient is rounding."""

    def __init__(self, **options):
        super().__init__(**options)
        torch.nn.init.zeros_(self.hidden.bias)
        self.norm = torch.nn.BatchNorm1d(self.hidden.out_features)

    def forward(self, inputs):
        return self.output(self.norm(self.hidden(inputs)).relu())

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.hparams.learning_rate)


class SkipsSteps(Small):
    """Ends each epoch before its last step, of which Lightning says nothing."""

    def on_train_batch_start(self, batch, batch_idx):
        return -1 if batch_idx == 4 else None


class StopsInOne(Small):
    """One of two workers ends the training, by itself, in the middle of the second epoch."""

    def training_step(self, batch, batch_idx):
        if self.calls == 6 and os.environ.get("RANK", "1") == "1":
            self.trainer.should_stop = True
        return super().training_step(batch, batch_idx)


class StopsInOneLater(Small):
    """Likewise, in a hook that comes when the workers have exchanged what a step needs."""

    def on_train_batch_end(self, *_):
        if self.calls == 7 and os.environ.get("RANK", "1") == "1":
            self.trainer.should_stop = True


class StopsInOneValidated(Small):
    """Likewise, when it has validated."""

    def on_validation_end(self):
        StopsInOneLater.on_train_batch_end(self)


class StopsEarly(Small):
    """Is stopped at its third validation."""

    def configure_callbacks(self):
        return [pl.callbacks.EarlyStopping("val_loss", min_delta=1e9, patience=2)]


class Undeterministic(Small):
    """Uses an operation that has no reproducible implementation on a CPU."""

    def training_step(self, batch, batch_idx):
        values = batch[0][:, 0]
        torch.zeros(4).put_(torch.zeros(len(values), dtype=torch.int64), values)
        return self._step(batch, "train_loss")


class ClipsByValue(Small):
    def configure_gradient_clipping(self, optimizer, gradient_clip_val=None, **options):
        self.clip_gradients(optimizer, gradient_clip_val=0.02, gradient_clip_algorithm="value")


class Reading(Small):
    """Reads a value back in the middle of a step, which no single graph can hold."""

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        return loss if loss.item() > 0 else -loss


class Signs(Small):
    """Trained by an optimizer that has no fused form."""

    def configure_optimizers(self):
        return torch.optim.Rprop(self.parameters())


class Measured(Small):
    """Normalises its inputs, logs on every step too, and keeps the count of its steps in a file."""

    def __init__(self, width=8, learning_rate=0.05, steps_file="", pause=0.0, fails_at=-1):
        super().__init__(width, learning_rate)
        self.save_hyperparameters()
        self.norm = torch.nn.BatchNorm1d(4)

    def forward(self, inputs):
        return super().forward(self.norm(inputs))

    def training_step(self, batch, batch_idx):
        rank = int(os.environ.get("RANK", 0))
        if rank == 1 and self.calls == self.hparams.fails_at:
            raise KeyError("weight")
        if self.hparams.steps_file:
            Path(f"{self.hparams.steps_file}.{rank}").write_text(str(int(self.calls) + 1))
            time.sleep(self.hparams.pause)
        self.log("largest", batch[1].max(), on_step=False, on_epoch=True, reduce_fx="max")
        self.log("positive", (batch[1] > 0).float().mean(), on_step=True, on_epoch=True)
        return super().training_step(batch, batch_idx)


class Counting(Small):
    """Counts the samples that it sees, by torchmetrics; and logs when a step has ended."""

    def __init__(self, **options):
        super().__init__(**options)
        self.seen, self.validated, self.tested = SumMetric(), SumMetric(), SumMetric()

    def training_step(self, batch, batch_idx):
        self.seen(float(len(batch[0])))
        self.log("seen", self.seen, on_step=False, on_epoch=True)
        self.targets = batch[1]
        return super().training_step(batch, batch_idx)

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.log("target", self.targets.mean(), on_step=False, on_epoch=True)

    def validation_step(self, batch, batch_idx):
        self.validated(float(len(batch[0])))
        self.log("validated", self.validated)

    def on_validation_epoch_end(self):
        self.log("by_itself", self.validated.compute())

    def test_step(self, batch, batch_idx):
        self.tested(float(len(batch[0])))
        self.log("tested", self.tested)


class LogsToo(pl.Callback):
    """Logs where an epoch ends, what differs from worker to worker and in one of them alone."""

    def on_train_epoch_end(self, trainer, pl_module):
        self.log("of_callback", float(trainer.global_rank))
        if trainer.is_global_zero:
            self.log("of_one_callback", 9.0, sync_dist=True)


class LogsInOne(Small):
    """Logs under conditions that one of two workers meets, wherever one can."""

    def configure_callbacks(self):
        return [LogsToo()]

    def on_train_start(self):
        if self.global_rank:
            self.log("at_start", 3.0)

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        # In another order at each worker.
        for rank in sorted(range(2), reverse=self.global_rank == 0):
            self.log(f"first_target{rank}", batch[1].sum() + rank, on_step=True, on_epoch=True)
        if self.global_rank == batch_idx % 2:
            self.log("step", float(batch_idx))
            self.log("mean", float(self.global_rank), on_step=False, on_epoch=True)
        if self.trainer.is_global_zero:
            self.log("first", 1.0, on_step=False, on_epoch=True)
            self.log("sum", batch[0].new_tensor(2.0), on_epoch=True, reduce_fx="sum")
            self.log("largest", -1, on_step=False, on_epoch=True, reduce_fx=max)
            self.log("alone", 5.0, rank_zero_only=True)
        return loss

    def on_train_batch_end(self, outputs, batch, batch_idx):
        if self.trainer.is_global_zero:
            self.log("at_end", float(batch_idx))

    def on_train_epoch_end(self):
        if self.trainer.is_global_zero:
            self.log("epoch_end", 7.0)


class LogsAMetricInOne(Small):
    """Logs a metric at one of several workers."""

    def __init__(self, **options):
        super().__init__(**options)
        self.seen = SumMetric()

    def training_step(self, batch, batch_idx):
        self.seen(1.0)
        if self.trainer.is_global_zero:
            self.log("seen", self.seen, on_step=False, on_epoch=True)
        return super().training_step(batch, batch_idx)


class LateMean(Small):
    """Normalises by a running mean of its own, from the fourth step on."""

    def __init__(self, **options):
        super().__init__(**options)
        self.register_buffer("mean", torch.zeros(4))

    def training_step(self, batch, batch_idx):
        if self.global_step >= 3:
            self.mean.lerp_(batch[0].mean(0).to(self.mean), 0.5)
        return super().training_step(batch, batch_idx)


class Hiding(Small):
    """Trains a layer that it keeps in a list."""

    def __init__(self, **options):
        super().__init__(**options)
        self.apart = [torch.nn.Linear(4, 1)]

    def training_step(self, batch, batch_idx):
        beside = self.apart[0](batch[0].float()).square().mean()
        return super().training_step(batch, batch_idx) + beside

    def configure_optimizers(self):
        return torch.optim.SGD([*self.parameters(), *self.apart[0].parameters()], lr=0.1)


class Unfreezing(Small):
    """Trains its first layer from the second epoch on."""

    is_trained_at_first = False

    def __init__(self, **options):
        super().__init__(**options)
        self.hidden.requires_grad_(self.is_trained_at_first)

    def on_train_epoch_start(self):
        if self.current_epoch == 1:
            self.hidden.requires_grad_(not self.is_trained_at_first)


class Pruning(Small):
    """Prunes from the second epoch on, which gives parameters other names."""

    def on_train_epoch_start(self):
        if self.current_epoch == 1:
            for name in ("weight", "bias"):
                torch.nn.utils.prune.l1_unstructured(self.hidden, name, 0.5)


class Freezing(Unfreezing):
    """Trains its first layer in the first epoch alone."""

    is_trained_at_first = True


class Restless(Small):
    """Draws and keeps state wherever one can; dies before the step whose number a file holds."""

    def __init__(self, width=8, learning_rate=0.05, death=""):
        super().__init__(width, learning_rate)
        self.save_hyperparameters()
        self.norm = torch.nn.BatchNorm1d(4)
        self.dropout = torch.nn.Dropout(0.3)
        self.register_buffer("hidden_calls", torch.zeros(()), persistent=False)

    def on_train_epoch_start(self):
        self.noise = random.random() + np.random.random() + torch.rand(()).item()

    def forward(self, inputs):
        return super().forward(self.dropout(self.norm(inputs)))

    def training_step(self, batch, batch_idx):
        self.hidden_calls += 1
        death = Path(self.hparams.death)
        if death.is_file() and int(death.read_text()) == self.calls:
            death.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        inputs, targets = batch
        moved = targets + self.noise * torch.randn_like(targets) + 0.1 * self.hidden_calls
        return super().training_step((inputs, moved), batch_idx)

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=self.hparams.learning_rate)
        plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, threshold=0.5)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": plateau, "monitor": "train_loss"},
        }

    def configure_callbacks(self):
        return [pl.callbacks.EarlyStopping("val_loss", patience=100)]


class Mute(pl.LightningModule):
    """Trains, and has nothing that Lightning could predict with."""

    def __init__(self):
        super().__init__()
        self.network = torch.nn.Linear(4, 1)

    def training_step(self, batch, batch_idx):
        return (self.network(batch[0]) - batch[1]).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class _Clamped(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values):
        return values.view_as(values)

    @staticmethod
    def backward(ctx, gradient):
        return gradient.clamp(-0.02, 0.02)


class Clamps(Small):
    """Clamps the gradient of an activation."""

    def forward(self, inputs):
        return self.output(_Clamped.apply(self.hidden(inputs).relu()))


class ClampsByHand(Clamps):
    """Adds up the gradients of two backward passes by itself."""

    def __init__(self, width=8, learning_rate=0.05):
        super().__init__(width, learning_rate)
        self.automatic_optimization = False

    def training_step(self, batch, batch_idx):
        optimizer = self.optimizers()
        optimizer.zero_grad()
        self.manual_backward(self._step(batch, "train_loss"))
        self.manual_backward((Small.forward(self, batch[0]) - batch[1]).abs().mean())
        optimizer.step()


class LeavesOut(Small):
    """Leaves out a layer at one of two workers, as by chance."""

    def training_step(self, batch, batch_idx):
        is_left_out = batch_idx == 1 and self.trainer.global_rank == 1
        hidden = batch[0][:, :1] if is_left_out else self.hidden(batch[0])[:, :1]
        return (self.output.weight * hidden).mean() + self.output.bias.mean()
