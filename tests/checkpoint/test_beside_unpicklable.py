"""A lock or a module in a callback's attribute hides nothing that lies beside it."""

import logging
import math
import sys
import threading
import types
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.loggers import Logger
from torch.utils.tensorboard import SummaryWriter
from tqdm import tqdm

from twinrun.checkpoint.looks import UNSEEN
from twinrun.checkpoint.unsaved_state import changed_callbacks, states_of_callbacks

LOCK = threading.Lock


class Meter:
    """Has a lock beside a moving average."""

    def __init__(self):
        self.lock, self.average, self.module = threading.Lock(), 0.0, math
        self.weights = torch.zeros(2)


class Worker(threading.Thread):
    """Counts beside what its base keeps of itself."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def run(self):
        pass


class Bar(tqdm):
    """A user's own bar of progress."""


class Counts(Logger):
    """A user's own logger."""

    name, version = "counts", 0

    def __init__(self):
        super().__init__()
        self.lock, self.logged, self.log_to = LOCK(), 0, logging.getLogger("counts")

    def log_metrics(self, metrics, step=None):
        self.logged += 1

    def log_hyperparams(self, params):
        pass


class Holds(pl.Callback):
    def __init__(self, **values):
        vars(self).update(values)


def trainer_of(callback):
    module = pl.LightningModule()
    module.layer = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    return SimpleNamespace(
        callbacks=[callback],
        lightning_module=module,
        optimizers=[optimizer],
        lr_scheduler_configs=[],
        logged=[],
    )


def average(held):
    held.average = 0.5


def in_place(held):
    held.weights[0] = 1.0


def in_dictionary(held):
    held["average"] = 0.5


def replaced(held):
    held.value = 2.0


def count(held):
    held.start()
    held.join()
    held.count += 1


STATE = {
    "average beside a lock": (Meter, average),
    "tensor beside a lock": (Meter, in_place),
    "number beside a module": (lambda: {"np": math, "average": 0.0}, in_dictionary),
    "in a namespace": (lambda: SimpleNamespace(lock=LOCK(), average=0.0), average),
    "of a thread": (Worker, count),
    "in a list of locks": (lambda: [LOCK(), {"average": 0.0}], lambda h: in_dictionary(h[1])),
    "in many": (lambda: [LOCK(), *(Meter() for _ in range(99))], lambda h: average(h[70])),
    "in a set": (lambda: {Meter()}, lambda h: average(next(iter(h)))),
    "in a logger's writer": (
        lambda: SimpleNamespace(lock=LOCK(), of=[torch.zeros(1)]),
        lambda h: h.of[0].add_(1),
    ),
}


@pytest.mark.parametrize("name", STATE)
def test_what_lies_beside_a_lock_is_refused_where_it_changes(name):
    """Red before: an attribute that cannot be pickled was left out, whatever lay in it."""
    make, change = STATE[name]
    callback = Holds(held=make())
    trainer = trainer_of(callback)
    before = states_of_callbacks(trainer)
    assert list(changed_callbacks(before, states_of_callbacks(trainer))) == []
    change(callback.held)
    (found,) = changed_callbacks(before, states_of_callbacks(trainer))
    assert found.startswith("Holds.held changes while the training runs")


def to_locked(callback):
    callback.held = {"lock": LOCK(), "average": 0.5}


def to_nothing(callback):
    del callback.held


@pytest.mark.parametrize("change", [to_locked, to_nothing])
@pytest.mark.parametrize("begin", [0.0, {"average": 0.0}])
def test_what_cannot_be_pickled_later_or_is_gone_is_refused(begin, change):
    """Red before: only what could be pickled then was looked at."""
    callback = Holds(held=begin)
    trainer = trainer_of(callback)
    before = states_of_callbacks(trainer)
    change(callback)
    (found,) = changed_callbacks(before, states_of_callbacks(trainer))
    assert found.startswith("Holds.held changes while the training runs")


def progress(callback):
    callback.bar.update(3)
    callback.own.update(3)


def run(callback):
    callback.pool.submit(int).result()
    callback.thread.start()
    callback.thread.join()


def write(callback):
    callback.writer.add_scalar("loss", 1.0, 1)
    callback.logger.log_metrics({"loss": 1.0}, 1)
    callback.file.write("a")
    callback.beside["file"].write("a")


def begin_late(callback):
    callback.file = sys.stderr
    callback.bar = tqdm(range(3), file=sys.stderr)
    callback.handles.append(threading.Lock())


def hold_the_training(callback):
    callback.trainer.logged.append(1.0)
    with torch.no_grad():
        callback.module.layer.weight.add_(1)
    callback.all["optimizer"].param_groups[0]["lr"] = 0.5
    callback.optimizer = callback.all["optimizer"]


def make_ordinary(name, folder):
    if name == "progress":
        bars = [kind(range(9), file=sys.stderr) for kind in (tqdm, Bar)]
        return Holds(bar=bars[0], own=bars[1], lock=LOCK()), progress
    if name == "run":
        return Holds(pool=ThreadPoolExecutor(1), thread=threading.Thread(target=int)), run
    if name == "write":
        file = (folder / "file").open("w")
        values = {"logger": Counts(), "file": file, "beside": {"file": file, "name": "a"}}
        return Holds(writer=SummaryWriter(str(folder)), **values), write
    if name == "late":
        return Holds(file=None, bar=None, handles=[]), begin_late
    return Holds(trainer=None, module=None, optimizer=None, all={"lock": LOCK()}), hold_the_training


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["progress", "run", "write", "late", "hold"])
def test_ordinary_callbacks_are_not_refused(tmp_path, name):
    """Bars of progress, files, threads and writers are no state, whenever they begin."""
    callback, change = make_ordinary(name, tmp_path)
    trainer = trainer_of(callback)
    if name == "hold":
        callback.trainer, callback.module = trainer, trainer.lightning_module
        callback.all["optimizer"] = trainer.optimizers[0]
    before = states_of_callbacks(trainer)
    change(callback)
    assert list(changed_callbacks(before, states_of_callbacks(trainer))) == []


def test_what_refuses_to_be_looked_at_beside_a_lock_is_refused():
    class Refuses:
        lock = LOCK()

        def __reduce__(self):
            raise TypeError

        @property
        def __dict__(self):
            raise RuntimeError

    trainer = trainer_of(Holds(held=Refuses()))
    states = states_of_callbacks(trainer)
    (found,) = changed_callbacks(states, states)
    assert found.startswith(f"Holds.held {UNSEEN} (RuntimeError)")


def test_a_module_is_no_state():
    module = types.ModuleType("late")
    callback = Holds(held={"module": module, "average": 1.0})
    trainer = trainer_of(callback)
    before = states_of_callbacks(trainer)
    module.number = torch.zeros(1)
    assert list(changed_callbacks(before, states_of_callbacks(trainer))) == []
