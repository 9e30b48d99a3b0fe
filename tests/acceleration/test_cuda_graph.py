"""Captured steps of several shapes, with a stand-in for CUDA graphs on a CPU."""

import copy
import gc
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest
import replay_stand_in
import torch
from example_trainings import VARIANT
from points_and_images import Regression, points
from torch._dynamo.exc import Unsupported

from twinrun.acceleration.between import OPTIMIZERS
from twinrun.acceleration.cuda_graph import CudaGraph, record
from twinrun.acceleration.fast_step import UNCAPTURABLE
from twinrun.acceleration.steps import TrainingStep, with_index
from twinrun.acceleration.whole_step import OtherGradients, Update
from twinrun.config.definitions import Variant
from twinrun.errors import TwinrunError

CAPTURED = Variant(**{**VARIANT, "deterministic": False, "cuda_graph": True})


def steps_of(module, optimizer_class=torch.optim.Adam, **changes):
    variant = Variant(**{**VARIANT, "deterministic": False, **changes})
    module = copy.deepcopy(module)
    module.log = lambda *arguments, **options: None
    optimizer = optimizer_class(module.parameters(), lr=0.01)
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


def after_a_plain_step(optimizer_class, **options):
    """Return an optimizer on a device that holds no values, with the state of a plain step."""
    twins = [torch.nn.Parameter(torch.ones(3, 4)) for _ in range(2)]
    parameters = [torch.nn.Parameter(torch.empty(3, 4, device="meta")) for _ in range(2)]
    plain, optimizer = (optimizer_class(of, lr=0.01, **options) for of in (twins, parameters))
    for parameter in (*twins, *parameters):
        parameter.grad = torch.ones_like(parameter)
    plain.step()
    for twin, parameter in zip(twins, parameters, strict=True):
        # torch leaves its count on the CPU, whatever the parameter's device.
        optimizer.state[parameter] = {
            key: value.to("meta" if value.dim() else "cpu")
            for key, value in plain.state[twin].items()
            if value is not None
        }
    return optimizer, parameters


@pytest.mark.parametrize("foreach", [True, False])
@pytest.mark.parametrize("optimizer_class", [o for o in OPTIMIZERS if o not in UNCAPTURABLE])
def test_a_captured_update_reads_nothing_back_and_keeps_all_on_its_device(
    optimizer_class, foreach, monkeypatch
):
    replay_stand_in.let_take_part(monkeypatch, "meta")
    optimizer, parameters = after_a_plain_step(optimizer_class, foreach=foreach)
    update = Update(optimizer, parameters, CAPTURED)
    update.read_rates()
    with torch.no_grad(), update.counts.exact():
        update.in_one_piece()  # of meta tensors torch can read no value
    used = [value for state in optimizer.state.values() for value in state.values()]
    used += [group["lr"] for group in update.double.param_groups]
    assert all(value.is_meta for value in used if isinstance(value, torch.Tensor))


@pytest.mark.parametrize("compile_setting", ["none", "step"])
def test_a_rate_that_no_replay_reads_is_captured_anew(compile_setting, monkeypatch):
    replay_stand_in.let_take_part(monkeypatch, "meta")
    variant = replace(CAPTURED, compile=compile_setting)
    for optimizer_class, baked in {torch.optim.SGD: (0.01,), torch.optim.Adam: ()}.items():
        update = Update(*after_a_plain_step(optimizer_class), variant)
        assert update.baked() == baked


@pytest.mark.parametrize("optimizer_class", UNCAPTURABLE)
def test_an_optimizer_without_a_capturable_form_is_refused_by_name(optimizer_class, monkeypatch):
    replay_stand_in.put_in_place(monkeypatch)
    _, step = steps_of(Regression(), optimizer_class, cuda_graph=True)
    sentence = (
        f"cuda_graph: a captured step has no room for the update of {optimizer_class.__name__}"
    )
    with pytest.raises(TwinrunError, match=sentence):
        step(points(8, 0), 0)


@contextmanager
def capture_that_broke(*arguments, **options):
    """Stand for torch's context, which ends a broken capture with an error of its own."""
    try:
        yield
    except Exception:
        raise RuntimeError("operation failed due to a previous error during capture") from None


def captured_after_warm_up(step, monkeypatch):
    monkeypatch.setattr("twinrun.acceleration.cuda_graph.aside", lambda step: None)
    graph = CudaGraph(step, baked=tuple)
    for index in range(CudaGraph.CALLS_TO_WARM_UP):
        graph(torch.ones(2), index)


def failing(error):
    def step(batch, index):
        raise error

    return step


def test_what_fails_in_a_capture_is_said_with_a_remedy(monkeypatch):
    monkeypatch.setattr("torch.cuda.CUDAGraph", lambda: None)
    monkeypatch.setattr("torch.cuda.graph", capture_that_broke)
    refusal = torch.AcceleratorError("CUDA error: operation not permitted when stream is capturing")
    with pytest.raises(TwinrunError) as found:
        captured_after_warm_up(failing(refusal), monkeypatch)
    assert str(found.value).startswith("cuda_graph: the step cannot be captured")
    assert "operation not permitted when stream is capturing" in str(found.value)
    assert "or leave cuda_graph out" in str(found.value)


@pytest.mark.parametrize(
    "error",
    [
        OtherGradients(),
        Unsupported("a graph break"),
        torch.OutOfMemoryError("CUDA out of memory"),
        TwinrunError("cuda_graph: says what to do"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_has_a_meaning_of_its_own_keeps_it_in_a_capture(error, monkeypatch):
    monkeypatch.setattr("torch.cuda.CUDAGraph", lambda: None)
    monkeypatch.setattr("torch.cuda.graph", capture_that_broke)
    with pytest.raises(type(error)) as found:
        captured_after_warm_up(failing(error), monkeypatch)
    assert found.value is error


def test_other_threads_may_use_the_gpu_while_a_step_is_captured(monkeypatch):
    """A loader's thread that pins memory would break a capture of torch's default mode."""
    asked = {}

    @contextmanager
    def capture(graph, **options):
        asked.update(options)
        yield

    monkeypatch.setattr("torch.cuda.CUDAGraph", lambda: type("Graph", (), {"replay": None})())
    monkeypatch.setattr("torch.cuda.graph", capture)
    record(lambda: None)
    assert asked == {"capture_error_mode": "thread_local"}


@pytest.mark.parametrize("was_on", [True, False])
def test_nothing_is_collected_while_a_step_is_recorded(monkeypatch, was_on):
    monkeypatch.setattr("torch.cuda.CUDAGraph", lambda: SimpleNamespace(replay=None))
    monkeypatch.setattr("torch.cuda.graph", lambda *_, **__: nullcontext())
    collecting = gc.isenabled()
    try:
        (gc.enable if was_on else gc.disable)()
        _, found = record(gc.isenabled)
        assert not found
        assert gc.isenabled() == was_on
        with pytest.raises(ValueError, match="breaks"):
            record(lambda: failing(ValueError("breaks"))(None, 0))
        assert gc.isenabled() == was_on
    finally:
        (gc.enable if collecting else gc.disable)()
