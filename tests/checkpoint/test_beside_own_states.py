"""What lies beside a `state_dict` of a callback's or a schedule's own class, as in a global."""

import importlib
import random
import re

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from resumed import Anew, assert_resumed, every, fit
from small import Points, Small

from twinrun.checkpoint.own_states import OwnState

STEPS = {"done": 0}
ASKED = []


class Asked:
    """Writes down elsewhere that it was asked for its state."""

    def __init__(self):
        self.one, self.two, self.three = 11, 12, 13

    def state_dict(self):
        ASKED.append(self)
        return {"one": self.one, "two": self.two, "three": self.three}

    def load_state_dict(self, state):
        vars(self).update(state)


class AskedByOthers(Asked):
    """Saves them under other names."""

    def state_dict(self):
        one, two, three = super().state_dict().values()
        return {"a": one, "b": two, "c": three}


@pytest.mark.parametrize(("kind", "times"), [(Asked, 1), (AskedByOthers, 5)])
def test_a_state_is_asked_for_as_seldom_as_can_be(kind, times):
    """Red before: of copies too, for each attribute twice; what it writes elsewhere shows."""
    ASKED.clear()
    state = OwnState(kind())
    assert all(state.holds_all(name, value) for name, value in vars(kind()).items())
    assert len(ASKED) == times


class Best(pl.Callback):
    """Saves what it has found, and lowers the rate by a count that it does not save."""

    def __init__(self):
        self.best = 9.0

    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        for group in trainer.optimizers[0].param_groups:
            group["lr"] = 0.05 if self.counted() < 8 else 0.01

    def on_train_epoch_end(self, trainer, module):
        self.best = min(self.best, float(trainer.callback_metrics["train_loss"]))

    def state_dict(self):
        return {"best": self.best}

    def load_state_dict(self, state_dict):
        self.best = state_dict["best"]


class InClass(Best):
    count = 0

    def counted(self):
        InClass.count += 1
        return InClass.count


class InGlobal(Best):
    def __init__(self):
        super().__init__()
        STEPS["done"] = 0

    def counted(self):
        STEPS["done"] += 1
        return STEPS["done"]


class SaysItsClass(Best):
    count = 0

    def counted(self):
        SaysItsClass.count += 1
        return SaysItsClass.count

    def state_dict(self):
        return {**super().state_dict(), "count": SaysItsClass.count}

    def load_state_dict(self, state_dict):
        super().load_state_dict(state_dict)
        SaysItsClass.count = state_dict["count"]


class SaysNothing(InClass):
    def state_dict(self):
        return {}

    def load_state_dict(self, state_dict):
        pass


class Draws(Best):
    """Draws the rate, and saves the states of what it draws from."""

    def __init__(self):
        super().__init__()
        self.numpys, self.pythons = np.random.default_rng(0), random.Random(1)
        self.torchs = torch.Generator().manual_seed(2)

    def counted(self):
        drawn = torch.rand((), generator=self.torchs).item()
        return 10 * self.numpys.random() + 10 * self.pythons.random() * drawn

    def state_dict(self):
        states = self.numpys.bit_generator.state, self.pythons.getstate(), self.torchs.get_state()
        return {**super().state_dict(), "of": dict(zip("npt", states, strict=True))}

    def load_state_dict(self, state_dict):
        super().load_state_dict(state_dict)
        self.numpys.bit_generator.state = state_dict["of"]["n"]
        self.pythons.setstate(state_dict["of"]["p"])
        self.torchs.set_state(state_dict["of"]["t"])


class Drawn:
    """Holds generators for another one, which saves their states."""

    def __init__(self):
        self.numpys, self.pythons = np.random.default_rng(0), random.Random(1)
        self.torchs = torch.Generator().manual_seed(2)


class DrawsInside(Draws):
    """Holds its generators in an object, by other names."""

    def __init__(self):
        Best.__init__(self)
        self.inside = Drawn()

    numpys = property(lambda self: self.inside.numpys)
    pythons = property(lambda self: self.inside.pythons)
    torchs = property(lambda self: self.inside.torchs)


class DrawsInAList(DrawsInside):
    def __init__(self):
        Best.__init__(self)
        self.all = [*vars(Drawn()).values()]

    numpys = property(lambda self: self.all[0])
    pythons = property(lambda self: self.all[1])
    torchs = property(lambda self: self.all[2])


class ForgetsATwin(Best):
    """Draws by two that are alike, and saves one."""

    def __init__(self):
        super().__init__()
        self.both = [np.random.default_rng(0), np.random.default_rng(0)]

    def counted(self):
        return 10 * self.both[0].random() + self.both[1].random()

    def state_dict(self):
        return {**super().state_dict(), "of": self.both[0].bit_generator.state}

    def load_state_dict(self, state_dict):
        super().load_state_dict(state_dict)
        self.both[0].bit_generator.state = state_dict["of"]


class DrawsAndForgets(Draws):
    def state_dict(self):
        states = Draws.state_dict(self)
        del states["of"]["n"]
        return states

    def load_state_dict(self, state_dict):
        of = {**state_dict["of"], "n": self.numpys.bit_generator.state}
        Draws.load_state_dict(self, {**state_dict, "of": of})


class ForgetsInside(DrawsInside):
    state_dict, load_state_dict = DrawsAndForgets.state_dict, DrawsAndForgets.load_state_dict


class Spawns(Draws):
    """Begins other generators, which one counts beside its state."""

    def counted(self):
        (other,) = self.numpys.spawn(1)
        return 10 * other.random()


def with_callback(callback):
    class Called(Small):
        def configure_callbacks(self):
            callback.count = 0  # as in a process of its own
            return [callback()]

    return Called


@pytest.mark.parametrize(
    ("callback", "name"), [(InClass, "InClass.count"), (InGlobal, "STEPS['done']")]
)
@pytest.mark.parametrize("where", [{"minutes": 0}, {"in_epoch": every(2)}], ids=["start", "mid"])
def test_what_a_callback_counts_in_its_class_or_a_global_is_refused(
    tmp_path, callback, name, where
):
    """Red before: resumed in silence, in other bits: nobody looked at it."""
    _, _, said = fit(tmp_path, module=with_callback(callback), **where)
    assert any(f"{name} changes while the training runs" in sentence for sentence in said), said
    assert not list(tmp_path.glob("*.ckpt"))


def test_what_a_state_holds_of_a_class_is_resumed(tmp_path):
    assert_resumed(tmp_path, [2, 8], kills=[3, 9], module=with_callback(SaysItsClass))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("kind", [Draws, DrawsInside, DrawsInAList])
def test_generators_that_a_state_holds_are_resumed(tmp_path, kind):
    """Red before: refused, as if no checkpoint held them."""
    assert_resumed(tmp_path, [2, 8], kills=[3, 9], module=with_callback(kind))


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (DrawsAndForgets, "DrawsAndForgets.numpys"),
        (ForgetsInside, "Drawn.numpys"),
        (ForgetsATwin, "ForgetsATwin.both[1]"),
        (Spawns, "Spawns.numpys"),
    ],
)
def test_generators_of_which_a_state_holds_less_are_refused(tmp_path, kind, name):
    _, _, said = fit(tmp_path, module=with_callback(kind), in_epoch=every(2))
    why = "changes while the training runs, and no checkpoint holds it"
    assert any(f"{name} {why}" in sentence for sentence in said), said


def test_who_says_that_nothing_is_to_be_kept_is_believed(tmp_path):
    _, _, said = fit(tmp_path, module=with_callback(SaysNothing), in_epoch=every(2))
    assert said == []


class Lowers(torch.optim.lr_scheduler.LRScheduler):
    """Saves its epoch, and lowers the rate by a count that it does not save."""

    def __init__(self, optimizer):
        self.count = 0
        super().__init__(optimizer)

    def get_lr(self):
        self.count += 1
        return [0.05 if self.count < 8 else 0.01 for _ in self.optimizer.param_groups]

    def state_dict(self):
        return {"last_epoch": self.last_epoch}

    def load_state_dict(self, state_dict):
        self.last_epoch = state_dict["last_epoch"]


class LowersAndSaysSo(Lowers):
    def state_dict(self):
        return {**super().state_dict(), "count": self.count}

    def load_state_dict(self, state_dict):
        super().load_state_dict(state_dict)
        self.count = state_dict["count"]


class Own:
    """A schedule of no class of torch's, which says all but its optimizer."""

    def __init__(self, optimizer):
        self.optimizer, self.count, self.rates = optimizer, 0, [0.05, 0.01]

    def step(self, *_):
        self.count += 1
        for group in self.optimizer.param_groups:
            group["lr"] = self.rates[self.count > 7]

    def state_dict(self):
        return {name: value for name, value in vars(self).items() if name != "optimizer"}

    def load_state_dict(self, state_dict):
        vars(self).update(state_dict)


class OwnButItsCount(Own):
    def state_dict(self):
        return {"rates": self.rates}


def scheduled(schedule):
    class Scheduled(Small):
        def configure_optimizers(self):
            optimizer = torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)
            return [optimizer], [{"scheduler": schedule(optimizer), "interval": "step"}]

        def lr_scheduler_step(self, scheduler, metric):
            scheduler.step()

    return Scheduled


@pytest.mark.parametrize("schedule", [Lowers, OwnButItsCount])
@pytest.mark.parametrize("where", [{"minutes": 0}, {"in_epoch": every(2)}], ids=["start", "mid"])
def test_what_a_schedule_leaves_out_of_its_state_is_refused(tmp_path, schedule, where):
    """Red before: resumed in silence, in other bits, where it shows in no step before the stop."""
    _, _, said = fit(tmp_path, Points, scheduled(schedule), **where)
    name = f"{schedule.__name__}.count changes while the training runs, and the state_dict does not"
    assert any(name in sentence for sentence in said), said
    assert not list(tmp_path.glob("*.ckpt"))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("schedule", [LowersAndSaysSo, Own])
def test_what_a_schedule_says_is_resumed(tmp_path, schedule):
    assert_resumed(tmp_path, [2, 8], kills=[3, 9], module=scheduled(schedule))


class ByNames(pl.Callback):
    """Lowers the rate by a number that no state holds; the state holds another one like it."""

    KEYS = ("wait", "patience")

    def __init__(self):
        self.wait, self.patience, self.drops = 0, 1, 0

    def on_train_epoch_end(self, trainer, module):
        self.drops += 1
        for group in trainer.optimizers[0].param_groups:
            group["lr"] = 0.05 * 0.5**self.drops

    def state_dict(self):
        return {name: getattr(self, name) for name in self.KEYS}

    def load_state_dict(self, state_dict):
        vars(self).update(state_dict)


class BegunAnew(ByNames):
    def load_state_dict(self, state_dict):
        self.wait, self.patience, self.drops = 0, 1, 0
        super().load_state_dict(state_dict)

    def state_dict(self):
        return {"wait": self.wait, "patience": self.patience}


class Stages:
    def __init__(self):
        self.known, self.drops = 1, 0

    def state_dict(self):
        return {"known": self.known}


class Inside(ByNames):
    def __init__(self):
        self.stages = Stages()

    def on_train_epoch_end(self, trainer, module):
        self.stages.drops += 1
        for group in trainer.optimizers[0].param_groups:
            group["lr"] = 0.05 * 0.5**self.stages.drops

    def state_dict(self):
        return {"stages": self.stages.state_dict()}

    def load_state_dict(self, state_dict):
        self.stages.known = state_dict["stages"]["known"]


class Helper:
    """Counts epochs, and what was best."""

    def __init__(self):
        self.seen, self.best = 0, 1000.0

    def take(self, value):
        self.seen += 1
        self.best = min(self.best, value)


class OfTheTrainer(pl.Callback):
    """Says the trainer's epoch, and not how many a helper has seen: as many."""

    def __init__(self):
        self.helper = Helper()

    def setup(self, trainer, pl_module, stage):
        self.trainer = trainer

    def on_train_epoch_end(self, trainer, pl_module):
        self.helper.take(trainer.callback_metrics["train_loss"].item())

    def state_dict(self):
        return {"epoch": self.trainer.current_epoch, "best": self.helper.best}

    def load_state_dict(self, state):
        self.helper.best = state["best"]


class UnderAnotherName(ByNames):
    def state_dict(self):
        return {"w": self.wait, "p": self.patience, "d": [self.drops]}

    def load_state_dict(self, state_dict):
        self.wait, self.patience, self.drops = state_dict["w"], state_dict["p"], state_dict["d"][0]


@pytest.mark.parametrize("callback", [ByNames, BegunAnew, Inside])
def test_a_number_that_the_state_holds_of_another_one_is_refused(tmp_path, callback):
    """Red before: resumed in silence, in other bits: a state has a 0 or a 1 nearly always."""
    _, _, said = fit(tmp_path, module=with_callback(callback), minutes=0)
    assert any("drops changes while the training runs" in sentence for sentence in said), said
    assert not list(tmp_path.glob("*.ckpt"))


def test_a_number_of_the_trainer_is_not_what_a_helper_counts(tmp_path):
    """Red before: in silence, as both are as many where an epoch starts."""
    _, _, said = fit(tmp_path, module=with_callback(OfTheTrainer), minutes=0)
    assert any("seen changes while the training runs" in sentence for sentence in said), said
    assert not list(tmp_path.glob("*.ckpt"))


def test_a_number_that_the_state_holds_under_another_name_is_resumed(tmp_path):
    assert_resumed(tmp_path, [2, 8], kills=[3, 9], module=with_callback(UnderAnotherName))


INSTALLED = """
import pytorch_lightning as pl

class Average(pl.Callback):
    def __init__(self):
        self.updates = 0

    def on_train_batch_end(self, *_):
        self.updates += 1

    def state_dict(self):
        return {"updates": self.updates}

    def load_state_dict(self, state_dict):
        self.updates = state_dict["updates"]
"""


def test_what_an_installed_class_saves_is_held_in_one_of_ones_own_too(tmp_path, monkeypatch):
    """Red before: "the state_dict does not hold it", as only code of one's own was read."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "averages_installed.py").write_text(INSTALLED)
    monkeypatch.syspath_prepend(str(folder))
    average = importlib.import_module("averages_installed").Average
    own = type("Own", (average,), {"__module__": __name__, "on_train_end": lambda *_: None})
    assert_resumed(tmp_path, [2, 8], kills=[3, 9], module=with_callback(own))


class SetLate(Best):
    def on_train_batch_start(self, *_):
        self.original = None


class ByHooks(pl.Callback):
    count = 0

    def on_train_batch_end(self, *_):
        self.count += 1

    def on_save_checkpoint(self, trainer, module, checkpoint):
        checkpoint["count"] = self.count

    def on_load_checkpoint(self, trainer, module, checkpoint):
        self.count = checkpoint["count"]


class Warm(torch.optim.lr_scheduler.LRScheduler):
    """Keeps the schedule that comes behind it."""

    def __init__(self, optimizer):
        self.after = torch.optim.lr_scheduler.StepLR(optimizer, 3)
        super().__init__(optimizer)

    def get_lr(self):
        return [0.05 for _ in self.optimizer.param_groups]


@pytest.mark.parametrize(
    ("module", "cure"),
    [
        (
            with_callback(SetLate),
            "SetLate.original changes while the training runs, and .*__init__",
        ),
        (with_callback(ByHooks), "says that nothing is to be kept; what on_save_checkpoint adds"),
        (
            scheduled(Warm),
            r"optimizer, schedule or module .*StepLR.*\(a schedule inside of another",
        ),
    ],
)
def test_why_there_is_no_checkpoint_names_a_cure(tmp_path, module, cure):
    """Red before: none was named, or the module was said to keep what its schedule does."""
    _, _, said = fit(tmp_path, Points, module, minutes=0)
    assert any(re.search(cure, sentence) for sentence in said), said


class Meter:
    def __init__(self):
        self.counts = 0

    def add(self):
        self.counts += 1


class HasTwo(pl.Callback):
    """Has two helpers alike, of which it saves the first."""

    def __init__(self):
        self.first, self.second = Meter(), Meter()

    def on_after_backward(self, trainer, pl_module):
        self.first.add()
        self.second.add()
        if self.second.counts > 8:
            pl_module.hidden.weight.grad.mul_(0.1)

    def state_dict(self):
        return {"counts": self.first.counts}

    def load_state_dict(self, state):
        self.first.counts = state["counts"]


class SavesBoth(HasTwo):
    def state_dict(self):
        return {"counts": self.first.counts, "again": {"counts": self.second.counts}}

    def load_state_dict(self, state):
        self.first.counts, self.second.counts = state["counts"], state["again"]["counts"]


def test_a_number_of_one_helper_is_not_that_of_another_one(tmp_path):
    """Red at 959891d6: as long as both were alike, that of the first was taken for the second's."""
    _, _, said = fit(tmp_path, in_epoch=every(1), callbacks=[HasTwo()])
    assert said[0].startswith("no checkpoints are written in mid-epoch: HasTwo.second.counts")


def test_numbers_of_two_helpers_may_have_one_name(tmp_path):
    assert_resumed(tmp_path, [8], kills=[9], callbacks=Anew([SavesBoth]))
