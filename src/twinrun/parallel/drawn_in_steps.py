"""Whether mini-batches are drawn by a generator that steps of parts of them have moved.

A step of a shard or a micro-batch that draws (dropout, mixup) draws other numbers than one of the
whole mini-batch, and leaves the global generator at another place. A loader that shuffles seeds
itself from there in each epoch. Nothing can put that right: what the whole mini-batch would have
drawn is not known.
"""

import functools
import random
from collections.abc import Callable, Iterable, Iterator
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
        self._for_workers: set[str] = set()
        self._within: set[str] = set()
        self._begun: States | None = None
        self._parts = 0

    def watch(self, trainer: pl.Trainer) -> None:
        """Look at what is drawn from the reading of a part until its step has ended."""
        loop = trainer.fit_loop.epoch_loop
        advance = loop.advance

        @functools.wraps(advance)
        def watched(*arguments: Any) -> None:
            self._begun = _states(_looked_at(self._parts))
            self._parts += 1
            advance(*arguments)
            if self._begun is not None:  # watched twice, else
                self._in_steps |= _moved(self._begun, _states(self._begun))
            self._begun = None

        vars(loop)["advance"] = watched

    @contextmanager
    def data(self, *, number: int = 0, data_workers: int | None = None) -> Iterator[None]:
        """Look at what is drawn here for mini-batches, and is no part of a step.

        Args:
            number: of the mini-batch that is drawn, from 0 in each epoch.
            data_workers: of a loader whose iterator is made here, and draws a seed for them even if
                it has none; None where none is made.
        """
        if self._begun is not None:
            self._in_steps |= _moved(self._begun, _states(self._begun))
        before = _states(_looked_at(number))
        yield
        after = _states(before)
        drawn = _moved(before, after) & self._in_steps
        is_seed = data_workers is not None and not _moved(_with_seed(before), after)
        if not is_seed:
            self._for_data |= drawn
            self._within |= drawn if number else set()
        elif data_workers:
            self._for_workers |= drawn
        if self._begun is not None:
            self._begun = _states(self._begun)

    def sentence(self, setting: str, part: str) -> str | None:
        """Say that mini-batches may be others; None if they are not.

        Args:
            setting: of the variant, which cuts mini-batches.
            part: what it makes of them.
        """
        if not self._for_data | self._for_workers:
            return None
        if self._for_data:
            what = "give other mini-batches, in another order say,"
            names = " and ".join(sorted(self._for_data))
            who = f"they are drawn from the global generator of {names}"
        else:
            what = "have data workers draw other numbers, for augmentations say,"
            who = "their seeds are drawn from the global generator of torch"
        when = "behind the first step that draws" if self._within else "from the second epoch on"
        return (
            f"in part, {setting} may {what} {when}: {who}, from which steps draw "
            f"too (dropout, say), for each {part} and not for a whole mini-batch"
        )

    def state(self) -> dict[str, list[str]]:
        """Return what a checkpoint holds of it."""
        return {name: sorted(vars(self)[f"_{name}"]) for name in KEPT}

    def load(self, state: dict[str, list[str]]) -> None:
        """Take what a checkpoint has of it."""
        for name in KEPT:
            vars(self)[f"_{name}"] = {*state[name]}


def _numpys_state() -> object:
    _, numbers, *rest = np.random.get_state(legacy=True)
    return np.asarray(numbers).tobytes(), *rest


READ: dict[str, Callable[[], object]] = {
    "Python": random.getstate,
    "NumPy": _numpys_state,
    "torch": lambda: torch.get_rng_state().numpy().tobytes(),
}
# What a checkpoint holds of it.
KEPT = ("in_steps", "for_data", "for_workers", "within")


def _looked_at(number: int) -> Iterable[str]:
    """Name the generators to look at: to read the state of another than torch's takes 0.1 ms."""
    return ("torch",) if number & (number - 1) else READ  # at 0, 1, 2, 4, 8, ... all of them


def _states(names: Iterable[str]) -> States:
    return {name: READ[name]() for name in names}


def _moved(before: States, after: States) -> set[str]:
    return {name for name in before if before[name] != after[name]}


def _with_seed(states: States) -> States:
    """Return the states after a loader has drawn the seed of its data workers."""
    generator = torch.Generator()
    generator.set_state(torch.frombuffer(bytearray(states["torch"]), dtype=torch.uint8))
    torch.empty((), dtype=torch.int64).random_(generator=generator)
    return {**states, "torch": generator.get_state().numpy().tobytes()}
