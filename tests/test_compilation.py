"""Compiled steps compute what eager ones do, and torch's compilations are counted."""

import pytest
import torch
from small import Points, Small

from twinrun.compilation import Watch
from twinrun.steps import Stepper

SETTINGS = {"accelerator": "cpu", "precision": "32-true"}
# Float32 sums in another order are off by a few units in the last place, and 50 steps of a
# well-conditioned problem let them grow no more than tenfold.
ROUNDING = 50 * torch.finfo(torch.float32).eps


@pytest.fixture(scope="module")
def steppers():
    """A plain and a compiled one from the same initial weights, after 50 steps each."""
    torch.manual_seed(1)
    initial = Small()
    steppers, watches = {}, {}
    for name in ("none", "module"):
        module = Small()
        module.load_state_dict(initial.state_dict())
        steppers[name] = Stepper(module, {**SETTINGS, "compile": name})
        watches[name] = Watch()
        for index in range(50):
            steppers[name].train(batch(16), index)
            watches[name].count_call()
    return steppers, watches


def batch(size):
    points = Points(64)
    return points.inputs[:size], points.targets[:size]


def test_50_compiled_steps_learn_what_eager_ones_do(steppers):
    plain, compiled = (stepper.module.state_dict() for stepper in steppers[0].values())
    assert compiled["calls"] == plain["calls"] == 50
    for name, value in plain.items():
        torch.testing.assert_close(compiled[name], value, rtol=ROUNDING, atol=ROUNDING)


def test_only_the_first_call_compiles_whatever_the_number_of_the_batch(steppers):
    _, watches = steppers
    assert watches["none"].summary() == {"calls": 50, "compilations": 0, "reasons": []}
    assert watches["module"].summary() == {"calls": 50, "compilations": 1, "reasons": []}


def test_a_batch_of_another_shape_compiles_again_and_says_why(steppers):
    compiled = steppers[0]["module"]
    watch = Watch()
    for size in (16, 8, 16):
        compiled.train(batch(size), 0)
        watch.count_call()
    assert (watch.calls, watch.compilations) == (3, 1)
    assert "expected 16, actual 8" in watch.reasons[0]
