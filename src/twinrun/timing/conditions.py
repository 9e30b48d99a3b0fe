"""The switches of a variant, in a process that several variants share.

Each variant gets what a process of its own would give it, so that none pays for another's settings:
torch's default algorithms keep cuBLAS's own workspaces and cuDNN's search for the fastest
algorithm, where the module has asked for it; deterministic ones have neither.

A module may set switches by itself, when it is imported or constructed, in a hook, in a step. In a
run they are set after the variant's, and stay. So they do here (`OwnConditions`), and the summary
says what a variant had in the end.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from twinrun.config.definitions import Variant
from twinrun.process.determinism import (
    SWITCHES,
    State,
    capture,
    determinism,
    impose,
    restore_switches,
)
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


class OwnConditions:
    """The switches of one variant, with what the user's code has set under them so far."""

    def __init__(self, variant: Variant, before: State, after: State) -> None:
        """Take what the user's code has set for the process: see `determinism.impose`."""
        self._variant, self._before, self._after = variant, before, after
        self._left: State | None = None

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Set them for the body, as the last body left them; put back what was there."""
        with conditions(self._variant):
            if self._left is None:
                impose(self._before, self._after)
            else:
                restore_switches(self._left)
            try:
                yield
            finally:
                self._left = capture()


@contextmanager
def unchanged_switches() -> Iterator[State]:
    """Yield the switches before the body, and put them back after it."""
    before = capture()
    try:
        yield before
    finally:
        restore_switches(before)


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
