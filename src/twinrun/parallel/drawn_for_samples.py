"""Whether a dataset or a collate function draws, which then does so for shards.

It does in the process that trains, or in data workers, which have generators of their own.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils.data import DataLoader, get_worker_info

from twinrun.parallel.drawn_in_steps import READ, DrawnInSteps, States, looked_at, moved, states_of


class DrawnForSamples:
    """Looks at generators where the samples of a shard have been made."""

    def __init__(self, drawn: DrawnInSteps) -> None:
        self._drawn = drawn
        self._collate: _Collate | None = None

    @contextmanager
    def watched(self, loader: DataLoader) -> Iterator[None]:
        """Have an iterator that a loader makes here look; the loader stays as it is."""
        self.look()
        plain = {name: vars(loader)[name] for name in ("collate_fn", "worker_init_fn")}
        self._collate = _Collate(loader, self._drawn)
        vars(loader).update(collate_fn=self._collate, worker_init_fn=self._collate.begin)
        try:
            yield
        finally:
            vars(loader).update(plain)

    def look(self) -> None:
        """Note what data workers have drawn from so far."""
        if self._collate is not None:
            self._drawn.note_workers(self._collate.drawn())


class _Collate:
    """Stands in for a loader's collate function, and for what begins its data workers."""

    def __init__(self, loader: DataLoader, drawn: DrawnInSteps) -> None:
        self._plain, self._begin = loader.collate_fn, loader.worker_init_fn
        self._drawn: DrawnInSteps | None = drawn
        self._held = dict(drawn.held)
        self._names = [*READ, *self._held]
        # What data workers write to, and this process reads.
        self._has_drawn = torch.zeros(len(self._names), dtype=torch.uint8)
        if loader.num_workers:
            self._has_drawn.share_memory_()
        self._before: States = {}
        self._number = 0

    def __getstate__(self) -> dict[str, Any]:
        """Return what a data worker takes that is no fork: not what need not be picklable."""
        return {**vars(self), "_drawn": None, "_held": {}}

    def __call__(self, samples: Any) -> object:
        """Collate, and look at what has drawn for it."""
        batch = self._plain(samples)
        if get_worker_info() is not None:
            for name in moved(self._before, states_of(self._held, self._before)):
                self._has_drawn[self._names.index(name)] = 1
            self._number += 1
            self._look()
        elif self._drawn is not None:
            self._drawn.end_samples()
        return batch

    def begin(self, worker: int) -> None:
        """Begin a data worker."""
        if self._begin is not None:
            self._begin(worker)
        self._look()

    def drawn(self) -> list[str]:
        """Return what data workers have drawn from."""
        return [n for n, is_drawn in zip(self._names, self._has_drawn, strict=True) if is_drawn]

    def _look(self) -> None:
        self._before = states_of(self._held, looked_at(self._number, self._held))
