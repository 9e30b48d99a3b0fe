"""Compiled steps of a LightningModule, and how often torch had to compile them.

What is compiled are the module's own `training_step` and `predict_step`, each by itself: a whole
LightningModule cannot be, because it takes the Trainer's hooks with it. Logging stays outside the
compiled graph: it belongs to the Trainer.
"""

from collections.abc import Iterable
from typing import Any

import pytorch_lightning as pl
import torch

STEPS = ("training_step", "predict_step")


def compile_steps(module: pl.LightningModule) -> None:
    """Compile the steps in place; each is compiled when it is first called."""
    for name in ("log", "log_dict"):
        setattr(module, name, torch.compiler.disable(getattr(module, name)))
    for name in STEPS:
        setattr(module, name, torch.compile(getattr(module, name)))


class Watch:
    """Counts calls, those of them in which torch compiled, and why it had to again."""

    def __init__(self) -> None:
        from torch._dynamo.utils import counters, guard_failures  # a second, for compiled ones only

        self.calls = self.compilations = 0
        self.reasons: list[str] = []
        self._graphs, self._failures = counters["stats"], guard_failures
        self.start()

    def start(self) -> None:
        """Leave out what was compiled since the last call, by others."""
        self._compiled = self._graphs["unique_graphs"]
        self._known = set(_listed(self._failures.values()))

    def count_call(self) -> None:
        """Count a call that has just ended."""
        self.calls += 1
        if self._graphs["unique_graphs"] == self._compiled:
            return
        self.compilations += 1
        found = dict.fromkeys(_listed(self._failures.values()))
        self.reasons += [reason for reason in found if reason not in self._known]
        self.start()

    def summary(self) -> dict[str, Any]:
        """Give `calls`, `compilations` and `reasons`."""
        return {"calls": self.calls, "compilations": self.compilations, "reasons": self.reasons}


def _listed(failures: Iterable[Iterable[str]]) -> list[str]:
    return [" ".join(str(reason).split()) for found in failures for reason in found]
