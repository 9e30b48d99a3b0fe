"""Whether the losses of an epoch are numbers is known of all steps, and survives a checkpoint."""

import math

import pytest
import torch

from twinrun.returned_loss import loss_of
from twinrun.trace.loss import Losses
from twinrun.trace.step_tracer import Tracer

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("given", "least"),
    [
        ([], None),
        ([None, None], None),
        ([NAN, NAN], NAN),
        ([NAN, INF, NAN], INF),
        ([NAN, -INF, None], INF),
        ([NAN, -2.0, INF], 2.0),
        ([3.0, NAN], 3.0),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_one_number_is_enough(given, least, dtype):
    """Whether the process goes on or is another one."""
    for stop in range(len(given) + 1):
        losses = Losses()
        for value in [1.0, *given[:stop]]:
            note(losses, value, dtype)
        resumed = Losses()
        resumed.load(losses.state())
        assert resumed.epoch == 0
        for value in given[stop:]:
            note(resumed, value, dtype)
        found = resumed.least() if given else Losses().least()
        assert kind(found) == kind(least)


def note(losses, value, dtype):
    """Note a loss of the second epoch; 1.0 is one of the first."""
    loss = None if value is None else torch.tensor(value, dtype=dtype, requires_grad=True)
    losses.note(1 if value == 1.0 else 2, loss)


def kind(least):
    if least is None or not math.isfinite(least):
        return repr(least)
    return "finite"


def test_the_last_epoch_counts():
    losses = Losses()
    for epoch, value in [(1, 0.5), (2, NAN), (2, NAN)]:
        losses.note(epoch, torch.tensor(value))
    assert math.isnan(losses.least())
    losses.note(3, None)
    assert losses.least() is None


@pytest.mark.parametrize(
    "value", [torch.tensor([0.5]), torch.tensor(3), torch.tensor(True), torch.tensor(1j)], ids=str
)
def test_a_loss_may_be_any_number(value):
    losses = Losses()
    losses.note(1, value)
    assert losses.least() > 0


@pytest.mark.parametrize(
    "value", [torch.ones(2), torch.ones(0), torch.tensor(1j), torch.ones(2, 1).to_sparse()], ids=str
)
def test_several_values_are_no_loss(value):
    """Red before: what a training says of its progress failed on them, in its first step."""
    losses = Losses()
    for outputs in (value, {"loss": value}):
        assert loss_of(outputs) is None
        losses.note(1, loss_of(outputs))
    assert losses.least() is None
    assert losses.last() is None


def test_a_tracer_keeps_them_in_its_checkpoint():
    tracer, resumed = Tracer(), Tracer()
    tracer.losses.note(2, torch.tensor(NAN))
    resumed.load_state_dict(tracer.state_dict())
    assert math.isnan(resumed.losses.least())
    assert resumed.now is None
