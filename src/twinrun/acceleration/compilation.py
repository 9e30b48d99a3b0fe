"""Compiled functions that count their calls, their compilations and why they compiled again.

The counts are torch's own: a call during which its compiler made a graph is a compilation, and
every other one reused what was there. What makes a training step compile again: shapes that change
(a last partial batch), Python numbers that change (a learning rate under a schedule).
"""

import tempfile
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch._dynamo import config
from torch._dynamo.utils import counters, get_compilation_metrics

from twinrun.run_files import CompilationCounts

COMPILATIONS_AT_MOST = 64
CAN_COMPILE_BACKWARD = hasattr(config, "trace_autograd_ops")


@contextmanager
def compiler_switches() -> Iterator[None]:
    """Let the compiler trace the backward pass, and fail where it would go on uncompiled."""
    backward = {"trace_autograd_ops": True} if CAN_COMPILE_BACKWARD else {}
    with config.patch(
        recompile_limit=COMPILATIONS_AT_MOST, fail_on_recompile_limit_hit=True, **backward
    ):
        yield


@cache
def wake_compiler(device_type: str) -> None:
    """Have torch compile something, so that no variant pays for what it does once.

    Once a process it loads its compiler; once a machine it tries instruction sets and prepares C++
    headers, which takes 20 s on 2 cores and stays in the machine's cache.
    """
    torch.compile(lambda tensor: tensor + 1)(torch.ones(8, device=device_type))


@contextmanager
def empty_cache() -> Iterator[None]:
    """Compile as if nothing had been compiled before, on this machine and in this process."""
    from torch._inductor.utils import fresh_cache  # imports the whole compiler

    with tempfile.TemporaryDirectory(prefix="twinrun-") as folder, fresh_cache(dir=folder):
        yield


class Compiled:
    """A function compiled by torch, with its counts."""

    def __init__(self, function: Callable[..., Any], **options: Any) -> None:
        """Compile at the first call.

        Args:
            function: a plain function; it gets a code object of its own, since torch keeps
                compiled graphs, and their limit, per code object and not per function.
            options: of `torch.compile`.
        """
        own = types.FunctionType(
            function.__code__.replace(),
            function.__globals__,
            function.__name__,
            function.__defaults__,
            function.__closure__,
        )
        self._function = torch.compile(own, **options)
        self.calls = 0
        self.compilations = 0
        self.reasons: list[str] = []
        """Why it compiled again, once for each time."""

    def __call__(self, *arguments: Any) -> Any:
        """Call it, and count whether torch compiled."""
        before = counters["stats"]["unique_graphs"]
        result = self._function(*arguments)
        self.calls += 1
        if counters["stats"]["unique_graphs"] != before:
            self._note_compilation()
        return result

    def counts(self) -> CompilationCounts:
        """Return `calls`, `compilations` and `reasons`."""
        return {"calls": self.calls, "compilations": self.compilations, "reasons": self.reasons}

    def _note_compilation(self) -> None:
        self.compilations += 1
        if self.compilations > 1:
            whole = get_compilation_metrics()[-1].recompile_reason or "unknown"
            reason = whole.split("\n")[0].split("  #")[0].strip()  # without the line of code
            self.reasons.append(reason)
            print(f"call {self.calls} compiled again: {reason}", flush=True)
