"""A flag of a buffer, and a configuration as hyperparameters: both once cost a checkpoint."""

import functools
import sys
import types
from collections.abc import Mapping

import pytest
import torch
from pytorch_lightning.trainer.connectors import checkpoint_connector
from resumed import assert_resumed, every, fit
from small import Points, Small

from twinrun.errors import TwinrunError


class StartsAtZero(Small):
    """Begins its sum of losses with a buffer, and sets the flag of it alone."""

    def __init__(self):
        super().__init__()
        self.register_buffer("zero", torch.tensor(0.0), persistent=False)
        self.register_buffer("kept", torch.tensor(0.0))
        self.given = torch.tensor(1.0)

    def training_step(self, batch, batch_idx):
        found = self.zero
        found.requires_grad_()
        self.kept.requires_grad_(not self.kept.requires_grad or batch_idx > 0)
        factor = 1.0 if self.given.requires_grad and self.trainer.current_epoch else 1.5
        self.given = torch.tensor(1.0 + batch_idx, requires_grad=True)
        return found + self.kept + factor * super().training_step(batch, batch_idx)


@pytest.mark.parametrize("options", [{"minutes": 0}, {}], ids=["at the start", "in mid-epoch"])
def test_the_flag_of_a_buffer_comes_back(tmp_path, options):
    """Red before: "zero of the module is not what it was where the checkpoint was taken"."""
    at = [5] if options else [6]
    rarely = {"every_batches": 1000} if options else {}
    assert_resumed(tmp_path, at, kills=[7], module=StartsAtZero, max_epochs=3, **rarely, **options)


class KeepsAGraph(Small):
    def __init__(self):
        super().__init__()
        self.register_buffer("sum", torch.tensor(0.0))

    def training_step(self, batch, batch_idx):
        self.sum = self.sum + self.output.weight.sum()
        return super().training_step(batch, batch_idx)


def test_a_buffer_that_holds_a_graph_is_refused_by_name(tmp_path):
    """Red before: a checkpoint was written, and no start could use it."""
    *_, said = fit(tmp_path, module=KeepsAGraph, minutes=0)
    assert said == [
        "no checkpoints are written: sum of KeepsAGraph holds the graph of an earlier step "
        "(`tensor.detach()` holds none)"
    ]


class Configuration(Mapping):
    """As a library of configurations has them."""

    def __init__(self, values):
        self._values = values

    def __getitem__(self, key):
        return self._values[key]

    def __iter__(self):
        return iter(self._values)

    def __len__(self):
        return len(self._values)


class Configured(Small):
    """Keeps its configuration; Lightning's checkpoint names its class, too."""

    def __init__(self):
        super().__init__()
        self._hparams = Configuration({"a": 1, "b": Configuration({"c": 2})})

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

    def on_save_checkpoint(self, checkpoint):
        assert checkpoint["hyper_parameters"] == {"a": 1}


class ConfiguredPoints(Points):
    def __init__(self, **options):
        super().__init__(**options)
        self._hparams = Configuration({"e": 3})


def test_a_configuration_as_hyperparameters_costs_no_checkpoint(tmp_path, monkeypatch):
    """Red before: "a callback, optimizer or module keeps more than data", of its class."""
    library = types.ModuleType("omegaconf")
    library.Container = Configuration
    monkeypatch.setitem(sys.modules, "omegaconf", library)
    monkeypatch.setattr(checkpoint_connector, "_OMEGACONF_AVAILABLE", True)
    options = {"module": Configured, "data": ConfiguredPoints}
    assert_resumed(tmp_path, [5], kills=[7], minutes=0, every_batches=1000, **options)


class KeepsStarts(Small):
    """Keeps with each parameter where it began, and pulls it there in the last epoch."""

    def on_train_start(self):
        for parameter in self.parameters():
            parameter.start = parameter.detach().clone()
            parameter.scale = parameter.detach().norm().item()

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        return loss + self.pull() if self.current_epoch == 3 else loss

    def pull(self):
        return sum((p - p.start).square().sum() * (1 + p.scale) for p in self.parameters())


class KeepsLast(Small):
    """Keeps with each parameter what it was a step ago."""

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        for parameter in self.parameters():
            loss = loss + 0.1 * (parameter - getattr(parameter, "last", 0.0)).square().sum()
            parameter.last = parameter.detach().clone()
        return loss


def rate(base, epoch):
    return base if epoch == 3 else 1.0


class Rates(Small):
    """Has a function give its rates."""

    def rates(self):
        total = self.trainer.estimated_stepping_batches
        return lambda epoch: 1 - epoch / total

    def configure_optimizers(self):
        optimizer = super().configure_optimizers()
        return [optimizer], [torch.optim.lr_scheduler.LambdaLR(optimizer, self.rates())]


class RatesOfItself(Rates):
    def rates(self):
        return lambda epoch: rate(self.hidden.out_features, epoch)


class RatesByAPartial(Rates):
    def rates(self):
        return functools.partial(rate, 0.5)


class RatesOfWeights(Rates):
    def rates(self):
        norm = self.hidden.weight.detach().norm().item()
        return lambda epoch: rate(norm, epoch)


class PartialOfWeights(Rates):
    def rates(self):
        return functools.partial(rate, self.hidden.weight.detach().norm().item())


@pytest.mark.parametrize("module", [RatesOfWeights, PartialOfWeights])
def test_rates_that_are_made_of_other_weights_end_the_attempt(tmp_path, module):
    """Red before: Lightning has the function made of the checkpoint's weights; in silence."""
    fit(tmp_path, module=module, kill=8, in_epoch=every(1), max_epochs=4)
    with pytest.raises(TwinrunError, match=r"^LambdaLR.lr_lambdas\[0\] is not what it was where"):
        fit(tmp_path, module=module, max_epochs=4)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("module", [Rates, RatesOfItself, RatesByAPartial])
def test_other_rates_are_resumed(tmp_path, module):
    assert_resumed(tmp_path, [7], kills=[8], module=module, max_epochs=4)


class InSlots:
    """Gives rates, and has no attributes that torch's schedule could save."""

    __slots__ = ("steps",)

    def __init__(self):
        self.steps = 0

    def __call__(self, epoch):
        self.steps += 1
        return 1 / (1 + self.steps)


class HasSlots(Small):
    def configure_optimizers(self):
        optimizer = super().configure_optimizers()
        return [optimizer], [torch.optim.lr_scheduler.LambdaLR(optimizer, InSlots())]


def test_a_schedule_that_cannot_be_saved_costs_its_checkpoints_alone(tmp_path):
    """Red before: the training ended with an `AttributeError`, or a `TypeError` of a look."""
    whole, _, said = fit(tmp_path, module=HasSlots, in_epoch=every(1), max_epochs=2)
    assert "'epoch': 2" in whole[-1]
    assert said == [
        "no checkpoints are written: LambdaLR.state_dict fails (AttributeError: 'InSlots' object "
        "has no attribute '__dict__')"
    ]


@pytest.mark.parametrize(("kill", "at"), [(8, 7), (12, 11)])
def test_what_a_hook_puts_on_parameters_is_put_back(tmp_path, kill, at):
    """Red before: made anew of the resumed weights, in silence."""
    assert_resumed(tmp_path, [at], kills=[kill], module=KeepsStarts, max_epochs=4)


def test_what_steps_put_there_is_a_reason_against_checkpoints(tmp_path):
    _, _, said = fit(tmp_path, module=KeepsLast, in_epoch=every(1))
    assert "last of hidden.weight of KeepsLast changes while the training runs" in said[0]
