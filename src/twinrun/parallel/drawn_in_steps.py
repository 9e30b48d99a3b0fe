"""Whether mini-batches are drawn by a generator that steps of parts of them have moved.

A step of a shard or a micro-batch that draws (dropout, mixup) draws other numbers than one of the
whole mini-batch, and leaves the global generator at another place. A loader that shuffles seeds
itself from there in each epoch. Nothing can put that right: what the whole mini-batch would have
drawn is not known.
"""

import functools
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np
import pytorch_lightning as pl
import torch

States: TypeAlias = dict[str, Any]
"""Of the global generators on the CPU, by which data are drawn."""


class DrawnInSteps:
    """Notes by which generators steps draw, and mini-batches after them."""

    def __init__(self) -> None:
        self._in_steps: set[str] = set()
        self._for_data: set[str] = set()
        self._begun: States | None = None

    def watch(self, trainer: pl.Trainer) -> None:
        """Look at what is drawn from the reading of a part until its step has ended."""
        loop = trainer.fit_loop.epoch_loop
        advance = loop.advance

        @functools.wraps(advance)
        def watched(*arguments: Any) -> None:
            self._begun = _states()
            advance(*arguments)
            if self._begun is not None:  # watched twice, else
                self._in_steps |= _moved(self._begun, _states())
            self._begun = None

        vars(loop)["advance"] = watched

    @contextmanager
    def data(self, *, is_seed_used: bool = True) -> Iterator[None]:
        """Look at what is drawn here for mini-batches, and is no part of a step.

        Args:
            is_seed_used: a loader draws a seed for data workers even if it has none.
        """
        before = _states()
        if self._begun is not None:
            self._in_steps |= _moved(self._begun, before)
        yield
        after = _states()
        drawn = _moved(before, after)
        if not is_seed_used and not _moved(_with_seed(before), after):
            drawn = set()
        self._for_data |= drawn & self._in_steps
        if self._begun is not None:
            self._begun = after

    def sentence(self, setting: str, part: str) -> str | None:
        """Say that mini-batches may be others; None if they are not.

        Args:
            setting: of the variant, which cuts mini-batches.
            part: what it makes of them.
        """
        if not self._for_data:
            return None
        return (
            f"in part, {setting} may give other mini-batches, in another order say, from the "
            f"second epoch on: they are drawn from the global generator of "
            f"{' and '.join(sorted(self._for_data))}, from which steps draw too (dropout, say), "
            f"for each {part} and not for a whole mini-batch"
        )

    def state(self) -> dict[str, list[str]]:
        """Return what a checkpoint holds of it."""
        return {"in_steps": sorted(self._in_steps), "for_data": sorted(self._for_data)}

    def load(self, state: dict[str, list[str]]) -> None:
        """Take what a checkpoint has of it."""
        self._in_steps, self._for_data = set(state["in_steps"]), set(state["for_data"])


def _states() -> States:
    _, numbers, *rest = np.random.get_state(legacy=True)
    return {
        "Python": random.getstate(),
        "NumPy": (np.asarray(numbers).tobytes(), *rest),
        "torch": torch.get_rng_state().numpy().tobytes(),
    }


def _moved(before: States, after: States) -> set[str]:
    return {name for name in before if before[name] != after[name]}


def _with_seed(states: States) -> States:
    """Return the states after a loader has drawn the seed of its data workers."""
    generator = torch.Generator()
    generator.set_state(torch.frombuffer(bytearray(states["torch"]), dtype=torch.uint8))
    torch.empty((), dtype=torch.int64).random_(generator=generator)
    return {**states, "torch": generator.get_state().numpy().tobytes()}
