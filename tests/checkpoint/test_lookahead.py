"""Slow weights, which an optimizer keeps in an attribute, its groups or a state of its own."""

from collections import OrderedDict, defaultdict

import pytest
import torch
from resumed import assert_resumed, every, fit
from small import Points, Small

SYNCED = 4  # steps from one to the next


class InAttribute(torch.optim.SGD):
    """Makes them with the optimizer, and keeps the count of its steps in its groups."""

    def __init__(self, parameters):
        super().__init__(parameters, lr=0.05, momentum=0.9)
        for group in self.param_groups:
            group["counter"] = 0
        self.keep()

    def keep(self):
        self.slow = [[p.detach().clone() for p in group["params"]] for group in self.param_groups]

    def slow_of(self, index):
        return self.slow[index]

    @torch.no_grad()
    def step(self, closure=None):
        loss = super().step(closure)
        for index, group in enumerate(self.param_groups):
            group["counter"] += 1
            if group["counter"] % SYNCED == 0:
                for fast, slow in zip(group["params"], self.slow_of(index), strict=True):
                    fast.copy_(slow.lerp_(fast, 0.5))
        return loss


class InGroups(InAttribute):
    def keep(self):
        for group in self.param_groups:
            group["slow"] = [p.detach().clone() for p in group["params"]]

    def slow_of(self, index):
        return self.param_groups[index]["slow"]


class ById(torch.optim.Optimizer):
    """Wraps another one, and names its state by `id`, as widely used ones do."""

    def __init__(self, parameters):
        self.optimizer = torch.optim.SGD(parameters, lr=0.05, momentum=0.9)
        self.param_groups, self.defaults = self.optimizer.param_groups, self.optimizer.defaults
        self.state, self.count = defaultdict(dict), 0
        kinds = ("step", "state_dict", "load_state_dict")
        for kind in (f"{kind}_{when}" for kind in kinds for when in ("pre", "post")):
            vars(self)[f"_optimizer_{kind}_hooks"] = OrderedDict()

    @torch.no_grad()
    def step(self, closure=None):
        loss = self.optimizer.step(closure)
        for fast in self.param_groups[0]["params"]:
            slow = self.state[fast].setdefault("slow", fast.detach().clone())
            fast.copy_(slow.lerp_(fast, 0.5))
        return loss

    def state_dict(self):
        fast = self.optimizer.state_dict()
        return {**fast, "slow": {id(key): value for key, value in self.state.items()}}

    def load_state_dict(self, state):
        self.optimizer.load_state_dict({key: state[key] for key in ("state", "param_groups")})
        super().load_state_dict({"state": state["slow"], "param_groups": state["param_groups"]})


def by(optimizer):
    class Optimized(Small):
        def configure_optimizers(self):
            return optimizer(self.parameters())

    return Optimized


def test_slow_weights_in_an_attribute_are_kept_until_they_change(tmp_path):
    """Red before: made anew from the weights of the checkpoint, which ended the attempt."""
    module, told = by(InAttribute), {"in_epoch": every(1), "max_epochs": 2}
    whole, _, _ = fit(tmp_path / "whole", module=module)
    fit(tmp_path / "killed", module=module, kill=3, **told)
    found, resumed_at, said = fit(tmp_path / "killed", module=module, **told)
    assert (found, resumed_at) == (whole, [2])
    assert "InAttribute.slow" in said[0]
    assert "is no part of its state_dict" in said[0]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("kill", "at"), [(3, 2), (5, 4), (9, 8)])
def test_slow_weights_in_groups_are_resumed(tmp_path, kill, at):
    assert_resumed(tmp_path, [at], kills=[kill], module=by(InGroups))


@pytest.mark.parametrize("told", [{"in_epoch": every(2)}, {"minutes": 0}], ids=["mid", "start"])
def test_a_state_that_names_parameters_by_id_is_refused(tmp_path, told):
    """Red before: a checkpoint was written, and a resumed training had lost its slow weights."""
    _, _, said = fit(tmp_path, Points, by(ById), **told)
    assert len(said) == 1
    assert "the state_dict of ById names parameters by their id" in said[0]
    assert not list(tmp_path.glob("*.ckpt"))


class Counts(torch.optim.SGD):
    """Lowers its rate behind a step, by a count that its own state_dict leaves out."""

    def __init__(self, parameters):
        super().__init__(parameters, lr=0.05, momentum=0.9)
        self.count, self.tag = 0, 3

    def state_dict(self):
        return {**super().state_dict(), "tag": self.tag}

    def load_state_dict(self, state):
        state = dict(state)
        self.tag = state.pop("tag")
        super().load_state_dict(state)

    @torch.no_grad()
    def step(self, closure=None):
        self.count += 1
        for group in self.param_groups:
            group["lr"] = 0.05 if self.count < 4 else 0.01
        return super().step(closure)


class CountsAndSaysSo(Counts):
    def state_dict(self):
        return {**super().state_dict(), "count": self.count}

    def load_state_dict(self, state):
        state = dict(state)
        self.count = state.pop("count")
        super().load_state_dict(state)


class SaysAllByName(Counts):
    NAMES = ("count", "tag")

    def state_dict(self):
        own = {name: getattr(self, name) for name in self.NAMES}
        return {**torch.optim.SGD.state_dict(self), **own}

    def load_state_dict(self, state):
        state = dict(state)
        for name in self.NAMES:
            setattr(self, name, state.pop(name))
        torch.optim.SGD.load_state_dict(self, state)


class Inner(torch.optim.Optimizer):
    """Counts beside the state of an optimizer that it wraps, and says that state alone."""

    def __init__(self, parameters):
        self.optimizer, self.count = torch.optim.Adam(parameters, lr=0.05), 0
        super().__init__(self.optimizer.param_groups[0]["params"], self.optimizer.defaults)
        self.param_groups = self.optimizer.param_groups
        for fast in self.param_groups[0]["params"]:
            self.state[fast]["slow"] = fast.detach().clone()

    def state_dict(self):
        return self.optimizer.state_dict()

    def load_state_dict(self, state):
        self.optimizer.load_state_dict(state)
        self.param_groups = self.optimizer.param_groups

    @torch.no_grad()
    def step(self, closure=None):
        loss = self.optimizer.step(closure)
        self.count += 1
        if self.count % SYNCED == 0:
            for fast in self.param_groups[0]["params"]:
                fast.copy_(self.state[fast]["slow"].lerp_(fast, 0.5))
        return loss


@pytest.mark.parametrize("optimizer", [Counts, Inner])
@pytest.mark.parametrize("told", [{"in_epoch": every(2)}, {"minutes": 0}], ids=["mid", "start"])
def test_a_count_that_a_state_dict_of_its_own_leaves_out_is_refused(tmp_path, optimizer, told):
    """Red before: each checkpoint was written in vain, as each resumed attempt was broken off."""
    _, _, said = fit(tmp_path, module=by(optimizer), **told)
    name = f"{optimizer.__name__}.count changes while the training runs, and is no part of its"
    assert any(name in sentence for sentence in said), said
    assert not list(tmp_path.glob("*.ckpt"))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("optimizer", [CountsAndSaysSo, SaysAllByName])
def test_a_count_that_a_state_dict_of_its_own_has_is_resumed(tmp_path, optimizer):
    assert_resumed(tmp_path, [2, 6], kills=[3, 7], module=by(optimizer))
