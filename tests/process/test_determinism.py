"""Every switch is set, and everything is as it was afterwards, also after an exception."""

import random

import numpy as np
import pytest
import torch

from twinrun.process.determinism import capture, determinism


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
    assert state["cudnn_deterministic"] is deterministic
    assert state["mkldnn_deterministic"] is deterministic
    assert state["fill"] is deterministic
    assert state["cudnn_benchmark"] is False
    assert state["threads"] == 1


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
