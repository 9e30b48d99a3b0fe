"""State that steps reach by a property, a helper's method, a class: refused, or kept and put back.

Each was resumed to other weights without a word.
"""

from collections import OrderedDict

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from resumed import assert_resumed, every, fit
from small import Points, Small
from torch.utils.data import DataLoader, Dataset
from torchmetrics import MeanMetric
from torchmetrics.wrappers import Running

from twinrun.errors import TwinrunError

SCALE = {"n": 0}
DRAWN = [np.random.default_rng(1)]
ORDER = OrderedDict(a=1.0, b=2.0)


def moved():
    SCALE["n"] += 1
    return 1 + 0.05 * SCALE["n"]


class Scales(Small):
    def factor(self):
        return moved()

    def training_step(self, batch, batch_idx):
        return super().training_step(batch, batch_idx) * self.factor()


class ByProperty(Scales):
    scale = property(lambda self: moved())

    def factor(self):
        return self.scale


class Mixup:
    """A helper that keeps nothing itself."""

    def __init__(self):
        self.inner = None

    def mix(self):
        return moved() if self.inner is None else self.inner.mix()


class OfItsClass:
    n = 0

    def mix(self):
        type(self).n += 1
        return 1 + 0.05 * type(self).n


class Counted:
    """Counts where it is made."""

    def __init__(self):
        self.factor = moved()


class ByHelper(Scales):
    def __init__(self):
        super().__init__()
        self.mixup = Mixup()

    def factor(self):
        return self.mixup.mix()


class ByHelpersHelper(ByHelper):
    def __init__(self):
        super().__init__()
        self.mixup.inner = Mixup()


class ByClassOfHelper(ByHelper):
    def __init__(self):
        super().__init__()
        self.mixup = OfItsClass()


class ByListed(ByHelper):
    def __init__(self):
        super().__init__()
        self.mixups = {"all": [self.mixup]}
        del self.mixup

    def factor(self):
        return self.mixups["all"][0].mix()


class ByMade(Scales):
    def factor(self):
        return Counted().factor


class ByNested(Scales):
    class State:
        scale = 1.0

    def factor(self):
        self.State.scale *= 1.05
        return self.State.scale


class ByHeldClass(Scales):
    def __init__(self):
        super().__init__()
        self.held = OfItsClass

    def factor(self):
        self.held.n += 1
        return 1 + 0.05 * self.held.n


class OfData(Points):
    def factor(self):
        return moved()


class ByData(Scales):
    def factor(self):
        return self.trainer.datamodule.factor()


class ByOrder(Scales):
    def factor(self):
        ORDER.move_to_end(next(iter(ORDER)))
        return next(iter(ORDER.values()))


class ByCallback(pl.Callback):
    mixup = property(lambda self: moved())

    def on_train_batch_start(self, trainer, pl_module, *_):
        for group in trainer.optimizers[0].param_groups:
            group["lr"] = 0.01 * self.mixup


class SwitchesAutocast(Scales):
    def factor(self):
        torch.set_autocast_enabled("cpu", False)
        return moved()


@pytest.mark.parametrize(
    ("module", "name"),
    [
        (ByProperty, "SCALE['n']"),
        (ByHelper, "SCALE['n']"),
        (ByHelpersHelper, "SCALE['n']"),
        (ByClassOfHelper, "OfItsClass.n"),
        (ByListed, "SCALE['n']"),
        (ByMade, "SCALE['n']"),
        (ByNested, "State.scale"),
        (ByHeldClass, "OfItsClass.n"),
        (ByOrder, "ORDER"),
    ],
)
def test_what_steps_reach_and_nobody_saves_is_refused(tmp_path, module, name):
    _, _, (said, *_) = fit(tmp_path, module=module, in_epoch=every(1), kill=3)
    assert f"{name} changes while the training runs" in said


class HoldsDeep(Scales):
    def __init__(self):
        super().__init__()
        self.held = {"a": {"b": [np.random.default_rng(1)]}}

    def factor(self):
        return 1 + self.held["a"]["b"][0].random()


def test_a_generator_deep_in_an_attribute_is_refused(tmp_path):
    _, _, (said, *_) = fit(tmp_path, module=HoldsDeep, in_epoch=every(1), kill=3)
    assert "HoldsDeep.held is a random number generator" in said


def test_what_a_data_modules_method_reaches_is_refused(tmp_path):
    _, _, (said, *_) = fit(tmp_path, data=OfData, module=ByData, in_epoch=every(1), kill=3)
    assert "SCALE['n'] changes while the training runs" in said


def test_what_a_callbacks_property_reaches_is_refused(tmp_path):
    told = {"callbacks": [ByCallback()], "in_epoch": every(1), "kill": 3}
    _, _, (said, *_) = fit(tmp_path, module=Small, **told)
    assert "SCALE['n'] changes while the training runs" in said


class Autocasts(Small):
    def on_train_batch_end(self, *_):
        torch.set_autocast_enabled("cpu", True)


def test_autocast_that_is_switched_on_is_refused(tmp_path):
    try:
        _, _, (said, *_) = fit(tmp_path, module=Autocasts, in_epoch=every(1), kill=3)
    finally:
        torch.set_autocast_enabled("cpu", False)
    assert "set_autocast_enabled of torch changes while the training runs" in said


class Objects(Dataset):
    """Smooths labels that lie in an array of objects."""

    def __init__(self, inputs, targets):
        self.inputs, self.targets = inputs, np.empty(len(targets), dtype=object)
        self.targets[:] = [target.numpy() for target in targets]

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, index):
        self.targets[index] = self.targets[index] * np.float32(0.9)
        return self.inputs[index], torch.as_tensor(self.targets[index])


class ObjectRows(Points):
    def train_dataloader(self):
        return DataLoader(Objects(self.inputs, self.targets), 16)


def test_an_array_of_objects_that_is_written_to_is_refused(tmp_path):
    _, _, (said, *_) = fit(tmp_path, data=ObjectRows, module=Small, in_epoch=every(1), kill=3)
    assert "Objects.targets changes while the training runs" in said


class Turns(Small):
    """Keeps the order of a mapping, and whether a tensor is turned."""

    def __init__(self):
        super().__init__()
        self.order = OrderedDict(a=1.0, b=2.0, c=3.0)
        self.turned = torch.arange(4.0).reshape(2, 2)

    def training_step(self, batch, batch_idx):
        self.order.move_to_end(next(iter(self.order)))
        self.turned = self.turned.t()
        factor = next(iter(self.order.values())) * self.turned.stride(0)
        return super().training_step(batch, batch_idx) * (1 + 0.1 * factor)


class Averages(Small):
    """Weighs a loss by the mean of the last three."""

    def __init__(self):
        super().__init__()
        self.last = Running(MeanMetric(), window=3)

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        self.last.update(loss.detach())
        return loss * (1 + self.last.compute())


class Wide(torch.optim.Optimizer):
    """Keeps a momentum in float64, and a count in a tensor of integers."""

    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 0.01})

    @torch.no_grad()
    def step(self, closure=None):
        loss = None if closure is None else torch.enable_grad()(closure)()
        for group in self.param_groups:
            for parameter in group["params"]:
                state = self.state[parameter]
                if not state:
                    zeros = torch.zeros_like(parameter, dtype=torch.float64)
                    state.update(of=[zeros], seen=torch.zeros(1, dtype=torch.int64))
                state["seen"] += 1
                state["of"][0].mul_(0.9).add_(parameter.grad.double() / 3)
                factor = 1 / state["seen"].item()
                parameter.sub_((group["lr"] * factor * state["of"][0]).to(parameter.dtype))
        return loss


class Widens(Small):
    def configure_optimizers(self):
        return Wide(self.parameters())


@pytest.mark.one_in(2)
@pytest.mark.parametrize("module", [Turns, Averages, Widens])
def test_what_can_be_kept_goes_on_as_it_was(tmp_path, module):
    assert_resumed(tmp_path, [7], kills=[8], module=module)


class WritesWhereLoaded(Small):
    def on_load_checkpoint(self, checkpoint):
        checkpoint["state_dict"]["output.bias"] += 1


class WritesWhereSaved(Small):
    def on_save_checkpoint(self, checkpoint):
        with torch.no_grad():
            self.output.bias += 1


def test_weights_that_a_module_loads_otherwise_cost_an_attempt(tmp_path):
    fit(tmp_path, module=WritesWhereLoaded, in_epoch=every(1), kill=8)
    with pytest.raises(TwinrunError, match=r"output\.bias of the module is not what it was"):
        fit(tmp_path, module=WritesWhereLoaded)
    assert fit(tmp_path, module=WritesWhereLoaded)[1] == []


def test_weights_that_are_written_where_they_are_saved_are_taken_back(tmp_path):
    """Red before: how often a checkpoint was due decided what was learned."""
    whole, _, said = fit(tmp_path / "never", module=WritesWhereSaved)
    assert said == []
    found, _, said = fit(tmp_path / "always", module=WritesWhereSaved, in_epoch=every(1))
    assert "output.bias of the module changes where a checkpoint is saved" in said[0]
    assert found == whole


class Unseen(Small):
    """Counts where nobody looks: at an installed module."""

    def training_step(self, batch, batch_idx):
        pl.counted = getattr(pl, "counted", 0) + 1
        return super().training_step(batch, batch_idx) * (1 + 0.1 * (pl.counted // 4))


def test_steps_that_a_killed_process_trained_have_to_be_the_same_again(tmp_path):
    """Whatever nobody sees shows, once it shows in them."""
    pl.counted = 0
    fit(tmp_path, module=Unseen, in_epoch=every(3), kill=4)
    pl.counted = 0
    with pytest.raises(TwinrunError, match="step 4 is another one than before the stop"):
        fit(tmp_path, module=Unseen)
    pl.counted = 0
    assert fit(tmp_path, module=Unseen)[1] == []
