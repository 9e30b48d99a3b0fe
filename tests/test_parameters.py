"""One walk finds what torch's walks find, in their order."""

import pytest
import torch
from torch import nn

from twinrun.parameters import tensors_of_module


def shared():
    """Give a network with a shared layer, a shared weight, none, and a tensor that is both."""
    layer = nn.Linear(2, 2)
    module = nn.Sequential(layer, nn.BatchNorm1d(2), nn.Sequential(layer, nn.Linear(2, 2)))
    module[2][1].weight = layer.weight
    module[2][1].bias = None
    module.register_buffer("last", layer.bias)
    module.register_buffer("unsaved", torch.zeros(1), persistent=False)
    module.register_module("gone", None)
    return module


class Renamed(nn.Linear):
    """Shows its parameters under other names."""

    def named_parameters(self, *arguments, **options):
        for name, parameter in super().named_parameters(*arguments, **options):
            yield f"own.{name}", parameter


def replaced():
    module = nn.Sequential(nn.Linear(2, 2))
    module.named_parameters = lambda *_, **__: iter([("one", module[0].weight)])
    return module


def grown():
    module = shared()
    tensors_of_module(module)
    module[2][1] = nn.LSTM(2, 3)
    return module


def compiled():
    """Give a network with a layer that torch keeps: its stores are no dicts."""
    return nn.Sequential(torch.jit.trace(nn.BatchNorm1d(2), torch.ones(3, 2)), nn.Linear(2, 2))


class Hidden(nn.Sequential):
    """Shows its layers to nobody once it is made."""

    def __getattribute__(self, name):
        found = super().__getattribute__(name)
        return {} if name == "_modules" and len(found) == 2 else found


@pytest.mark.parametrize(
    "made",
    [
        *(shared, lambda: Renamed(2, 2), replaced, grown, compiled),
        lambda: Hidden(nn.Linear(2, 2), nn.ReLU()),
    ],
)
def test_one_walk_finds_what_torchs_walks_find(made):
    module = made()
    for found, torchs in zip(
        tensors_of_module(module), (module.named_parameters(), module.named_buffers()), strict=True
    ):
        expected = dict(torchs)
        assert list(found) == list(expected)
        assert all(found[name] is expected[name] for name in expected)
