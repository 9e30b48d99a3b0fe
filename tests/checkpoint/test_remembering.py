"""What remembers beside a checkpoint is refused by name, and what never changes is not."""

import contextlib
import dataclasses
import functools
import itertools
import logging
import re
import threading
import weakref
from pathlib import Path

import pytest
import pytorch_lightning as pl
import torch
from small import Points, Restless
from torch.utils.data import DataLoader
from torchmetrics import MeanMetric

from twinrun.checkpoint.looks import UNSEEN, look
from twinrun.checkpoint.resumable import Resumable


def train(folder, module, data=Points, *, kill=0, **options):
    """Train in this process, from the last checkpoint; return the weights, and what was said."""
    pl.seed_everything(1, verbose=False)
    said = []
    resumable = Resumable(folder, minutes=0, say=said.append)
    module = module()
    trainer = pl.Trainer(
        accelerator="cpu",
        callbacks=[resumable, Kill(kill)],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **{"num_sanity_val_steps": 0, "max_epochs": 2, **options},
    )
    with contextlib.suppress(Killed):
        trainer.fit(module, data(size=20), ckpt_path=resumable.last(), weights_only=True)
    return [p.detach().numpy().tobytes() for p in module.parameters()], said


class Killed(BaseException):
    pass


class Kill(pl.Callback):
    def __init__(self, step):
        self._step = step

    def on_train_batch_end(self, trainer, *_):
        if trainer.fit_loop.total_batch_idx + 1 == self._step:
            raise Killed


class Slotted:
    __slots__ = ("__hidden", "weight")

    def __init__(self):
        self.weight, self.__hidden = 1.0, [1.0]

    def change(self):
        self.__hidden[0] = 2.0


@dataclasses.dataclass(slots=True)
class SlottedData:
    inner: Slotted = dataclasses.field(default_factory=Slotted)


class Endless:
    """Is an iterator of one's own, whose position can be seen."""

    def __init__(self, iterator=None):
        self.position, self.iterator = 0, iterator

    def __iter__(self):
        return self

    def __next__(self):
        self.position += 1
        return self.position


class EndlessCycle(itertools.cycle):
    def __next__(self):
        return super().__next__()


def numbers():
    yield from (1.0, 0.5, 0.25)


ITERATORS = {
    "cycle": lambda: itertools.cycle([1.0, 0.5]),
    "generator": numbers,
    "list": lambda: iter([1.0, 0.5]),
    "enumerate": lambda: enumerate([1.0]),
    "loader": lambda: iter(DataLoader([1.0, 0.5])),
    "subclass": lambda: EndlessCycle([1.0]),
    "inside": lambda: {"own": [Endless(itertools.count())]},
    "slot": lambda: SlottedData(inner=itertools.count()),
    "method": lambda: itertools.count().__next__,
    "partial": lambda: functools.partial(next, itertools.count()),
}


@pytest.mark.parametrize("name", ITERATORS)
def test_an_iterator_cannot_be_looked_at(name):
    """Red before: it was looked past, and a resumed training began with it anew."""
    assert look(ITERATORS[name](), ()).startswith(UNSEEN)


ORDINARY = {
    "lock": threading.Lock,
    "logger": lambda: logging.getLogger("twinrun.test"),
    "module": lambda: re,
    "function": lambda: numbers,
    "partial": lambda: functools.partial(print, end=""),
    "class": lambda: itertools.count,
    "weakref": lambda: [weakref.ref(logging.getLogger())],
    "metric": MeanMetric,
    "path": lambda: [Path("a") / "b"],
    "range": lambda: range(3),
    "loader": lambda: DataLoader([1.0]),
    "generator": torch.Generator,
    "local": threading.local,
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ORDINARY)
def test_what_is_no_iterator_is_looked_at_as_before(name):
    value = ORDINARY[name]()
    before = look(value, ())
    str(value)  # a path writes itself down in one of its slots
    [str(each) for each in value] if isinstance(value, list) else None
    assert not before.startswith(UNSEEN)
    assert look(value, ()) == before


def test_an_open_file_is_looked_at_as_before(tmp_path):
    with (tmp_path / "log.txt").open("w") as file:
        assert not look([file], ()).startswith(UNSEEN)


@pytest.mark.parametrize("kind", [Slotted, SlottedData, Endless])
def test_slots_and_iterators_of_ones_own_are_looked_at(kind):
    """Red before: what lies in slots was looked past."""
    value = kind()
    before = look(value, ())
    assert look(kind(), ()) == before
    next(value) if kind is Endless else getattr(value, "inner", value).change()
    assert look(value, ()) != before
    assert not before.startswith(UNSEEN)


def test_a_file_whose_name_begins_as_a_librarys_is_a_users():
    """Red before: an object of `lightning_model.py` was looked past."""
    kind = type("Own", (), {"__module__": "lightning_model"})
    value = kind()
    value.weight = 1.0
    before = look(value, ())
    value.weight = 0.5
    assert look(value, ()) != before


class Remembering(Restless):
    """Holds what it is given, and does what it is told at an epoch's end."""

    held = staticmethod(lambda: None)
    change = staticmethod(lambda _: None)

    def __init__(self):
        super().__init__()
        self.kept = type(self).held()

    def on_train_epoch_end(self):
        type(self).change(self)


class Keeps(pl.Callback):
    def __init__(self, kept):
        self.kept = kept


class KeepsToo(torch.optim.SGD):
    def __init__(self, parameters, kept):
        super().__init__(parameters, lr=0.05)
        self.kept = kept


class Holds(Points):
    def __init__(self, **options):
        super().__init__(**options)
        self.save_hyperparameters({"weight": 1.0, **{f"n{index}": index for index in range(20)}})
        self.kept = {"weight": 1.0, "own": Slotted()}
        self.count = 0


class HoldsAnIterator(Points):
    def __init__(self, **options):
        super().__init__(**options)
        self.kept = [iter([1.0])]


class HoldsAndSaysSo(Holds):
    def state_dict(self):
        return {"kept": self.kept["weight"]}

    def load_state_dict(self, state_dict):
        self.kept["weight"] = state_dict["kept"]


def with_callback(module):
    module.configure_callbacks = lambda: [Keeps([itertools.count()])]


def with_optimizer(module):
    module.configure_optimizers = lambda: KeepsToo(module.parameters(), [itertools.count()])


def schedules(module):
    def configure():
        optimizer = torch.optim.SGD(module.parameters(), lr=0.05)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        return [optimizer], [{"scheduler": schedule, "interval": "step", "frequency": 100}]

    module.configure_optimizers = configure


def assigned(path, value):
    """Return a function that sets what lies behind a path from the Trainer."""
    *owners, name = path.split(".")

    def change(module):
        owner = functools.reduce(getattr, owners, module.trainer)
        setattr(owner, name, value)

    return change


def set_frequency(module):
    module.trainer.lr_scheduler_configs[0].frequency = 2


OF_TRAINER = "of the Trainer changes while the training runs"
# What the module holds; what is done to it when it is made, and at an epoch's end; the data.
REFUSED = {
    "iterator": (
        numbers,
        None,
        None,
        Points,
        "Remembering.kept cannot be looked at (the place of an iterator, generator, shows nowhere)",
    ),
    "slots": (Slotted, None, lambda m: m.kept.change(), Points, "Remembering.kept changes while"),
    "callback": (
        None,
        with_callback,
        None,
        Points,
        "Keeps.kept cannot be looked at (the place of an iterator, itertools.count, shows nowhere)",
    ),
    "optimizer": (None, with_optimizer, None, Points, "KeepsToo.kept[0] cannot be looked at"),
    "epochs": (None, None, assigned("fit_loop.max_epochs", 3), Points, f"max_epochs {OF_TRAINER}"),
    "batches": (None, None, assigned("fit_loop.max_batches", 1), Points, f"batches {OF_TRAINER}"),
    "steps": (
        *(None, None, assigned("fit_loop.epoch_loop.max_steps", 9), Points),
        f"max_steps {OF_TRAINER}",
    ),
    "validation": (
        *(None, None, assigned("check_val_every_n_epoch", 2), Points),
        f"check_val_every_n_epoch {OF_TRAINER}",
    ),
    "between": (
        None,
        None,
        assigned("val_check_batch", 1),
        Points,
        f"val_check_batch {OF_TRAINER}",
    ),
    "limit": (
        *(None, None, assigned("limit_val_batches", 1), Points),
        f"limit_val_batches {OF_TRAINER}",
    ),
    "own": (None, None, assigned("my_weight", 0.5), Points, f"my_weight {OF_TRAINER}"),
    "own list": (None, None, assigned("my_weights", [0.5]), Points, f"my_weights {OF_TRAINER}"),
    "frequency": (None, schedules, set_frequency, Points, f"frequency {OF_TRAINER}"),
    "data": (
        *(None, None, lambda m: m.trainer.datamodule.kept.update(weight=0.5), Holds),
        "Holds.kept['weight'] changes while the training runs",
    ),
    "data's slots": (
        *(None, None, lambda m: m.trainer.datamodule.kept["own"].change(), Holds),
        "changes while the training runs, and no checkpoint holds it",
    ),
    "data's number": (
        *(None, None, assigned("datamodule.count", 1), Holds),
        "Holds.count changes while the training runs",
    ),
    "data's hyperparameter": (
        *(None, None, assigned("datamodule.hparams.weight", 0.5), Holds),
        "Holds._hparams['weight'] changes while the training runs",
    ),
    "data's iterator": (
        *(None, None, None, HoldsAnIterator),
        "HoldsAnIterator.kept[0] is an iterator (list_iterator)",
    ),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", REFUSED)
def test_what_remembers_is_refused_by_name(tmp_path, monkeypatch, name):
    """Red before: a checkpoint was written, and the resumed training ended in other bits."""
    held, made, change, data, words = REFUSED[name]

    def module():
        found = Remembering()
        (made or (lambda _: None))(found)
        return found

    monkeypatch.setattr(Remembering, "held", staticmethod(held or (lambda: None)))
    monkeypatch.setattr(Remembering, "change", staticmethod(change or (lambda _: None)))
    _, said = train(tmp_path, module, data)
    assert len(said) == 1
    assert words in said[0]
    assert not list(tmp_path.glob("*.ckpt"))


@pytest.mark.parametrize("data", [Holds, HoldsAndSaysSo])
def test_what_stays_as_it_is_or_is_saved_is_not_refused(tmp_path, monkeypatch, data):
    change = assigned("fit_loop.max_epochs", 2)
    if data is HoldsAndSaysSo:
        change = lambda m: m.trainer.datamodule.kept.update(weight=0.5)  # noqa: E731
    monkeypatch.setattr(Remembering, "change", staticmethod(change))
    assert train(tmp_path, Remembering, data)[1] == []


class TakesOver(Restless):
    """Makes its steps by itself from the second epoch on."""

    def on_train_epoch_end(self):
        self.automatic_optimization = False

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        if not self.automatic_optimization:
            optimizer = self.optimizers()
            optimizer.zero_grad()
            self.manual_backward(loss * 0.5)
            optimizer.step()
        return loss


def test_who_makes_the_steps_is_kept(tmp_path):
    """Red before: a resumed training's steps were Lightning's again."""
    whole = train(tmp_path / "whole", TakesOver, max_epochs=3)
    train(tmp_path / "killed", TakesOver, max_epochs=3, kill=4)
    assert list((tmp_path / "killed").glob("*.ckpt"))
    assert train(tmp_path / "killed", TakesOver, max_epochs=3) == whole
