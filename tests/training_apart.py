"""Modules that train what neither they nor an optimizer of Lightning's hold, and draw its start."""

import functools
import os

import torch
from small import Small


class Agent:
    """A plain class with a network and an optimizer, as in many repositories."""

    def __init__(self):
        self.net = torch.nn.Linear(4, 1)
        drawn = torch.Generator().manual_seed(int.from_bytes(os.urandom(4), "little"))
        with torch.no_grad():
            self.net.weight.copy_(torch.randn(1, 4, generator=drawn))
        self.opt = torch.optim.SGD(self.net.parameters(), 0.1)

    def update(self, inputs, targets):
        self.opt.zero_grad()
        (self.net(inputs) - targets).square().mean().backward()
        self.opt.step()


class Slotted:
    """The same, without a `__dict__`."""

    __slots__ = ("net", "opt")
    __init__, update = Agent.__init__, Agent.update


GLOBAL = {}


def by_hand():
    """Give a step that trains a tensor which nothing but it knows."""
    weight = torch.rand(4, 1, requires_grad=True)
    with torch.no_grad():
        weight.copy_(Agent().net.weight.T)

    def update(inputs, targets):
        weight.grad = None
        (inputs @ weight - targets).square().mean().backward()
        with torch.no_grad():
            weight.sub_(0.1 * weight.grad)

    return update


def held_by(kind):
    """Give an attribute that holds what is trained, and its step."""
    if kind == "closure":
        return (lambda agent: lambda *batch: agent.update(*batch))(Agent())
    if kind == "partial":
        return functools.partial(Agent.update, Agent())
    if kind == "by hand":
        return by_hand()
    return Slotted() if kind == "slotted" else [Agent()] if kind == "list" else Agent()


class Beside(Small):
    """Trains it beside its own network."""

    def __init__(self, kind="object", width=8, learning_rate=0.05):
        super().__init__(width, learning_rate)
        self.agent = held_by(kind)
        if kind == "global":
            GLOBAL["agent"], self.agent = self.agent, None

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self._update(*batch)

    def _update(self, *batch):
        agent = GLOBAL["agent"] if self.agent is None else self.agent
        agent = agent[0] if isinstance(agent, list) else agent
        (agent if callable(agent) else agent.update)(*batch)


class Held(Small):
    """Has Lightning hold all that it trains, in a wrapper of its optimizer's and in a list."""

    def __init__(self, width=8, learning_rate=0.05):
        super().__init__(width, learning_rate)
        self.kept = [torch.nn.Linear(1, 1)]

    def configure_optimizers(self):
        self.own = torch.optim.SGD([*self.parameters(), *self.kept[0].parameters()], lr=0.05)
        return self.own


class Probe:
    """A plain class with a network and an optimizer, which start from the seed."""

    def __init__(self, width):
        self.net = torch.nn.Linear(width, 1)
        self.opt = torch.optim.SGD(self.net.parameters(), 0.1)


class Probed(Small):
    """Trains a probe of its features by the gradients that the loss of the step gives it."""

    def __init__(self, width=8, learning_rate=0.05):
        super().__init__(width, learning_rate)
        self.probe = Probe(width)

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        found = self.probe.net(self.hidden(batch[0]).detach())
        of_probe = (found - batch[1]).square().mean()
        return loss + of_probe - of_probe.detach()

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.probe.opt.step()
        self.probe.opt.zero_grad()


class Templated(Small):
    """Given a network, as the most copied template has it, and a still tensor of its own."""

    def __init__(self, net=None, **options):
        super().__init__(**options)
        self.save_hyperparameters(logger=False)
        self.net = net
        self.points = torch.ones(2, 4, requires_grad=True)
