"""Parts that TorchScript compiles keep attributes which Python does not show."""

import io

import pytest
import torch
from resumed import assert_resumed
from small import Small

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")


class Counts(torch.nn.Module):
    """Keeps a number, a list and a tensor that is no buffer."""

    steps: int

    def __init__(self):
        super().__init__()
        self.steps, self.seen, self.mean = 0, [0.0], torch.zeros(1)
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, inputs):
        self.steps += 1
        self.seen.append(0.1)
        self.mean += 0.1
        return self.layer(inputs) * (1 + self.steps / 10 + len(self.seen) / 10 + self.mean)


class Scripted(Small):
    def __init__(self, **options):
        super().__init__(**options)
        self.counts = torch.jit.script(Counts())

    def forward(self, inputs):
        return super().forward(self.counts(inputs))


class ScriptedLayers(Small):
    """Trains compiled layers of torch's alone."""

    def __init__(self, **options):
        super().__init__(**options)
        layers = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8))
        self.hidden = torch.jit.script(layers)


class Loaded(Scripted):
    """Has a compiled part from a file."""

    def __init__(self, **options):
        super().__init__(**options)
        file = io.BytesIO()
        torch.jit.save(self.counts, file)
        file.seek(0)
        self.counts = torch.jit.load(file)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("module", [Scripted, ScriptedLayers, Loaded])
def test_they_are_resumed(tmp_path, module):
    """Red before: in other bits, without a word; and refused, as if no checkpoint had weights."""
    assert_resumed(tmp_path, [3, 6], kills=[4, 7], module=module)
