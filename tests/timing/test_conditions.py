"""Each variant has its own switches in a process that all share, and pays for no other's."""

import os
from dataclasses import replace

import pytest
import torch
from example_trainings import VARIANT

from twinrun.config.definitions import Variant
from twinrun.timing.conditions import WORKSPACE, conditions

DETERMINISTIC = Variant(**{**VARIANT, "deterministic": True})
DEFAULT = replace(DETERMINISTIC, deterministic=False)


@pytest.fixture
def forgotten(monkeypatch):
    """Stand for a CUDA device: count how often cuBLAS's workspaces are made anew."""
    counted = []
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(
        torch._C,
        "_cuda_clearCublasWorkspaces",
        lambda: counted.append(os.environ.get(WORKSPACE)),
        raising=False,
    )
    return counted


@pytest.mark.parametrize("of_the_shell", [None, ":16:8"])
def test_only_the_deterministic_variant_pays_for_cublas_workspaces(
    of_the_shell, forgotten, monkeypatch
):
    monkeypatch.delenv(WORKSPACE, raising=False)
    if of_the_shell:
        monkeypatch.setenv(WORKSPACE, of_the_shell)
    with conditions(DEFAULT):
        assert os.environ.get(WORKSPACE) == of_the_shell
    assert forgotten == []
    with conditions(DETERMINISTIC):
        assert os.environ[WORKSPACE] == ":4096:8"
    assert os.environ.get(WORKSPACE) == of_the_shell
    # After each change, so that neither variant computes in a workspace of the other's.
    assert forgotten == [":4096:8", of_the_shell]


def test_a_failure_leaves_the_variable_as_it_was(forgotten, monkeypatch):
    monkeypatch.delenv(WORKSPACE, raising=False)
    with pytest.raises(ValueError), conditions(DETERMINISTIC):  # noqa: PT011
        raise ValueError
    assert WORKSPACE not in os.environ


def test_only_the_deterministic_variant_goes_without_cudnns_benchmark(monkeypatch):
    """A module may ask for it when it is imported."""
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    with conditions(DEFAULT):
        assert torch.backends.cudnn.benchmark
    with conditions(DETERMINISTIC):
        assert not torch.backends.cudnn.benchmark
    assert torch.backends.cudnn.benchmark
