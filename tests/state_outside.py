"""A module whose training depends on state outside of it, as a process finds it when it starts."""

import functools
import os
import random
import time
from pathlib import Path

import torch
from small import Small

IMPORTED_IN = os.getpid()
NOISE = torch.Generator().manual_seed(3)
CHOICES = random.Random(4)


@functools.lru_cache
def first_size(of_what):
    """Whatever came first is what stays."""
    return FIRST.pop() if FIRST else 0.0


FIRST = [0.5]


class Outside(Small):
    """Draws from its file's generators, counts in its class, patches torch and reads a cache."""

    steps = 0

    def __init__(self, width=8, learning_rate=0.05):
        super().__init__(width, learning_rate)
        patched = getattr(torch.nn.Linear, "patched", 0)
        torch.nn.Linear.patched = patched + 1
        self.shift = 0.1 * patched

    def training_step(self, batch, batch_idx):
        Outside.steps += 1
        inputs, targets = batch
        noise = torch.randn(targets.shape, generator=NOISE) + CHOICES.random()
        scale = 0.01 * Outside.steps + first_size("any") + self.shift
        return super().training_step((inputs, targets + scale * noise), batch_idx)


class OutsideHooks(Small):
    """Draws and counts between its steps, which leaves the steps to be compiled."""

    steps = 0

    def __init__(self, width=8, learning_rate=0.05):
        super().__init__(width, learning_rate)
        self.register_buffer("noise", torch.zeros(()))

    def on_train_batch_start(self, batch, batch_idx):
        OutsideHooks.steps += 1
        value = torch.randn((), generator=NOISE) + CHOICES.random() + 0.1 * OutsideHooks.steps
        self.noise.copy_(value)

    def training_step(self, batch, batch_idx):
        inputs, targets = batch
        return super().training_step((inputs, targets + self.noise), batch_idx)


class Clocked(Small):
    """Trains by the clock: no training repeats."""

    def training_step(self, batch, batch_idx):
        return super().training_step(batch, batch_idx) * (1 + time.perf_counter() % 1)


class LogsTheClock(Small):
    """Logs how fast it is; what it learns repeats."""

    def training_step(self, batch, batch_idx):
        self.log("seconds", time.perf_counter())
        return super().training_step(batch, batch_idx)


class Slow(Small):
    """Waits in its first step, until somebody ends it."""

    def training_step(self, batch, batch_idx):
        Path(os.environ["SLOW_FILE"]).write_text(str(os.getpid()))
        time.sleep(600)


class Dies(Small):
    """Ends its process in a compiled step's training, as a crash does."""

    def training_step(self, batch, batch_idx):
        os._exit(7)


class NotInAFork(Small):
    """Stands in for one whose file asks for a GPU: torch says no more before it is forked."""

    def on_train_start(self):
        if os.getpid() != IMPORTED_IN:
            raise RuntimeError("Cannot re-initialize CUDA in forked subprocess. To use CUDA with")
