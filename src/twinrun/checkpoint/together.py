"""The workers that train one network, as far as its checkpoints need them; of one worker, nothing.

What decides about a checkpoint is agreed: whether one is due by the first worker's clock, whether
one can be written or used by all of them. So all write one behind the same batch, or none does.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, TypeVar

import pytorch_lightning as pl

from twinrun.process.determinism import RNGStates, rng_states

Told = TypeVar("Told")


class Together(Protocol):
    """This worker and the others. Where one calls a method that exchanges, all do."""

    @property
    def rank(self) -> int:
        """This worker's number, from 0."""
        ...

    @property
    def count(self) -> int:
        """How many they are."""
        ...

    def first(self, value: Told) -> Told:
        """Return the first worker's picklable value to everyone."""
        ...

    def firsts_number(self, value: float) -> float:
        """Return the first worker's number to everyone, in less time than `first`."""
        ...

    def everyones(self, value: Told) -> list[Told]:
        """Return every worker's picklable value to everyone."""
        ...

    def random_of_steps(self) -> RNGStates:
        """Return the RNG states by which this worker draws next in its steps."""
        ...

    def as_one(self) -> AbstractContextManager[None]:
        """Draw the first worker's numbers in the body, also in the midst of steps."""
        ...

    def hindrances(self, trainer: pl.Trainer) -> Iterator[str]:
        """Say what stands against ending in the same bits where several train."""
        ...

    def state(self) -> dict[str, Any]:
        """Return what this worker keeps beside all else, as plain data."""
        ...

    def load(self, state: Mapping[str, Any]) -> None:
        """Take what `state` gave."""
        ...


class Alone:
    """A single worker."""

    rank, count = 0, 1

    def first(self, value: Told) -> Told:
        """Return it."""
        return value

    def firsts_number(self, value: float) -> float:
        """Return it."""
        return value

    def everyones(self, value: Told) -> list[Told]:
        """Return it."""
        return [value]

    def random_of_steps(self) -> RNGStates:
        """Return the RNG states of this process."""
        return rng_states()

    def as_one(self) -> AbstractContextManager[None]:
        """Change nothing."""
        return nullcontext()

    def hindrances(self, trainer: pl.Trainer) -> Iterator[str]:
        """Say that the others are not known where there are any."""
        if trainer.world_size > 1:
            yield "several workers train, and only one worker's state would be kept"

    def state(self) -> dict[str, Any]:
        """Return nothing."""
        return {}

    def load(self, state: Mapping[str, Any]) -> None:
        """Take nothing."""


def agreed(together: Together, sentence: str | None) -> str | None:
    """Return the first sentence that a worker has, to all of them."""
    return first_of(together.everyones(sentence))


def hindrance_of_all(together: Together, trainer: pl.Trainer) -> str | None:
    """Return what stands against any checkpoint, before a batch costs an exchange."""
    return agreed(together, next(iter(together.hindrances(trainer)), None))


def first_of(sentences: Sequence[str | None]) -> str | None:
    """Return the first sentence of the workers'; a worker other than the first one is named.

    >>> first_of([None, "the disk is full"])
    'the disk is full (at worker 2)'
    """
    for rank, found in enumerate(sentences):
        if found is not None:
            return found if rank == 0 else f"{found} (at worker {rank + 1})"
    return None
