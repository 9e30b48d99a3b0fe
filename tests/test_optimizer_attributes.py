"""What an optimizer keeps beside its state is traced, proven and put back, whatever holds it."""

from collections import defaultdict
from types import SimpleNamespace

import pytest
import torch

from twinrun.acceleration.evidence import Recorder
from twinrun.comparison.module_attributes import (
    attribute_fingerprints_of,
    attributes_of,
    set_attributes,
)
from twinrun.optimizer_attributes import values_beside
from twinrun.trace.fingerprints import fingerprints_beside


class Averages:
    def __init__(self):
        self.shadows, self.updates = [], 0


class Own(torch.optim.SGD):
    """Keeps what others keep, in every way."""

    def __init__(self, parameters):
        super().__init__(parameters, lr=0.1, momentum=0.9)
        self.held = [p for group in self.param_groups for p in group["params"]]
        self.averages, self.by_parameter = None, {}
        self.count, self.began = 0, 0.5
        self.object = Averages()
        self.scale = torch.ones(())

    def step(self, closure=None):
        loss = super().step(closure)
        self.averages = [p.detach().clone() for p in self.held]
        self.by_parameter = {p: {"slow": p.detach().clone()} for p in self.held}
        self.object.shadows = [p.detach() + 1 for p in self.held]
        self.object.updates += 1
        self.count += 1
        self.state["all"]["steps"] = self.count
        return loss


class Lookahead(torch.optim.Optimizer):
    """Wraps another one, as most do: its groups, and slow weights of its own."""

    def __init__(self, base):
        self.base, self.defaults, self.param_groups = base, base.defaults, base.param_groups
        self.state, self.slow = defaultdict(dict), None
        super().__init__(self.param_groups, self.defaults)

    def step(self, closure=None):
        self.base.param_groups = self.param_groups
        loss = self.base.step(closure)
        self.slow = [p.detach().clone() for p in self.param_groups[0]["params"]]
        return loss


def made(kind):
    torch.manual_seed(1)
    module = torch.nn.Linear(2, 1)
    parameters = list(module.parameters())
    if kind == "own":
        return module, Own(parameters)
    if kind == "lookahead":
        return module, Lookahead(torch.optim.Adam(parameters, lr=0.1))
    if kind == "attached":
        optimizer = torch.optim.SGD(parameters, lr=0.1)
        optimizer.averages = [p.detach().clone() for p in parameters]
        return module, optimizer
    kinds = {"lbfgs": torch.optim.LBFGS, "adam": torch.optim.Adam}
    optimizer = kinds[kind](parameters, lr=0.1)
    torch.optim.lr_scheduler.StepLR(optimizer, 1)
    return module, optimizer


def step(module, optimizer):
    def closure():
        optimizer.zero_grad()
        loss = module(torch.ones(1, 2)).square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)


def paths(module, optimizer):
    return set(values_beside(optimizer, [*module.parameters()]))


@pytest.mark.parametrize("kind", ["adam", "lbfgs"])
def test_torchs_own_keep_nothing_beside(kind):
    module, optimizer = made(kind)
    step(module, optimizer)
    assert paths(module, optimizer) == set()
    assert fingerprints_beside([optimizer], []) == []


def test_all_that_an_optimizer_of_ones_own_keeps_is_found():
    module, optimizer = made("own")
    step(module, optimizer)
    assert paths(module, optimizer) == {
        *("averages[0]", "averages[1]", "count", "began", "scale"),
        *("by_parameter[0]['slow']", "by_parameter[1]['slow']"),
        *("object.shadows[0]", "object.shadows[1]", "object.updates"),
        "state['all']['steps']",
    }


def test_the_optimizer_that_one_wraps_is_looked_into():
    module, optimizer = made("lookahead")
    step(module, optimizer)
    found = paths(module, optimizer)
    assert {"slow[0]", "slow[1]"} < found
    assert any(path.startswith("base.state[") for path in found)


def test_a_difference_in_it_shows_in_the_step_and_the_time_does_not():
    module, optimizer = made("own")
    held = [*module.parameters()]
    before = fingerprints_beside([optimizer], held)
    optimizer.began = 0.75
    assert fingerprints_beside([optimizer], held) == before
    optimizer.scale.add_(1)
    assert fingerprints_beside([optimizer], held) != before


@pytest.mark.parametrize("kind", ["own", "lookahead", "attached"])
def test_the_proof_of_fast_steps_compares_it(kind):
    module, optimizer = made(kind)
    step(module, optimizer)
    recorder = Recorder()
    recorder.on_train_end(SimpleNamespace(optimizers=[optimizer], callbacks=[]), module)
    kept = {name for name in recorder.evidence.tensors if " attribute " in name}
    assert kept == {f"optimizer attribute {path}" for path in paths(module, optimizer)}


@pytest.mark.parametrize("kind", ["own", "lookahead"])
def test_every_repeat_of_a_replay_starts_from_it(kind):
    module, optimizer = made(kind)
    step(module, optimizer)
    prints = attribute_fingerprints_of(module, [optimizer])
    saved = attributes_of(module, [optimizer])
    step(module, optimizer)
    assert attribute_fingerprints_of(module, [optimizer]) != prints
    set_attributes(module, saved, [optimizer])
    assert attribute_fingerprints_of(module, [optimizer]) == prints
