"""Schedules inside of others, without a state, and with what cannot be pickled."""

import functools

import pytest
import torch
from resumed import every, fit
from small import Small
from torch.optim import lr_scheduler

from twinrun.errors import TwinrunError


class Counts:
    """Gives the rate, and makes it small from the tenth step on by a count of its own."""

    def __init__(self):
        self.asked = 0

    def rate(self, _):
        self.asked += 1
        return 1.0 if self.asked < 10 else 0.1

    def __call__(self, step):
        return self.rate(step)


def counting(step, counts):
    return counts.rate(step)


def closure():
    counts = Counts()
    return lambda step: counts.rate(step)


def in_turn(optimizer, inner):
    first = lr_scheduler.ConstantLR(optimizer, 0.5, 1)
    return lr_scheduler.SequentialLR(optimizer, [first, inner], [1])


def chained(optimizer, inner):
    return lr_scheduler.ChainedScheduler([lr_scheduler.StepLR(optimizer, 4), inner])


def twice(optimizer, inner):
    return chained(optimizer, in_turn(optimizer, inner))


FUNCTIONS = {
    "closure": closure,
    "partial": lambda: functools.partial(counting, counts=Counts()),
    "method": lambda: Counts().rate,
}
KINDS = {"LambdaLR": lr_scheduler.LambdaLR, "MultiplicativeLR": lr_scheduler.MultiplicativeLR}


def module(schedule):
    """Return a module that is trained by a schedule that moves with each step."""

    class Scheduled(Small):
        def configure_optimizers(self):
            optimizer = torch.optim.SGD(self.parameters(), lr=0.05)
            return [optimizer], [{"scheduler": schedule(optimizer, self), "interval": "step"}]

        def lr_scheduler_step(self, scheduler, metric):
            scheduler.step()

    return Scheduled


def outcome(folder, kind, kill=8):
    """Return what is said of a training that is killed and resumed; None where it is the same."""
    whole, _, _ = fit(folder / "whole", module=kind)
    _, _, said = fit(folder / "killed", module=kind, kill=kill, in_epoch=every(1))
    try:
        found, resumed_at, again = fit(folder / "killed", module=kind)
    except TwinrunError as error:
        return str(error)
    said = [*said, *again]
    assert resumed_at or said
    assert found == whole
    return next(iter(said), None)


@pytest.mark.parametrize("around", [in_turn, chained, twice])
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_functions_of_schedules_inside_of_others_are_looked_at(tmp_path, kind, function, around):
    """Red at 959891d6: resumed in silence, and the rate fell too late."""

    def schedule(optimizer, _):
        return around(optimizer, KINDS[kind](optimizer, FUNCTIONS[function]()))

    assert "Counts.asked changes while the training runs" in outcome(tmp_path, module(schedule))


def by_the_weights(optimizer, trained):
    norm = trained.hidden.weight.norm().item()
    return in_turn(optimizer, lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + norm * step)))


def test_rates_inside_of_others_that_are_made_of_the_weights_end_the_attempt(tmp_path):
    """Red at 959891d6: made of the weights of the checkpoint, in silence."""
    said = outcome(tmp_path, module(by_the_weights))
    assert said.startswith("LambdaLR.lr_lambdas[0] is not what it was")


@pytest.mark.parametrize("around", [in_turn, chained, twice])
def test_objects_whose_state_torch_saves_are_no_reason(tmp_path, around):
    def schedule(optimizer, _):
        return around(optimizer, lr_scheduler.LambdaLR(optimizer, Counts()))

    assert outcome(tmp_path, module(schedule)) is None


class ByAFunction(lr_scheduler.LRScheduler):
    def __init__(self, optimizer, function):
        self.function = function
        super().__init__(optimizer)

    def get_lr(self):
        return [base * self.function(self.last_epoch) for base in self.base_lrs]


class LeavesItOut(ByAFunction):
    def state_dict(self):
        state = super().state_dict()
        del state["function"]
        return state


def by_the_weights_alone(optimizer, trained):
    norm = trained.hidden.weight.norm().item()
    return LeavesItOut(optimizer, lambda step: 1 / (1 + norm * step))


def by_a_cycle(optimizer, trained):
    norm = trained.hidden.weight.norm().item()
    scale = {"scale_fn": lambda cycle: 1 / (1 + norm * cycle), "scale_mode": "iterations"}
    return lr_scheduler.CyclicLR(optimizer, 0.01, 0.1, 3, cycle_momentum=False, **scale)


@pytest.mark.parametrize("schedule", [by_the_weights_alone, by_a_cycle])
def test_so_do_other_functions_of_schedules(tmp_path, schedule):
    """Red at 959891d6: only those of `LambdaLR` and `MultiplicativeLR` were compared."""
    assert "is not what it was" in outcome(tmp_path, module(schedule))


@pytest.mark.parametrize(
    "schedule",
    [
        lambda optimizer, _: LeavesItOut(optimizer, lambda step: 1 / (1 + step)),
        lambda optimizer, _: lr_scheduler.CyclicLR(
            optimizer, 0.01, 0.1, 3, scale_fn=lambda x: 0.9**x, cycle_momentum=False
        ),
        lambda optimizer, _: lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=20),
        lambda optimizer, _: Around(optimizer),
    ],
)
def test_functions_that_are_what_they_were_are_no_reason(tmp_path, schedule):
    """Red at 959891d6 of a schedule around another one: it was not seen that its state has it."""
    assert outcome(tmp_path, module(schedule)) is None


class Around(lr_scheduler.LRScheduler):
    """Warms up, and has another schedule behind it, whose state its own state has."""

    def __init__(self, optimizer):
        self.after = lr_scheduler.CosineAnnealingLR(optimizer, 11)
        super().__init__(optimizer)

    def get_lr(self):
        if self.last_epoch > 3:
            return self.after.get_last_lr()
        return [base * (1 + self.last_epoch) / 4 for base in self.base_lrs]

    def step(self, epoch=None):
        if self.last_epoch > 3:
            self.after.step()
            self._last_lr = self.after.get_last_lr()
        else:
            super().step(epoch)

    def state_dict(self):
        left = ("optimizer", "after")
        state = {name: value for name, value in vars(self).items() if name not in left}
        return {**state, "after": self.after.state_dict()}

    def load_state_dict(self, state):
        state = dict(state)
        self.after.load_state_dict(state.pop("after"))
        vars(self).update(state)


class HoldsNoOther(Around):
    def state_dict(self):
        state = super().state_dict()
        del state["after"]
        return state

    def load_state_dict(self, state):
        vars(self).update(state)


def test_a_schedule_around_another_one_has_to_hold_its_state(tmp_path):
    said = outcome(tmp_path, module(lambda optimizer, _: HoldsNoOther(optimizer)), kill=12)
    assert "CosineAnnealingLR" in said


def test_a_state_that_cannot_be_pickled_costs_checkpoints_alone(tmp_path):
    """Red at 959891d6: the training ended with AttributeError where one was written."""
    kind = module(lambda optimizer, _: ByAFunction(optimizer, lambda step: 1 / (1 + step)))
    said = outcome(tmp_path, kind)
    assert "a checkpoint cannot be written (" in said
    assert "'lr_schedulers'" in said


class RaisesIfSaved(Small):
    def on_save_checkpoint(self, checkpoint):
        with torch.no_grad():
            self.hidden.weight.add_(1)
        raise KeyError("scaler")


def test_a_hook_that_raises_where_it_is_saved_costs_checkpoints_alone(tmp_path):
    """Red at 959891d6: the training ended with KeyError; the weights are put back, too."""
    assert "what is to be saved raises KeyError: 'scaler'" in outcome(tmp_path, RaisesIfSaved)


class SaysNothing(lr_scheduler.LRScheduler):
    def __init__(self, optimizer):
        self.counts = 0
        super().__init__(optimizer)

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass

    def get_lr(self):
        self.counts += 1
        return [base * (1 if self.counts < 10 else 0.1) for base in self.base_lrs]


class ByHand:
    """Likewise, of no class of torch's."""

    def __init__(self, optimizer):
        self.optimizer, self.counts = optimizer, 0

    def step(self, *_):
        self.counts += 1
        self.optimizer.param_groups[0]["lr"] = 0.05 if self.counts < 10 else 0.005

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


@pytest.mark.parametrize("kind", [SaysNothing, ByHand])
def test_a_schedule_that_says_nothing_has_a_state_all_the_same(tmp_path, kind):
    """Red at 959891d6: as a callback's, `{}` counted as nothing to be kept."""
    said = outcome(tmp_path, module(lambda optimizer, _: kind(optimizer)))
    assert f"{kind.__name__}.counts" in said
