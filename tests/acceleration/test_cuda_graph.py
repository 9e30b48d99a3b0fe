"""Captured steps of several shapes, with a stand-in for CUDA graphs on a CPU."""

import copy

import pytest
import replay_stand_in
import torch
from example_trainings import VARIANT
from points_and_images import Regression, points

from twinrun.acceleration.cuda_graph import CudaGraph
from twinrun.acceleration.steps import TrainingStep, with_index
from twinrun.config.definitions import Variant


def steps_of(module, **changes):
    variant = Variant(**{**VARIANT, "deterministic": False, **changes})
    module = copy.deepcopy(module)
    module.log = lambda *arguments, **options: None
    optimizer = torch.optim.Adam(module.parameters(), lr=0.01)
    return module, TrainingStep(with_index(module.training_step), optimizer, variant, module)


@pytest.mark.parametrize("order", ["in turn", "one after the other"])
def test_the_graphs_of_several_shapes_leave_the_gradients_of_their_own_step(order, monkeypatch):
    """All graphs write to one gradient of each parameter: each must write all of it, each time."""
    replays = replay_stand_in.put_in_place(monkeypatch)
    torch.manual_seed(0)
    module = Regression()
    plain, plain_step = steps_of(module)
    captured, captured_step = steps_of(module, cuda_graph=True)
    several = [points(count, seed) for seed, count in enumerate((64, 32, 16))]
    rounds = 3 * CudaGraph.CALLS_TO_WARM_UP
    batches = several * rounds
    if order == "one after the other":
        batches = [batch for batch in several for _ in range(rounds)] + several * 2
    for index, batch in enumerate(batches):
        plain_step(batch, index)
        captured_step(batch, index)
        for (name, fast), slow in zip(captured.named_parameters(), plain.parameters(), strict=True):
            assert (fast.grad is None) == (slow.grad is None), name
            if slow.grad is not None:
                torch.testing.assert_close(fast.grad, slow.grad, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(captured.state_dict(), plain.state_dict(), rtol=1e-4, atol=1e-6)
    assert replays.recorded == len(several)
    assert replays.replayed > replays.recorded
