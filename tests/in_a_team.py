"""Workloads that several workers train, each of which keeps and draws its own; killed and resumed.

`train_each` trains one after the other in the same processes: to start these takes longer.
"""

import contextlib
import gc
import itertools
import json
import os
from pathlib import Path
from types import SimpleNamespace

import torch
import torch.distributed as dist
from small import Points, Restless
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler, TensorDataset
from torchmetrics import MeanMetric

from twinrun.checkpoint import interrupt, resumable
from twinrun.config.definitions import Run
from twinrun.errors import TwinrunError
from twinrun.parallel import whole_batch
from twinrun.training import train as module_of_training

# Of a process, and what data are read from: no loader holds them.
NOW = {"kill": 0}
SHIFT = "SHIFT_OF_DATA"
RANK = os.environ.get("RANK", "0")


class Killed(BaseException):
    pass


def _end():
    raise Killed


class Wide(Restless):
    """Two buckets of gradients; metrics and plain attributes that each worker has of its own.

    A worker sends a signal at a moment: a file holds its number, the moment, the signal's number
    and to whom it is sent; with the number 0 it fails. Moments are the step that comes, "load", and
    "save" with that step.
    """

    def __init__(self, width=8, learning_rate=0.05, death=""):
        super().__init__(width, learning_rate, death)
        # Behind `output` in the order of the parameters, and before it in that of gradients.
        self.first, self.second = torch.nn.Linear(4, 512), torch.nn.Linear(512, 768)
        self.third = torch.nn.Linear(768, 4)
        self.mean = MeanMetric()
        self.kept, self.noise = [0.0], 0.0

    def forward(self, inputs):
        inputs = inputs + self.third(self.second(self.first(inputs).tanh()).tanh())
        return super().forward(inputs)

    def training_step(self, batch, batch_idx):
        if NOW["kill"] == self.calls + 1:
            raise Killed
        self._may_die(str(int(self.calls) + 1))
        loss = self._of_shard(batch) * (1 + 0.1 * self.kept[-1])
        self.kept = [*self.kept[-2:], min(loss.item(), 1.0)]
        self.mean.update(loss.detach(), len(batch[0]))
        self.log("mean", self.mean, on_step=False, on_epoch=True)
        self.log("both", loss, on_step=True, on_epoch=True)
        self.log("sized", loss, on_epoch=True, batch_size=16)
        for name in ("min", "max", "sum"):
            self.log(name, loss, on_step=False, on_epoch=True, reduce_fx=name)
        if loss > 1:
            self.log("large", loss, on_step=False, on_epoch=True)
        return loss

    def on_save_checkpoint(self, checkpoint):
        self._may_die(f"save{int(self.calls) + 1}")

    def configure_optimizers(self):
        found = super().configure_optimizers()
        found["optimizer"].register_load_state_dict_pre_hook(lambda *_: self._may_die("load"))
        return found

    def _may_die(self, moment):
        death = Path(self.hparams.death)
        with contextlib.suppress(FileNotFoundError):  # another worker's has just come
            rank, at, number, whom = death.read_text().split() if death.is_file() else [""] * 4
            if (rank, at) == (RANK, moment):
                death.unlink()
                if number == "0":
                    raise KeyError("of one worker alone")
                os.kill({"itself": os.getpid(), "parent": os.getppid()}[whom], int(number))

    def _of_shard(self, batch):
        inputs, targets = batch
        self.calls += 1
        self.hidden_calls += 1
        moved = targets + self.noise * torch.randn_like(targets) + 0.1 * self.hidden_calls
        return self._step((inputs, moved), "train_loss")


class OneIsOdd(Wide):
    """The second worker alone keeps a number where no checkpoint has it."""

    def on_train_batch_end(self, *_):
        if RANK == "1":
            os.environ["TEST_OF_TWINRUN"] = str(int(self.calls))


class Unwatched(Wide):
    """Nothing goes by metrics of validation, which Lightning's checkpoint does not hold."""

    def configure_callbacks(self):
        return []

    def configure_optimizers(self):
        return super().configure_optimizers()["optimizer"]


class Manual(Wide):
    """Takes its steps by itself, of every second batch."""

    def __init__(self, **options):
        super().__init__(**options)
        self.automatic_optimization = False

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        self.manual_backward(loss)
        if batch_idx % 2:
            self.optimizers().step()
            self.optimizers().zero_grad()
        return loss.detach()


class Own(Dataset):
    """Draws for each sample; the second worker's may be other ones than before."""

    def __init__(self, data):
        self.data = data

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        inputs, targets = self.data[index]
        shift = float(os.environ[SHIFT]) if RANK == "1" else 0.0
        return inputs + shift, targets


class Noisy(Own):
    def __getitem__(self, index):
        inputs, targets = super().__getitem__(index)
        return inputs + 0.1 * torch.randn_like(inputs), targets


class OwnPoints(Points):
    """Draws its order by a generator, in a batch sampler of its own."""

    def train_dataloader(self):
        data = Own(TensorDataset(self.inputs, self.targets))
        order = RandomSampler(data, generator=torch.Generator().manual_seed(3))
        return DataLoader(data, batch_sampler=BatchSampler(order, 16, drop_last=False))


class Shrinking(Points):
    """Trains on fewer samples in each epoch."""

    def train_dataloader(self):
        left = len(self.inputs) - 16 * self.trainer.current_epoch
        data = TensorDataset(self.inputs[:left], self.targets[:left])
        return DataLoader(data, 16, shuffle=True)


class NoisyPoints(Points):
    """Draws in data workers, if there are some."""

    def train_dataloader(self):
        data = Noisy(TensorDataset(self.inputs, self.targets))
        return DataLoader(data, 16, shuffle=True, num_workers=self.data_workers)


def train_each(runs: list[Run], told: list[dict], found: str) -> None:
    """Train one after the other, each in a group of workers of its own.

    Args:
        runs: what is trained.
        told: of each, before which step it is killed (0: of none), by how much the second worker's
            data are shifted, whether each batch takes a minute, and whether its variant's stop ends
            it.
        found: the folder to which each worker writes the layouts of its buckets, by run, and the
            sentences of errors.
    """
    vars(interrupt).update(leave=_end, PARTING_SECONDS=0.0)
    environment = dict(os.environ)
    own, seen, errors = whole_batch._weighted_sum, [], []

    def noted(state, bucket):
        seen[-1].add((bucket.index(), tuple(tuple(p.shape) for p in bucket.parameters())))
        return own(state, bucket)

    whole_batch._weighted_sum = noted
    for number, (run, how) in enumerate(zip(runs, told, strict=True)):
        os.environ.update(environment)  # Lightning takes its variables away where a fit ends
        os.environ["TWINRUN_MEETING"] += f"-{number}"
        minutes = itertools.count(0, 60 if how["is_slow"] else 0)
        vars(resumable)["time"] = SimpleNamespace(monotonic=lambda m=minutes: float(next(m)))
        NOW.update(kill=how["kill"])
        os.environ[SHIFT] = str(how["shift"])
        seen.append(set())
        errors.append("")
        try:
            module_of_training.train(run, is_stopped=how["is_stopped"])
        except (Killed, TwinrunError) as error:
            errors[-1] = str(error) or "killed"
            dist.destroy_process_group()
        os.environ.pop("TEST_OF_TWINRUN", None)
        # A data worker that collected what is left of this group would wait for its threads.
        gc.collect()
    text = json.dumps({"buckets": [sorted(each) for each in seen], "errors": errors})
    Path(found, f"{RANK}.json").write_text(text)
