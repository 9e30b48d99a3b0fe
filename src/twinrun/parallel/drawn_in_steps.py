"""Which generators steps of parts of mini-batches draw from, and what is drawn from them besides.

A step of a shard or a micro-batch that draws (dropout, mixup) draws other numbers than one of the
whole mini-batch, and leaves the generator at another place. A loader that shuffles seeds itself
from the global one in each epoch. Nothing can put that right: what the whole mini-batch would have
drawn is not known. So it is with what makes the samples of a shard.
"""

import functools
import pickle
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np
import pytorch_lightning as pl
import torch

from twinrun.generators import state_of
from twinrun.parallel.reached_code import ReachedCode
from twinrun.wording import some

States: TypeAlias = dict[str, Any]
"""Of the global generators on the CPU, by which data are drawn, and of others."""


class DrawnInSteps:
    """Notes by which generators steps and samples are drawn, and mini-batches after them."""

    def __init__(self) -> None:
        self.held: dict[str, object] = {}
        """Generators to look at beside the global ones, by where they are held."""
        self._in_steps: set[str] = set()
        self._for_samples: set[str] = set()
        self._by_workers: set[str] = set()
        self._for_data: set[str] = set()
        self._for_workers: set[str] = set()
        self._within: set[str] = set()
        self._begun: States | None = None
        self._parts = 0
        self._epoch: int | None = None

    def find(self, trainer: pl.Trainer) -> None:
        """Look for generators that code of the user's may come to, wherever they are held."""
        self.held = ReachedCode(trainer, trainer.lightning_module).generators

    def watch(self, trainer: pl.Trainer) -> None:
        """Look at what is drawn from the reading of a part until its step has ended."""
        loop = trainer.fit_loop.epoch_loop
        advance = loop.advance

        @functools.wraps(advance)
        def watched(*arguments: Any) -> None:
            epoch = trainer.current_epoch
            if epoch != self._epoch:
                # Again in epochs 1, 2, 4, 8, ...: hooks may have made others.
                if self._epoch is None or not epoch & (epoch - 1):
                    self.find(trainer)
                self._epoch = epoch
            self._begun = states_of(self.held, looked_at(self._parts, self.held))
            self._parts += 1
            advance(*arguments)
            self._note(self._in_steps)
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
        self._note(self._in_steps)
        before = states_of({}, looked_at(number, {}))
        yield
        after = states_of({}, before)
        drawn = moved(before, after) & (self._in_steps | self._for_samples)
        is_seed = data_workers is not None and not moved(_with_seed(before), after)
        if not is_seed:
            self._for_data |= drawn
            self._within |= drawn if number else set()
        elif data_workers:
            self._for_workers |= drawn
        self.leave_out()

    def leave_out(self) -> None:
        """Note nothing of what was drawn since the last look: neither steps nor samples did."""
        self._note(set())

    def end_samples(self) -> None:
        """Note by what the samples of a part were drawn, which have been made by now."""
        self._note(self._for_samples)

    def begin_backward(self) -> None:
        """Look at the global generators alone from here on.

        What is drawn from others behind it, as for gradients or weights, is drawn once for a
        mini-batch, and alike at all workers.
        """
        self._note(self._in_steps)
        if self._begun is not None:
            self._begun = {name: self._begun[name] for name in READ if name in self._begun}

    def end_step(self) -> None:
        """Look at nothing until the next part: what follows comes once for a mini-batch."""
        self._note(self._in_steps)
        self._begun = None

    @contextmanager
    def once(self) -> Iterator[None]:
        """Note nothing of what is drawn here, once for a mini-batch."""
        self._note(self._in_steps)
        yield
        self.leave_out()

    def note_workers(self, names: Iterable[str]) -> None:
        """Note what data workers have drawn samples from, by generators of their own."""
        self._by_workers.update(names)

    def sentences(self, setting: str, part: str) -> Iterator[str]:
        """Say what steps and samples are drawn by that is another for each part.

        Args:
            setting: of the variant, which cuts mini-batches.
            part: what it makes of them.
        """
        if own := sorted(self._in_steps - READ.keys()):
            again = ", and each worker draws the same ones" if setting == "devices" else ""
            yield (
                f"in part, {setting} may have steps draw other numbers: they draw from generators "
                f"that are not the global ones ({some(own)}), for each {part} and not for a whole "
                f"mini-batch{again}"
            )

    def of_batches(self, setting: str, part: str) -> Iterator[str]:
        """Say in what mini-batches may be others.

        Args:
            setting: of the variant, which cuts mini-batches.
            part: what it makes of them.
        """
        behind = f"for each {part} and not for a whole mini-batch"
        if made := self._for_samples | self._by_workers:
            own = sorted(made - READ.keys())
            names = [*_globals(made), *([some(own)] if own else [])]
            yield (
                f"in part, {setting} may give other mini-batches, of other content: a dataset or a "
                f"collate function draws from {' and '.join(names)}, {behind}"
            )
        if not self._for_data | self._for_workers:
            return
        if self._for_data:
            what = "give other mini-batches, in another order say,"
            who = f"they are drawn from {' and '.join(_globals(self._for_data))}"
        else:
            what = "have data workers draw other numbers, for augmentations say,"
            who = "their seeds are drawn from the global generator of torch"
        drawn = self._for_data | self._for_workers
        are_steps, are_samples = drawn & self._in_steps, drawn & self._for_samples
        others = ["steps draw too (dropout, say)"] if are_steps else []
        others += ["datasets or collate functions draw too"] if are_samples else []
        first = "step" if are_steps else "mini-batch"
        when = (
            f"behind the first {first} that draws" if self._within else "from the second epoch on"
        )
        yield (
            f"in part, {setting} may {what} {when}: {who}, from which {' and '.join(others)}, "
            f"{behind}"
        )

    def state(self) -> dict[str, list[str]]:
        """Return what a checkpoint holds of it."""
        return {name: sorted(vars(self)[f"_{name}"]) for name in KEPT}

    def load(self, state: Mapping[str, Iterable[str]]) -> None:
        """Take what a checkpoint has of it; one of an older version lacks some."""
        for name in KEPT:
            vars(self)[f"_{name}"] = {*state.get(name, ())}

    def _note(self, found: set[str]) -> None:
        """Add what has moved in the part under way since the last look, which this one is."""
        if self._begun is not None:
            now = states_of(self.held, self._begun)
            found |= moved(self._begun, now)
            self._begun = now


def _numpys_state() -> object:
    _, numbers, *rest = np.random.get_state(legacy=True)
    return np.asarray(numbers).tobytes(), *rest


READ: dict[str, Callable[[], object]] = {
    "Python": random.getstate,
    "NumPy": _numpys_state,
    "torch": lambda: torch.get_rng_state().numpy().tobytes(),
}
# What a checkpoint holds of it.
KEPT = ("in_steps", "for_samples", "by_workers", "for_data", "for_workers", "within")


def looked_at(number: int, held: Mapping[str, object]) -> Iterable[str]:
    """Name the generators to look at: to read the state of another than torch's takes 0.1 ms."""
    return ("torch",) if number & (number - 1) else (*READ, *held)  # at 0, 1, 2, 4, 8, ... all


def states_of(held: Mapping[str, object], names: Iterable[str]) -> States:
    """Read the states of generators by name: global ones, and others that are held."""
    found: States = {name: READ[name]() for name in names if name in READ}
    return found | {name: _written(held[name]) for name in names if name in held}


def moved(before: States, after: States) -> set[str]:
    """Name the generators that have drawn between two looks."""
    return {name for name in before.keys() & after.keys() if before[name] != after[name]}


def _written(generator: object) -> bytes:
    state = state_of(generator)
    return pickle.dumps(state.numpy().tobytes() if isinstance(state, torch.Tensor) else state)


def _globals(names: set[str]) -> list[str]:
    found = [name for name in READ if name in names]
    return [f"the global generator of {' and '.join(found)}"] if found else []


def _with_seed(states: States) -> States:
    """Return the states after a loader has drawn the seed of its data workers."""
    generator = torch.Generator()
    generator.set_state(torch.frombuffer(bytearray(states["torch"]), dtype=torch.uint8))
    torch.empty((), dtype=torch.int64).random_(generator=generator)
    return {**states, "torch": generator.get_state().numpy().tobytes()}
