"""Modules that ask the Trainer for what it has, and modules of which a phase cannot be timed."""

import threading
import types

import numpy as np
import pytorch_lightning as pl
import torch
import torchmetrics
from ordinary_modules import OneBatch as OneBatch
from ordinary_modules import Plain
from ordinary_modules import Points as TrainingPoints
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader


class Points(TrainingPoints):
    """Asks the Trainer for the number of processes, in loaders and hooks."""

    def setup(self, stage):
        self.processes = self.trainer.world_size

    def train_dataloader(self):
        assert self.trainer.world_size == self.processes == 1
        return super().train_dataloader()

    def on_after_batch_transfer(self, batch, dataloader_idx):
        assert self.trainer.training or self.trainer.validating or self.trainer.predicting
        return batch

    def val_dataloader(self):
        return DataLoader(self.dataset, batch_size=8)

    predict_dataloader = val_dataloader


class SeveralLoaders(Points):
    """Trains on two loaders in one."""

    def train_dataloader(self):
        return {"a": super().train_dataloader(), "b": super().train_dataloader()}


class Predicts(Plain):
    def predict_step(self, batch, batch_idx):
        return self(batch[0])

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self.loss(batch))


class FrozenBackbone(Predicts):
    """Trains a head on a backbone that it has put into evaluation mode."""

    def __init__(self):
        super().__init__()
        self.backbone = torch.nn.Sequential(torch.nn.BatchNorm1d(3), torch.nn.Dropout())
        self.backbone.eval().requires_grad_(False)
        self.modes = {"train": set(), "predict": set()}

    def _note(self, phase):
        self.modes[phase].add((self.training, *(part.training for part in self.backbone)))

    def training_step(self, batch, batch_idx):
        self._note("train")
        return self.loss((self.backbone(batch[0]), batch[1]))

    def predict_step(self, batch, batch_idx):
        self._note("predict")
        return self(self.backbone(batch[0]))


class TakesBoth(Predicts):
    def training_step(self, batch, batch_idx):
        return self.loss(batch["a"]) + self.loss(batch["b"])


class LooksAhead(torch.optim.SGD):
    """Takes its step where a first one would lead, if it is given a closure."""

    @torch.no_grad()
    def step(self, closure=None):
        if closure is None:
            return torch.optim.SGD.step(self)
        parameters = [p for group in self.param_groups for p in group["params"]]
        before = [p.clone() for p in parameters]
        torch.optim.SGD.step(self, closure)
        loss = torch.enable_grad()(closure)()
        for parameter, start in zip(parameters, before, strict=True):
            parameter.copy_(start)
        torch.optim.SGD.step(self)
        return loss


class TwoPasses(Plain):
    def configure_optimizers(self):
        return LooksAhead(self.parameters(), lr=0.1)


class ReplacedStep(Plain):
    """Exchanges the step of torch's own optimizer, under a schedule."""

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
        optimizer.step = types.MethodType(LooksAhead.step, optimizer)
        return [optimizer], [lr_scheduler.ConstantLR(optimizer, factor=1.0)]


class CannotBeCopied(Predicts):
    """Has a weight that is computed, and a lock."""

    def __init__(self):
        super().__init__()
        torch.nn.utils.weight_norm(self.first)
        self.lock = threading.Lock()


class LossOfItself(Predicts):
    """Has a loss that was made in its constructor, and so holds it."""

    def __init__(self):
        super().__init__()
        self.apart = lambda inputs, targets: (self(inputs) - targets).square().mean()

    def loss(self, batch):
        return self.apart(*batch)


class KeepsFeatures(Predicts):
    """Takes features by a hook, as probes and perceptual losses do."""

    def __init__(self):
        super().__init__()
        self.features = {}

        def keep(module, inputs, output):
            self.features["hidden"] = output

        self.first.register_forward_hook(keep)

    def loss(self, batch):
        self.features.clear()
        return super().loss(batch) + self.features["hidden"].square().mean()


class LossOfItselfOnce(LossOfItself):
    """Can be constructed once only, too."""

    number = 0

    def __init__(self):
        type(self).number += 1
        if self.number > 1:
            raise RuntimeError("was constructed already")
        super().__init__()


class Dictionaries(Points):
    """Gives batches as Hugging Face's models take them."""

    def train_dataloader(self):
        rows = [{"inputs": x, "labels": y} for x, y in self.dataset]
        return DataLoader(rows, batch_size=8)

    predict_dataloader = train_dataloader


class TakesFromItsBatch(Predicts):
    def training_step(self, batch, batch_idx):
        labels = batch.pop("labels")
        return self.loss((batch["inputs"], labels))

    def predict_step(self, batch, batch_idx):
        del batch["labels"]
        return self(batch["inputs"])


class ChangesItsBatch(Predicts):
    """Doubles its inputs in place."""

    def __init__(self):
        super().__init__()
        self.largest = set()

    def training_step(self, batch, batch_idx):
        batch["inputs"].mul_(2)
        self.largest.add(round(batch["inputs"].abs().max().item(), 4))
        return self.loss((batch["inputs"], batch["labels"]))


class ChangesLate(ChangesItsBatch):
    steps = 0

    def training_step(self, batch, batch_idx):
        self.steps += 1
        if self.steps > 40:
            return super().training_step(batch, batch_idx)
        return self.loss((batch["inputs"], batch["labels"]))


class AsksForGradients(Predicts):
    """Takes the gradient of its loss by its inputs, as adversarial and physics-informed ones do."""

    def training_step(self, batch, batch_idx):
        inputs, targets = batch
        assert inputs.numpy().shape[1] == 3  # which a tensor that requires a gradient refuses
        assert inputs.grad is None
        inputs.requires_grad_()
        (slope,) = torch.autograd.grad(self.loss((inputs, targets)), inputs, create_graph=True)
        return slope.square().mean() + self.loss((inputs, targets))


class ByStep(Predicts):
    """Has a rate for each step of its training, and no more; and a schedule of its own."""

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
        self.rates = [0.1] * self.trainer.estimated_stepping_batches
        self.schedule = lr_scheduler.OneCycleLR(optimizer, 0.2, total_steps=len(self.rates) + 1)
        return optimizer

    def training_step(self, batch, batch_idx):
        self.schedule.step()
        return self.loss(batch) * self.rates[self.global_step]


class Unseeded(Predicts):
    """Draws weights that no seed decides."""

    def __init__(self):
        super().__init__()
        drawn = np.random.default_rng().normal(size=(4, 3)).astype(np.float32)
        self.first.weight = torch.nn.Parameter(torch.from_numpy(drawn))


class LogsAMetric(Predicts):
    """Hands a metric to `log`, as torchmetrics' guide has it: Lightning resets it."""

    def __init__(self):
        super().__init__()
        self.values = torchmetrics.CatMetric()
        self.most = 0

    def training_step(self, batch, batch_idx):
        loss = self.loss(batch)
        self.values(loss.detach())
        self.log("values", self.values, on_step=False, on_epoch=True)
        self.most = max(self.most, len(self.values.value))
        return loss


class ByHand(Predicts):
    """Updates at an epoch's last batch alone, and steps a schedule that has an end."""

    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.lasts = set()
        self.steps = 0

    def training_step(self, batch, batch_idx):
        self.manual_backward(self.loss(batch))
        if self.trainer.is_last_batch:
            self.optimizers().step()
            self.optimizers().zero_grad()
        self.lasts.add((len(batch[0]), self.trainer.is_last_batch))
        self.steps += 1
        self.lr_schedulers().step()

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
        steps = self.trainer.estimated_stepping_batches
        return [optimizer], [lr_scheduler.OneCycleLR(optimizer, 0.2, total_steps=steps + 1)]


class AsksTheTrainer(Predicts):
    """A schedule of as many steps as there will be; hooks that log and keep something."""

    def configure_optimizers(self):
        trainer = self.trainer
        steps = trainer.estimated_stepping_batches
        assert steps == trainer.max_epochs * trainer.num_training_batches
        assert trainer.datamodule.trainer is trainer
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)
        schedule = lr_scheduler.OneCycleLR(optimizer, max_lr=0.2, total_steps=steps)
        return [optimizer], [{"scheduler": schedule, "interval": "step"}]

    def on_train_start(self):
        self.log("begun", 1.0)

    def on_train_epoch_start(self):
        self.seen = []

    def on_train_batch_start(self, batch, batch_idx):
        self.seen.append(batch_idx)

    def training_step(self, batch, batch_idx):
        assert self.seen
        self.log("progress", self.global_step / self.trainer.estimated_stepping_batches)
        return super().training_step(batch, batch_idx) * (1 + self.current_epoch)

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.log("loss_again", outputs["loss"])

    def on_train_epoch_end(self):
        self.log("number_seen", float(len(self.seen)))
        assert "val_loss" in self.trainer.callback_metrics


class DrawsByItsLogger(Predicts):
    """Writes with each step to what its logger holds; a callback needs a logger."""

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        self.logger.experiment.add_scalar("loss", loss, self.global_step)
        return loss

    def on_train_start(self):
        self.logger.log_hyperparams({"rate": 0.1})

    def configure_callbacks(self):
        return [pl.callbacks.LearningRateMonitor("step")]


class Gathers(Predicts):
    """Gathers what its steps return, and what its validation logs, until its epoch ends."""

    def on_train_epoch_start(self):
        self.gathered, self.begun = [], getattr(self, "begun", 0) + 1

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        self.gathered.append(loss.detach())
        self.most = max(len(self.gathered), getattr(self, "most", 0))
        return loss

    def on_train_epoch_end(self):
        self.log("mean", torch.stack(self.gathered).mean())
        assert "val_loss" in self.trainer.callback_metrics
        assert self.trainer.training
        assert self.training
        self.gathered.clear()
        self.ended = getattr(self, "ended", 0) + 1


class GathersHooked(Gathers):
    """The same with a step that Lightning's own code does."""

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.log("gathered", float(len(self.gathered)))


class ReadsItsLogs(Predicts):
    """Reads at the end of an epoch what its steps have logged."""

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        self.log("of_steps", loss)
        return loss

    def on_train_epoch_end(self):
        self.of_epoch = self.trainer.callback_metrics["of_steps"]


class StopsEarly(Predicts):
    """EarlyStopping on a metric of validation that never improves."""

    def configure_callbacks(self):
        return [pl.callbacks.EarlyStopping("val_loss", patience=1, min_delta=1e6)]


class KeepsTheBest(Predicts):
    """ModelCheckpoint on a metric of validation."""

    def configure_callbacks(self):
        return [pl.callbacks.ModelCheckpoint(monitor="val_loss")]


class PlateauOfValidation(Predicts):
    """ReduceLROnPlateau, with the metric named in a dictionary."""

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
        schedule = lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": schedule, "monitor": "val_loss"},
        }


class MadeLate(Predicts):
    """A layer made in setup and one in configure_model."""

    def setup(self, stage):
        self.middle = torch.nn.Linear(4, 4)

    def configure_model(self):
        if not hasattr(self, "more"):
            self.more = torch.nn.Linear(4, 4)

    def forward(self, inputs):
        return self.last(self.more(self.middle(self.first(inputs))).tanh())


class MadeForPrediction(Predicts):
    """Makes in setup what only a prediction needs, and a layer, each time it is called."""

    def setup(self, stage):
        self.middle = torch.nn.Linear(4, 4)
        if stage == "predict":
            self.scale = 2.0

    def forward(self, inputs):
        return self.last(self.middle(self.first(inputs)).tanh())

    def predict_step(self, batch, batch_idx):
        return self.scale * self(batch[0])


class AveragesItsWeights(Predicts):
    """A callback that puts a schedule of its own in place."""

    def configure_callbacks(self):
        return [pl.callbacks.StochasticWeightAveraging(1e-2, swa_epoch_start=1)]

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
        return [optimizer], [lr_scheduler.StepLR(optimizer, 1)]


class FailsToPredict(Predicts):
    def predict_step(self, batch, batch_idx):
        raise RuntimeError("predicts nothing")


class FailsInEachPhase(FailsToPredict):
    def training_step(self, batch, batch_idx):
        raise RuntimeError("trains nothing")


class FailsAtTheEndOfAnEpoch(Predicts):
    def on_train_epoch_end(self):
        raise RuntimeError("ends badly")


class TakesTheIterator(Predicts):
    def training_step(self, dataloader_iter):
        return self.loss(next(dataloader_iter)[0])


class NoOptimizer(Predicts):
    def configure_optimizers(self):
        return None


class MovesItself(dict):
    """Like Hugging Face's BatchEncoding it is moved in place."""

    def to(self, device, **options):
        MOVED.append(self["is_moved"])
        self["is_moved"] = True
        return self


MOVED, LOADED = [], []


class Batches:
    """A loader of three of them."""

    def __iter__(self):
        for index in range(3):
            LOADED.append(index)
            yield MovesItself(is_moved=False, inputs=torch.ones(2, 3))

    def __len__(self):
        return 3


class OwnBatches(Points):
    def predict_dataloader(self):
        return Batches()
