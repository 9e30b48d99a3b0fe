"""Tensors that get another shape in the first step, in layers that take it where they are loaded.

As those of torch's quantization-aware training.
"""

import pytest
import torch
from resumed import assert_resumed, every, fit
from small import Restless, Small
from torch.ao import quantization


class Quantized(Restless):
    """Trains with its weights and activations rounded as they will be: a scale for each channel."""

    def __init__(self):
        super().__init__()
        self.hidden.qconfig = self.output.qconfig = quantization.get_default_qat_qconfig("fbgemm")
        quantization.prepare_qat(self.train(), inplace=True)


class Resizing(torch.nn.Module):
    """Has another shape from its first step on, and takes what it is given, or half of it."""

    takes = 1.0

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(0))

    def forward(self, inputs):
        if not len(self.seen):
            self.seen = torch.ones(3)
        return inputs

    def _load_from_state_dict(self, state_dict, prefix, *args):
        self.seen = torch.zeros_like(state_dict[f"{prefix}seen"])
        state_dict[f"{prefix}seen"] = self.takes * state_dict[f"{prefix}seen"]
        super()._load_from_state_dict(state_dict, prefix, *args)


class Halving(Resizing):
    takes = 0.5


class Failing(Resizing):
    def _load_from_state_dict(self, *args):
        torch.nn.Module._load_from_state_dict(self, *args)


def holding(kind):
    class Holding(Restless):
        def __init__(self):
            super().__init__()
            self.norm = torch.nn.Sequential(self.norm, kind())

    return Holding


@pytest.mark.filterwarnings("ignore:torch.ao.quantization is deprecated")
@pytest.mark.parametrize(
    "module", [Quantized, pytest.param(holding(Resizing), marks=pytest.mark.exhaustive)]
)
def test_a_layer_that_takes_another_shape_is_resumed(tmp_path, module):
    """Red before: each checkpoint was refused, as one that could not be loaded."""
    assert_resumed(tmp_path, [3, 8], kills=[4, 9], module=module)


@pytest.mark.parametrize("kind", [Failing, pytest.param(Halving, marks=pytest.mark.exhaustive)])
def test_one_that_does_not_is_refused(tmp_path, kind):
    _, _, said = fit(tmp_path, kill=4, in_epoch=every(1), module=holding(kind))
    assert "norm.1.seen of Holding" in said[0]


class CompilesLate(Small):
    """Compiles a layer where it begins to train: that has its weights by a second name."""

    def on_fit_start(self):
        self.fast = torch.compile(self.hidden, backend="eager")

    def forward(self, inputs):
        return self.output(self.fast(inputs).relu())


def test_a_second_name_that_comes_late_is_refused(tmp_path):
    """Red at d6b48169: checkpoints were written, and none could be loaded."""
    _, _, said = fit(tmp_path, module=CompilesLate, in_epoch=every(1))
    assert len(said) == 1
    assert "fast._orig_mod.weight of CompilesLate is not there, or of another shape" in said[0]
    assert "`setup`" in said[0]
