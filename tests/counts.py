"""How code in another file than a module's comes to what a Trainer counts, and who does not."""

import operator
import os
from dataclasses import dataclass

import torch
import torch.distributed as dist
from small import Small

TOTAL = "num_training_batches"
NAMES = {"all": ["max_steps", "val_check_batch"]}
CONFIG = {"trainer": {"accumulate_grad_batches": 1, "num_devices": 1}}
batches_of = operator.attrgetter("fit_loop.max_batches")


def share(trainer):
    return 1 / trainer.num_training_batches


def by_text(trainer):
    return next(getattr(trainer, name) for name in ("val_check_batch", "max_steps"))


def by_global_text(trainer):
    return getattr(trainer, TOTAL)


def by_global_texts(trainer):
    return [getattr(trainer, name) for name in NAMES["all"]]


class Deep:
    def __init__(self, trainer):
        self.trainer = trainer

    def scale(self):
        return share(self.trainer)


def workers():
    return dist.get_world_size() if dist.is_initialized() else 1


def workers_by_environment():
    return int(os.environ.get("WORLD_SIZE", "1"))


def processes(strategy):
    return getattr(strategy, "num_processes", 1)


def gathered(value):
    found = [None]
    if dist.is_initialized():
        dist.all_gather_object(found, value)
    return found


@dataclass
class Config:
    """Settings of a training, as projects have them; nobody reads these of them."""

    rate: float
    accumulate_grad_batches: int = 1
    num_devices: int = 1


class Settings:
    def __init__(self, is_last_batch, world_size):
        self.is_last_batch, self.world_size = is_last_batch, world_size


class Innocent(Small):
    """Trains by all that is the mini-batch's of what a Trainer says, and has names of its own."""

    def __init__(self):
        super().__init__()
        self.config, self.settings = CONFIG, Settings(False, 1)
        self.told = Config(0.1)

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
        steps = self.trainer.estimated_stepping_batches
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.2, total_steps=steps)
        return [optimizer], [{"scheduler": schedule, "interval": "step", "frequency": 1}]

    def on_train_start(self):
        num_training_batches = len(self.trainer.train_dataloader)
        self.max_batches = self.trainer.estimated_stepping_batches // num_training_batches
        self.world_sizes = self.trainer.max_epochs + self.trainer.limit_train_batches

    def training_step(self, batch, batch_idx):
        self.batch_idx = batch_idx
        loss = super().training_step(batch, batch_idx) / (1 + self.trainer.global_step)
        torch.gather(batch[0], 1, torch.zeros(len(batch[0]), 1, dtype=torch.int64))
        if batch_idx % 2 == 0:
            loss = loss * (1 + self.current_epoch)
        return loss * self.world_sizes / (self.max_batches + self.batch_idx)

    def on_train_batch_end(self, outputs, batch, batch_idx):
        if batch_idx % 3 == 1:
            with torch.no_grad():
                self.output.weight.mul_(1 - 0.01 * self.global_step)
