"""The switches of a variant, in a process that several variants share.

Each variant gets what a process of its own would give it, so that none pays for another's settings:
torch's default algorithms keep cuBLAS's own workspaces and cuDNN's search for the fastest
algorithm, where the module has asked for it; deterministic ones have neither.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from twinrun.config.definitions import Variant
from twinrun.process.determinism import SWITCHES, determinism
from twinrun.process.launching import DETERMINISTIC_WORKSPACE

WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"


@contextmanager
def conditions(variant: Variant) -> Iterator[None]:
    """Set what belongs to a variant for the body; put back what was there."""
    # False in torch, unless the user's code has changed it for the whole process.
    benchmark = torch.backends.cudnn.benchmark
    with (
        _cublas_workspace(is_deterministic=variant.deterministic),
        determinism(**{key: getattr(variant, key) for key in SWITCHES}),
    ):
        if not variant.deterministic:
            torch.backends.cudnn.benchmark = benchmark
        yield


@contextmanager
def _cublas_workspace(*, is_deterministic: bool) -> Iterator[None]:
    """Set the variable by which torch sizes cuBLAS's workspaces, as a run's process has it."""
    before = os.environ.get(WORKSPACE)
    if not is_deterministic or before == DETERMINISTIC_WORKSPACE:
        yield
        return
    os.environ[WORKSPACE] = DETERMINISTIC_WORKSPACE
    _forget_workspaces()
    try:
        yield
    finally:
        del os.environ[WORKSPACE]
        if before is not None:
            os.environ[WORKSPACE] = before
        _forget_workspaces()


def _forget_workspaces() -> None:
    """Have torch make cuBLAS's workspaces anew; it reads the variable when it makes one.

    https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/cuda/CublasHandlePool.cpp
    """
    if torch.cuda.is_initialized():
        # Work that is under way still uses the old ones.
        torch.cuda.synchronize()
        torch._C._cuda_clearCublasWorkspaces()


def wake(device: torch.device) -> None:
    """Do once, outside of the clock, what torch does after a change of its switches."""
    # After a change of their number the next operation starts new threads.
    torch.ones(2**16).sum()
    if device.type == "cuda":
        square = torch.ones(16, 16, device=device)
        square @ square  # makes a workspace
