"""Modules that cannot be trained, each for a reason of its own; see the configs beside it."""

import os
import sys

import numpy as np
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset


class Net(pl.LightningModule):
    """Right, with the right hyperparameters."""

    def __init__(self, width, learning_rate=0.1, dropout=0.0, normalise=True):
        super().__init__()
        self.learning_rate = learning_rate
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(4, width), torch.nn.Dropout(dropout), torch.nn.Linear(width, 1)
        )

    def forward(self, inputs):
        return self.layers(inputs)

    def training_step(self, batch, batch_idx):
        loss = (self(batch[0]) - batch[1]).square().mean()
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=self.learning_rate)


class Annotated(Net):
    def __init__(self, width: int, learning_rate: float = 0.1):
        super().__init__(width, learning_rate)
        assert width > 0, "a network needs a width"


class NoStep(pl.LightningModule):
    def __init__(self, width=1):
        super().__init__()
        self.layer = torch.nn.Linear(4, width)


class NoLoss(Net):
    def training_step(self, batch, batch_idx):
        self(batch[0])


class Skipping(Net):
    """Right: it takes a step from its third batch on, and validates."""

    def training_step(self, batch, batch_idx):
        return super().training_step(batch, batch_idx) if batch_idx > 1 else None

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self(batch[0]).mean())


class Detached(Net):
    def training_step(self, batch, batch_idx):
        return self(batch[0]).detach().mean()


class OwnSteps(Net):
    """Right: updates by an optimizer of its own."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.automatic_optimization = False
        self.own = torch.optim.SGD(self.parameters(), lr=0.1)

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        self.own.zero_grad()
        self.manual_backward(loss)
        self.own.step()

    def configure_optimizers(self):
        return None


class NoOptimizer(Net):
    def configure_optimizers(self):
        return None


class Normalised(Net):
    """Right, where no batch has one sample."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.norm = torch.nn.BatchNorm1d(4)

    def forward(self, inputs):
        return super().forward(self.norm(inputs))


class Careful(Normalised):
    """Right: it leaves such a batch out."""

    def training_step(self, batch, batch_idx):
        return super().training_step(batch, batch_idx) if len(batch[0]) > 1 else None


class FilledFirst(Careful):
    """Right: its first batch gives it its table."""

    table = None

    def training_step(self, batch, batch_idx):
        if self.table is None:
            self.table = batch[0].view(3, 4).mean(0)
        return super().training_step(batch, batch_idx)


class InThrees(Net):
    def training_step(self, batch, batch_idx):
        return super().training_step((batch[0].view(3, 4), batch[1]), batch_idx)


class OneCycle(Net):
    """Right, where the schedule has as many steps as the training."""

    def __init__(self, steps=10, interval="step", **kwargs):
        super().__init__(**kwargs)
        self.steps, self.interval = steps, interval

    def configure_optimizers(self):
        optimizer = super().configure_optimizers()
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=self.steps)
        return [optimizer], [{"scheduler": schedule, "interval": self.interval}]


class MayStop(OneCycle):
    """Right: a training that may stop before."""

    def configure_callbacks(self):
        return [pl.callbacks.EarlyStopping("train_loss")]


class Misshapen(Net):
    def training_step(self, batch, batch_idx):
        return self(batch[0][:, :3]).mean()


class Leaving(Net):
    def __init__(self, width=1):
        super().__init__(width)
        sys.exit("this is no module")


class Monitoring(Net):
    def configure_callbacks(self):
        return [pl.callbacks.EarlyStopping("val_acc")]


class Plateau(Net):
    def configure_optimizers(self):
        optimizer = super().configure_optimizers()
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "monitor": "val_los"},
        }


class Validating(Net):
    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self(batch[0]).mean() / len(batch[7]))


class Validated(Net):
    """Right, where its validation takes place."""

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self(batch[0]).mean())


class Kept(Validated):
    """Right: without validation Lightning keeps checkpoints by the clock alone."""

    def configure_callbacks(self):
        return [pl.callbacks.ModelCheckpoint(monitor="val_loss")]


class EndsWithBest(Validated):
    """Right: logs from the second epoch on what its checkpoints go by; ends with the best ones."""

    def configure_callbacks(self):
        return [pl.callbacks.ModelCheckpoint("written", monitor="late_loss", every_n_epochs=2)]

    def on_train_epoch_end(self):
        if self.current_epoch > 0:
            self.log("late_loss", 1.0)

    def on_train_end(self):
        best = torch.load(self.trainer.checkpoint_callback.best_model_path, weights_only=False)
        self.load_state_dict(best["state_dict"])


class Early(Validated):
    def configure_callbacks(self):
        return [pl.callbacks.EarlyStopping("val_loss")]


class OnPlateau(Validated):
    def configure_optimizers(self):
        optimizer = super().configure_optimizers()
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "monitor": "val_loss"},
        }


class ByRms(Net):
    def configure_optimizers(self):
        return torch.optim.RMSprop(self.parameters(), lr=self.learning_rate)


class ByHand(Net):
    def __init__(self, width=1):
        super().__init__(width)
        self.automatic_optimization = False


class Again(Net):
    def __init__(self, width=1):
        super().__init__(width)

    def configure_optimizers(self):
        return torch.optim.LBFGS(self.parameters(), max_iter=3)


class Planning(Net):
    """Right: its schedule is planned for the whole training."""

    def configure_optimizers(self):
        optimizer = super().configure_optimizers()
        steps = self.trainer.estimated_stepping_batches
        assert steps == 5 * self.trainer.max_epochs, steps
        scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=steps)
        return [optimizer], [{"scheduler": scheduler, "interval": "step"}]


class Points(pl.LightningDataModule):
    """Right: ten points in five batches."""

    def __init__(self, batch_size=2):
        super().__init__()
        self.batch_size = batch_size

    def train_dataloader(self):
        points = TensorDataset(torch.ones(10, 4), torch.ones(10, 1))
        return DataLoader(points, batch_size=self.batch_size, drop_last=True)

    val_dataloader = train_dataloader


class Uneven(Points):
    """Right: of ten points the last batch has one."""

    def train_dataloader(self):
        return DataLoader(super().train_dataloader().dataset, batch_size=3)


class Seeded(Points):
    """Takes the run's seed."""

    def __init__(self, seed, batch_size=2):
        super().__init__(batch_size)


class EmptyStream(Points):
    def train_dataloader(self):
        class Rows(IterableDataset):
            def __iter__(self):
                return iter([])

        return DataLoader(Rows(), batch_size=4)


class Stream(Points):
    def train_dataloader(self):
        rows = super().train_dataloader().dataset

        class Rows(IterableDataset):
            def __iter__(self):
                return iter(rows)

        return DataLoader(Rows(), batch_size=2)


class Drawing(Points):
    """Draws from the global generator when it is made."""

    def __init__(self):
        super().__init__()
        self.order = torch.randperm(4)


class BrokenStream(Points):
    def train_dataloader(self):
        class Rows(IterableDataset):
            def __iter__(self):
                raise OSError("no shard of that name")

        return DataLoader(Rows(), batch_size=4)


class FromFile(Points):
    def __init__(self, path, batch_size=2):
        super().__init__(batch_size)
        self.rows = np.loadtxt(path, delimiter=",")


class FromArrays(Points):
    def __init__(self, path):
        super().__init__()
        self.arrays = dict(np.load(path))


class HoldsALoader(Net):
    def __init__(self, width):
        super().__init__(width)
        self.train_dataloader = Points().train_dataloader()


class ForTests(pl.LightningDataModule):
    def test_dataloader(self):
        return Points().train_dataloader()


class OnPlateauByHand(OnPlateau):
    """Right: Lightning steps no schedule of a module that optimizes by hand."""

    def __init__(self, width):
        super().__init__(width)
        self.automatic_optimization = False

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        self.optimizers().zero_grad()
        self.manual_backward(loss)
        self.optimizers().step()


net = Net(3)
constant = 3


def make(rows: int = 3):
    return {"rows": np.ones((rows, 4))}


def make_nothing():
    return {"rows": np.ones((0, 4))}


def make_and_fail(rows):
    raise KeyError("rows.csv")


class Ending(Net):
    """Ends the process for one width."""

    def __init__(self, width):
        super().__init__(width)
        if width == 99:
            os._exit(3)


class Untested(Net):
    """Trains; its test fails, and its predictions cannot be kept."""

    def test_step(self, batch, batch_idx):
        raise KeyError("labels")

    def predict_step(self, batch, batch_idx):
        return object()


class Infinite(Net):
    def training_step(self, batch, index):
        return super().training_step(batch, index) * torch.inf


class Frozen(Net):
    """Trains with a learning rate of 0."""

    def __init__(self, width):
        super().__init__(width, learning_rate=0.0)

    def configure_callbacks(self):
        return [pl.callbacks.ModelCheckpoint("written")]


class Tested(Points):
    def test_dataloader(self):
        return self.train_dataloader()

    predict_dataloader = test_dataloader


class AsksForAName(Net):
    def on_fit_start(self):
        self.name = os.environ["NAME_OF_THE_RUN"]


class AveragesFiles(Net):
    """Right, where it trains all of its epochs."""

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self(batch[0]).mean())

    def on_fit_end(self):
        torch.load("epoch7.pt")
