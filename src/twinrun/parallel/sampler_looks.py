"""Whether steps change what mini-batches are drawn by, otherwise at each worker.

A sampler may go by what the training has come to. A share that grows with the steps is the same at
all workers. Of losses of samples each worker knows those of its shards, and the first one's sampler
alone is drawn from.
"""

from collections import deque
from collections.abc import Iterator

import numpy as np
import torch
import xxhash
from torch.utils.data import BatchSampler, Dataset, RandomSampler, Sampler, SequentialSampler

from twinrun.checkpoint.users_code import attributes_seen
from twinrun.containers import entries, is_container
from twinrun.generators import state_of
from twinrun.parallel.workers import Workers
from twinrun.trace.fingerprints import described

DEEPEST = 4
"""Samplers inside each other, lists inside each other."""
ENTRIES = 4096
"""At least so many of a long list are looked at, spread evenly over it."""


def draws_at_once(batches: object) -> bool:
    """Say whether a batch sampler's first mini-batch decides what the others are.

    With a generator of its user's torch's may draw from it once more behind the last mini-batch,
    where one process does not come if the samples make whole ones.
    """
    if type(batches) is not BatchSampler:
        return False
    order = batches.sampler
    is_random = type(order) is RandomSampler and order.generator is None
    is_ours = getattr(type(order), "is_drawn_at_once", False) is True
    return is_random or is_ours or type(order) in (SequentialSampler, range)


class SamplerLooks:
    """Looks at the attributes of samplers ahead of some mini-batches of each epoch."""

    def __init__(self, batches: object, workers: Workers) -> None:
        """Look at nothing that is drawn at once."""
        self._samplers = [] if draws_at_once(batches) else [*_samplers(batches)]
        self._workers = workers
        self._drawn: set[str] = set()
        self._before: dict[str, str] = {}
        self._after: tuple[int, dict[str, str]] = -1, {}

    def unlike(self, number: int) -> set[str]:
        """Name what steps have changed so that workers have other values; all must ask.

        Args:
            number: of the mini-batch that is drawn next, from 0 in each epoch.
        """
        if not self._samplers or number & (number - 1):  # at 0, 1, 2, 4, 8, ...
            return set()
        own = self._before = self._read()
        last, after = self._after
        # What drawing moves is another one at the worker that draws; but steps may move it, too.
        moved = {
            name for name in self._drawn if last == number - 1 and own.get(name) != after[name]
        }
        (first, drawn, found), *others = self._workers.everyones((own, self._drawn, moved))
        return found | {
            name
            for name in first.keys() - drawn
            if any(values.get(name) != first[name] for values, *_ in others)
        }

    def drew(self, number: int) -> None:
        """Note what the mini-batch has moved that was drawn; where none is drawn, nothing."""
        if self._samplers and not number & (number - 1):
            self._after = number, self._read()
            self._drawn |= {n for n, w in self._after[1].items() if self._before.get(n) != w}

    def _read(self) -> dict[str, str]:
        return {name: words for each in self._samplers for name, words in _attributes(each)}


def _samplers(batches: object) -> Iterator[object]:
    """Yield a batch sampler, and those that it draws from."""
    for _ in range(DEEPEST):
        yield batches
        held = attributes_seen(batches)
        batches = held.get("sampler", held.get("batch_sampler"))
        if batches is None:
            return


def _attributes(sampler: object) -> Iterator[tuple[str, str]]:
    """Describe by name what a sampler holds, but for other samplers and the samples."""
    for name, value in attributes_seen(sampler).items():
        is_of_samples = name == "data_source" or isinstance(value, Dataset)
        if not is_of_samples and not isinstance(value, Sampler | torch.nn.Module):
            words = _described(value)
            yield f"{type(sampler).__name__}.{name}", xxhash.xxh3_64_hexdigest(words.encode())


def _described(value: object, deeper: int = DEEPEST) -> str:
    """Write a value so that another one is other words, as far as it is the same in processes."""
    if (state := state_of(value)) is not None:
        value = state
    if isinstance(value, torch.Tensor | np.ndarray):
        return described(value)
    if isinstance(value, deque):
        value = [*value]
    if is_container(value) and deeper:
        found = entries(value)
        spread = found[:: max(1, len(found) // ENTRIES)]
        return f"{len(found)} {[(_described(k, 0), _described(v, deeper - 1)) for k, v in spread]}"
    is_plain = isinstance(value, int | float | complex | str | bytes | bool | np.generic)
    return described(value) if is_plain else type(value).__name__
