"""Every switch is set, and everything is as it was afterwards, also after an exception."""

import random
import subprocess
import sys
from operator import attrgetter

import numpy as np
import pytest
import torch

from twinrun.process.determinism import capture, determinism


@pytest.fixture(scope="module", autouse=True)
def _what_torch_sets_for_good():
    """Its first use of deterministic algorithms sets TORCHINDUCTOR_CACHE_DIR: no leak of ours."""
    torch.use_deterministic_algorithms(True)
    torch.use_deterministic_algorithms(False)


def same(left, right):
    if isinstance(left, torch.Tensor):
        return torch.equal(left, right)
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    return left == right


def assert_unchanged(before, after):
    assert [key for key in before if not same(before[key], after[key])] == []


def draw_from_all(divisor=1):
    return random.random() + np.random.random() + torch.rand(1) / (1 // divisor)


@pytest.mark.parametrize("deterministic", [True, False])
def test_switches_are_set_inside(deterministic):
    with determinism(deterministic=deterministic, threads=1):
        state = capture()
    assert state["algorithms"] is deterministic
    assert state["attributes"]["backends.cudnn.deterministic"] is deterministic
    assert state["attributes"]["backends.mkldnn.deterministic"] is deterministic
    assert state["attributes"]["utils.deterministic.fill_uninitialized_memory"] is deterministic
    assert state["attributes"]["backends.cudnn.benchmark"] is False
    assert state["threads"] == 1


@pytest.mark.parametrize("deterministic", [True, False])
def test_switches_are_set_whatever_they_were_before(monkeypatch, deterministic):
    """A user's module may have set them when it was imported."""
    switches = {
        "utils.deterministic.fill_uninitialized_memory": deterministic,
        "backends.cudnn.deterministic": deterministic,
        "backends.mkldnn.deterministic": deterministic,
        "backends.cudnn.benchmark": False,
    }
    for name, expected in switches.items():
        owner, _, attribute = name.rpartition(".")
        monkeypatch.setattr(attrgetter(owner)(torch), attribute, not expected)
    before = capture()
    assert {name: before["attributes"][name] for name in switches} == {
        name: not expected for name, expected in switches.items()
    }
    with determinism(deterministic=deterministic, threads=1):
        inside = capture()["attributes"]
    assert {name: inside[name] for name in switches} == switches
    assert_unchanged(before, capture())


def test_everything_is_restored():
    before = capture()
    with determinism(deterministic=True, threads=1):
        torch.set_float32_matmul_precision("medium")
        draw_from_all()
    assert_unchanged(before, capture())


def test_everything_is_restored_after_an_exception():
    before = capture()
    with pytest.raises(ZeroDivisionError), determinism(deterministic=True, threads=1):
        draw_from_all(divisor=0)
    assert_unchanged(before, capture())


def test_nested_contexts_restore_the_outer_one():
    with determinism(deterministic=True, threads=1):
        with determinism(deterministic=False, threads=2):
            assert torch.get_num_threads() == 2
        assert torch.are_deterministic_algorithms_enabled()
        assert torch.get_num_threads() == 1


PRECISIONS = """
import torch
from twinrun.process.determinism import ATTRIBUTES, capture, determinism
{setting}
before = capture()
with determinism(deterministic=True, threads=1):
    torch.backends.fp32_precision = "tf32"
    torch.backends.mkldnn.conv.fp32_precision = "bf16"
    torch.set_float32_matmul_precision("medium")
after = capture()
assert before["attributes"] == after["attributes"], (before["attributes"], after["attributes"])
assert before["matmul_precision"] in (None, after["matmul_precision"])
torch.backends.fp32_precision = "tf32"
print(torch.backends.mkldnn.rnn.fp32_precision)
"""


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "setting",
    [
        "",
        "torch.backends.cuda.matmul.fp32_precision = 'tf32'",
        "torch.backends.fp32_precision = 'ieee'",
        "torch.set_float32_matmul_precision('high')",
    ],
)
def test_the_newer_switches_of_precision_are_restored_too(setting):
    """In a process of its own: torch does not forget that the newer ones were set."""
    code = PRECISIONS.format(setting=setting)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "tf32"  # what was inherited follows its parent as before
