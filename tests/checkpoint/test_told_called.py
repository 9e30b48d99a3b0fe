"""Helpers that can be called, of which a state holds what they count."""

import copy
import math

import pytest
import pytorch_lightning as pl
import torch
from resumed import Anew, assert_resumed, every, fit
from small import Small


class Decay:
    def __init__(self):
        self.count = 0
        self.spent = 0.0

    def __call__(self):
        self.count += 1
        return 0.05 / (1 + self.count / 20)


class ByDecay(pl.Callback):
    """Has the number of calls in its state."""

    def __init__(self):
        self.decay = Decay()

    def on_train_batch_start(self, trainer, *_):
        for group in trainer.optimizers[0].param_groups:
            group["lr"] = self.decay()

    def state_dict(self):
        return {"count": self.decay.count}

    def load_state_dict(self, state):
        self.decay.count = state["count"]


class Stopper:
    """As the well-known one: called with the loss of a validation."""

    def __init__(self, patience=50):
        self.patience, self.counter, self.best, self.stop = patience, 0, None, False
        self.lowest = math.inf

    def __call__(self, loss):
        if self.best is None or -loss > self.best:
            self.best, self.counter, self.lowest = -loss, 0, loss
        else:
            self.counter += 1
            self.stop = self.counter >= self.patience


class Stops(pl.Callback):
    def __init__(self):
        self.stopper = Stopper()

    def on_train_batch_end(self, trainer, module, outputs, *_):
        self.stopper(float(outputs["loss"]))
        if self.stopper.counter > 1:
            for group in trainer.optimizers[0].param_groups:
                group["lr"] *= 0.9
        trainer.should_stop = self.stopper.stop

    def state_dict(self):
        found = vars(self.stopper)
        return {name: found[name] for name in ("counter", "best", "stop", "lowest")}

    def load_state_dict(self, state):
        vars(self.stopper).update(state)


class StopsByDict(Stops):
    def state_dict(self):
        return {"stopper": dict(vars(self.stopper))}

    def load_state_dict(self, state):
        vars(self.stopper).update(state["stopper"])


class Shadow:
    def __init__(self, module):
        self.of = {name: copy.deepcopy(each.detach()) for name, each in module.named_parameters()}

    def __call__(self, module):
        for name, each in module.named_parameters():
            self.of[name].mul_(0.9).add_(each.detach(), alpha=0.1)


class Averages(pl.Callback):
    def __init__(self):
        self.shadow, self.pending = None, None

    def on_fit_start(self, trainer, module):
        self.shadow = Shadow(module)
        if self.pending is not None:
            self.shadow.of = self.pending

    def on_train_batch_end(self, trainer, module, *_):
        self.shadow(module)
        for group in trainer.optimizers[0].param_groups:
            group["lr"] = 0.05 / (1 + float(sum(each.norm() for each in self.shadow.of.values())))

    def state_dict(self):
        return {} if self.shadow is None else {"shadow": self.shadow.of}

    def load_state_dict(self, state):
        self.pending = state.get("shadow")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("callback", [ByDecay, Stops, StopsByDict, Averages])
def test_what_a_state_holds_of_a_helper_that_is_called_is_resumed(tmp_path, callback):
    assert_resumed(tmp_path, [2, 8], kills=[3, 9], module=Small, callbacks=Anew([callback]))


class Forgets(ByDecay):
    """Leaves out what it adds up."""

    def on_train_batch_start(self, trainer, *_):
        super().on_train_batch_start(trainer)
        self.decay.spent += 0.5
        for group in trainer.optimizers[0].param_groups:
            group["lr"] /= 1 + self.decay.spent


class SaysAnother(ByDecay):
    """Has a number of the same value in its state, of another attribute."""

    def __init__(self):
        super().__init__()
        self.steps = 0

    def on_train_batch_start(self, trainer, *_):
        super().on_train_batch_start(trainer)
        self.steps += 1

    def state_dict(self):
        return {"steps": self.steps}

    def load_state_dict(self, state):
        self.steps = state["steps"]


@pytest.mark.parametrize(
    ("callback", "name"), [(Forgets, "decay.spent"), (SaysAnother, "decay.count")]
)
def test_what_a_state_leaves_out_of_a_helper_that_is_called_is_refused(tmp_path, callback, name):
    _, _, said = fit(tmp_path, module=Small, callbacks=Anew([callback]), in_epoch=every(1))
    assert any(name in sentence for sentence in said)


class Counting:
    def __init__(self):
        self.scale = 1.0

    def __call__(self, step):
        self.scale *= 0.9
        return self.scale


class ByCounting(Small):
    """torch's schedule has what the object holds in its state."""

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.05)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, Counting())
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": schedule, "interval": "step"},
        }


class OfAMethod(Small):
    """No state has what the object of a method holds."""

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.05)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, Counting().__call__)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": schedule, "interval": "step"},
        }


class HeldToo(ByCounting):
    """Holds the object that the schedule asks."""

    def __init__(self):
        super().__init__()
        self.counting = Counting()

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.05)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, self.counting)
        return [optimizer], [{"scheduler": schedule, "interval": "step"}]


def test_an_object_that_gives_a_schedules_rates_is_resumed(tmp_path):
    assert_resumed(tmp_path, [2, 8], kills=[3, 9], module=ByCounting)


@pytest.mark.parametrize("module", [OfAMethod, HeldToo])
def test_an_object_that_others_hold_or_that_no_state_has_is_refused(tmp_path, module):
    _, _, said = fit(tmp_path, module=module, in_epoch=every(1))
    assert any("Counting.scale" in sentence for sentence in said)
