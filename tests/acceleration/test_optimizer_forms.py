"""What an update is done with is looked at, and nothing else than the update."""

from types import SimpleNamespace

import pytest
import torch
from example_trainings import VARIANT
from torch.utils._python_dispatch import _get_current_dispatch_mode

from twinrun.acceleration.optimizer_forms import OptimizerForms
from twinrun.acceleration.steps import set_up
from twinrun.config.definitions import Variant
from twinrun.errors import TwinrunError

FUSED = Variant(**{**VARIANT, "optimizer": "fused"})


class Own(torch.optim.Optimizer):
    """Knows the word, and no class of torch's that could be asked."""

    def __init__(self, parameters, lr):
        super().__init__(parameters, {"lr": lr, "fused": None, "foreach": None})


class Breaks(torch.optim.SGD):
    """Breaks off its first step, having done a part of it."""

    is_broken = False

    def step(self, closure=None):
        if not self.is_broken:
            self.is_broken = True
            raise RuntimeError("once")
        return super().step(closure)


@pytest.fixture
def forms():
    found = OptimizerForms()
    found.start()
    yield found
    found.stop()


def optimizer_of(kind=torch.optim.SGD, **options):
    layer = torch.nn.Linear(3, 3)
    layer(torch.ones(1, 3)).sum().backward()
    return layer, kind(layer.parameters(), lr=0.1, **options)


@pytest.mark.parametrize("form", ["for-loop", "foreach"])
@pytest.mark.parametrize("when", ["pre", "post"])
def test_hooks_of_a_step_are_no_part_of_the_update(forms, form, when):
    """Red before: a moving average over lists made every update one over lists."""
    layer, optimizer = optimizer_of(foreach=form == "foreach")
    average = [torch.zeros_like(parameter) for parameter in layer.parameters()]

    def lerp(*_):
        torch._foreach_lerp_(average, [each.detach() for each in layer.parameters()], 0.1)

    getattr(optimizer, f"register_step_{when}_hook")(lerp)
    optimizer.step()
    assert forms.found == {f"{form} (SGD)"}
    assert len(optimizer._optimizer_step_pre_hooks) == (when == "pre")
    assert len(optimizer._optimizer_step_post_hooks) == (when == "post")


def test_nothing_is_noted_after_a_step_that_broke_off(forms):
    """Red before: clipping after a step that the module had given up was taken for an update."""
    layer, optimizer = optimizer_of(Breaks, foreach=False)
    with pytest.raises(RuntimeError, match="once"):
        optimizer.step()
    assert _get_current_dispatch_mode() is None
    assert not optimizer._optimizer_step_pre_hooks
    torch._foreach_mul_([each.grad for each in layer.parameters()], 0.5)
    optimizer.step()
    assert forms.found == {"for-loop (Breaks)"}


def test_a_step_whose_closure_breaks_off_leaves_nothing(forms):
    _, optimizer = optimizer_of(foreach=False)

    def closure():
        raise RuntimeError("once")

    for _ in range(2):
        with pytest.raises(RuntimeError, match="once"):
            optimizer.step(closure)
        assert _get_current_dispatch_mode() is None
    optimizer.step()
    assert forms.found == {"for-loop (SGD)"}


@pytest.mark.parametrize("form", ["foreach", "fused"])
def test_a_group_that_is_added_later_is_seen_not_to_have_the_form(forms, form):
    """Red before: the run said that its optimizer was fused, and a group of it was not."""
    _, optimizer = optimizer_of(torch.optim.Adam)
    set_up(optimizer, SimpleNamespace(optimizer=form))
    optimizer.step()
    assert forms.found == {f"{form} (Adam)"}
    late, _ = optimizer_of()
    optimizer.add_param_group({"params": list(late.parameters())})
    optimizer.step()
    assert forms.found == {f"{form} (Adam)", "for-loop (some groups of Adam)"}


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.SGD, torch.optim.Adagrad])
def test_parameters_that_a_fused_form_does_not_take_are_refused_before_the_first_step(kind, forms):
    """Red before: torch said so in the first step, which failed."""
    parameter = torch.nn.Parameter(torch.zeros(2, dtype=torch.complex64))
    optimizer = kind([torch.nn.Parameter(torch.zeros(2)), parameter], lr=0.1)
    with pytest.raises(TwinrunError) as refusal:
        set_up(optimizer, FUSED)
    said = f"optimizer: {kind.__name__} has no fused form for parameters of torch.complex64 on cpu"
    assert str(refusal.value) == said
    assert not any(group.get("fused") for group in optimizer.param_groups)
    set_up(kind([torch.nn.Parameter(torch.zeros(2))], lr=0.1), FUSED)
    assert forms.found == set()  # what was tried is no update


def test_an_optimizer_that_was_made_fused_leaves_the_scale_to_the_trainer_as_foreach():
    """Red before: torch broke the first step of `16-mixed` off."""
    _, optimizer = optimizer_of(torch.optim.Adam, fused=True)
    assert optimizer._step_supports_amp_scaling
    set_up(optimizer, SimpleNamespace(optimizer="foreach"))
    assert not optimizer._step_supports_amp_scaling
    optimizer.step()


def test_a_fused_form_that_is_not_torchs_is_left_to_its_optimizer():
    optimizer = Own([torch.nn.Parameter(torch.zeros(2, dtype=torch.complex64))], lr=0.1)
    set_up(optimizer, FUSED)
    assert optimizer.param_groups[0]["fused"]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_fused_form_that_only_a_cpu_has_is_refused_on_a_gpu():
    on_cpu, on_gpu = (
        torch.optim.Adagrad([torch.nn.Parameter(torch.zeros(2, device=device))], lr=0.1)
        for device in ("cpu", "cuda")
    )
    set_up(on_cpu, FUSED)
    with pytest.raises(TwinrunError, match=r"of torch\.float32 on cuda"):
        set_up(on_gpu, FUSED)
