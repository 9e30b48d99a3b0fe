"""Where the seconds of a fit go: fingerprints, compilation, waiting for other jobs."""

import sys
import time
from collections.abc import Callable
from typing import TypedDict

import pytorch_lightning as pl
import torch

from twinrun.process import machine_load

# The hooks in which a tracer works, its own behind clipping among them; of several workers' one
# with what they exchange for it.
OF_A_TRACER = (
    "on_train_start",
    "on_train_batch_start",
    "on_before_optimizer_step",
    "_note_settings",
    "end_update",
    "on_train_batch_end",
)


class FitSeconds(TypedDict):
    """What of the seconds of a fit is no training; fields as in `RunSeconds`."""

    fit: float
    """All of it; these are seconds."""
    tracing: float | None
    """Of it the fingerprints; None on a GPU."""
    compiling: float
    """Of it torch's compiler."""
    waited: float | None
    """In which threads had no core; None where the system does not count them."""
    others: float
    """No seconds: cores that were busy with other processes."""


class FitClock:
    """Clocks a fit from `start` to `stop`."""

    def __init__(self, tracer: pl.Callback) -> None:
        """Have the hooks of a tracer clocked: attributes of the object, found before its methods.

        Args:
            tracer: of this process.
        """
        self._tracing = 0.0
        self._depth = 0
        for name in OF_A_TRACER:
            vars(tracer)[name] = self._clocked(getattr(tracer, name))
        self.start()

    def start(self) -> None:
        """Start the clock."""
        self._tracing, self._compiled = 0.0, _compiling()
        self._load, self._started = machine_load.load(), time.perf_counter()

    def stop(self) -> FitSeconds:
        """Return what has passed."""
        fit, now = time.perf_counter() - self._started, machine_load.load()
        waited = machine_load.waited(self._load, now)
        return {
            "fit": round(fit, 3),
            # There a fingerprint waits for the step whose tensors it takes.
            "tracing": None if torch.cuda.is_initialized() else round(self._tracing, 3),
            "compiling": round(_compiling() - self._compiled, 3),
            "waited": None if waited is None else round(waited, 3),
            "others": round(machine_load.others(self._load, now, fit), 3),
        }

    def _clocked(self, hook: Callable[..., object]) -> Callable[..., object]:
        def clocked(*arguments: object, **named: object) -> object:
            started, self._depth = time.perf_counter(), self._depth + 1
            try:
                return hook(*arguments, **named)
            finally:
                self._depth -= 1
                if not self._depth:  # one hook may call another
                    self._tracing += time.perf_counter() - started

        return clocked


def _compiling() -> float:
    """Return the seconds that torch has compiled in this process, by its own clock."""
    # Who compiles has loaded it, and nobody else needs to.
    compiler = sys.modules.get("torch._dynamo.utils")
    return compiler.calculate_time_spent()["total_wall_time"] if compiler is not None else 0.0
