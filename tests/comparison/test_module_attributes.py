"""What a step finds in the attributes of its module, taken and put back."""

import random
from collections import deque

import numpy as np
import torch

from twinrun.comparison.module_attributes import (
    attribute_fingerprints_of,
    attributes_of,
    set_attributes,
)


class Part(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.steps, self.scale = 0, 0.5
        self.losses, self.queue = [], deque(maxlen=3)
        self.totals = {"loss": torch.zeros(2), "array": np.zeros(2)}
        self.total = torch.zeros(())
        self.file = open  # no plain data
        self.linear = torch.nn.Linear(2, 2)
        self.tied = [self.linear.weight.detach()]  # the memory of a parameter
        self.generator = torch.Generator().manual_seed(1)
        self.numpy, self.python = np.random.default_rng(1), random.Random(1)


class Whole(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.part, self.epochs = Part(), 0


def use(part):
    part.steps += 1
    part.losses.append(0.5)
    part.queue.append(torch.ones(1))
    part.totals["loss"] += 1
    part.totals["array"] += 1
    part.totals["new"] = True
    part.total.add_(1)
    part.extra = "made by the step"
    drawn = torch.rand(3, generator=part.generator).tolist()
    return [*drawn, *part.numpy.random(3), part.python.random()]


def test_every_repeat_starts_from_the_same_attributes():
    module = Whole()
    part, losses, total = module.part, module.part.losses, module.part.total
    saved, prints = attributes_of(module), attribute_fingerprints_of(module)
    first = use(part)
    assert attribute_fingerprints_of(module) != prints
    set_attributes(module, saved)
    assert attribute_fingerprints_of(module) == prints
    assert not hasattr(part, "extra")
    # Whoever else holds them sees them too.
    assert part.losses is losses
    assert part.total is total
    assert use(part) == first
    # What was saved is not what was used.
    set_attributes(module, saved)
    assert part.totals.keys() == {"loss", "array"}
    assert use(part) == first


def test_only_what_the_training_changed_is_taken():
    module, other = Whole(), Whole()
    prints = attribute_fingerprints_of(module)
    other.part.scale = 0.75  # as its constructor might have made it
    module.part.losses.append(1.0)
    module.part.steps = 7
    saved = attributes_of(module, changed_since=prints)
    assert {path: [*found["plain"]] for path, found in saved.items() if found["plain"]} == {
        "part": ["steps", "losses"]
    }
    other.part.mine = 1
    set_attributes(other, saved)
    assert (other.part.steps, other.part.losses) == (7, [1.0])
    assert (other.part.scale, other.part.mine) == (0.75, 1)


def test_parameters_and_objects_are_left_alone():
    module = Whole()
    saved = attributes_of(module)
    with torch.no_grad():
        module.part.linear.weight.fill_(3.0)
    set_attributes(module, saved)
    assert (module.part.linear.weight == 3).all()
    assert module.part.file is open
