"""What each of several workers keeps in plain attributes of its own shards.

A running mean of losses, a hidden state that is carried over batches, a list of losses: at each
worker it is another one. Samples that are counted are those of a shard at all of them. A count of
steps is one process's.
"""

from collections.abc import Iterator
from typing import Any, cast

import pytorch_lightning as pl

from twinrun.parallel.asked_ends import AskedEnds
from twinrun.parallel.kept_values import kept_values, words_of
from twinrun.parallel.set_before_read import carried
from twinrun.parallel.workers import Workers
from twinrun.wording import some


class KeptByWorkers(pl.Callback):
    """Compares attributes of workers behind steps 1, 2, 4, 8, ..., and keeps names."""

    def __init__(self, workers: Workers, ends: AskedEnds) -> None:
        """Look at nothing yet.

        Args:
            workers: this worker and the others.
            ends: who has asked for the end of the training.
        """
        self._workers, self._ends = workers, ends
        self._unlike: set[str] = set()
        self._samples: set[str] = set()
        self._steps = 0
        self._at_start: dict[str, str | None] = {}
        self._numbers: dict[str, float] = {}
        self._size = 1  # of the shard at which they were looked at

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Begin with the first step."""
        self._steps = 0

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: object, batch_idx: int
    ) -> None:
        """Compare; here all hooks of the step before have been called."""
        steps, self._steps = self._steps, self._steps + 1
        if steps == 0:
            self._at_start = self._words(trainer, pl_module)
        elif not steps & (steps - 1):
            self._compare(trainer, pl_module)
        # Ahead of the steps behind which they are compared.
        if not self._steps & (self._steps - 1):
            self._numbers = _numbers(trainer, pl_module)
            self._size = self._workers.sizes[self._workers.rank]

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Compare, before the module's own hook makes something of it."""
        if self._steps and not self._steps & (self._steps - 1):
            self._compare(trainer, pl_module)

    def sentences(self, trainer: pl.Trainer, module: pl.LightningModule) -> Iterator[str]:
        """Say what is each worker's own."""
        if unlike := carried(self._unlike, trainer, module):
            yield (
                f"in part, devices has each worker keep what it makes of its own shards "
                f"({some(unlike)}): what goes by it, as a mean of losses or what is carried over, "
                f"may not be one worker's"
            )
        if samples := carried(self._samples - self._unlike, trainer, module):
            yield (
                f"in part, devices may have attributes ({some(samples)}) count the samples of a "
                f"shard, where one worker counts those of the mini-batch"
            )

    def state_dict(self) -> dict[str, Any]:
        """Return what was found so far."""
        found = {"unlike": sorted(self._unlike), "samples": sorted(self._samples)}
        return {**found, "ends": self._ends.is_by_part}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take what a checkpoint has of it."""
        self._unlike.update(state_dict["unlike"])
        self._samples.update(state_dict["samples"])
        self._ends.is_by_part |= state_dict["ends"]

    def _compare(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        own = self._words(trainer, module)
        first, *others = self._workers.everyones(own)
        for name, words in own.items():
            if words is not None and words != self._at_start.get(name):
                told = [each.get(name) for each in (first, *others)]
                self._unlike |= {name} if None not in told and len({*told}) > 1 else set()
        size, now = self._size, _numbers(trainer, module)
        self._samples |= {
            name
            for name, before in self._numbers.items()
            # A count of steps moves by one; of tokens, by so many for each sample.
            if size > 1 and now.get(name, before) != before and not (now[name] - before) % size
        }
        self._numbers = {}

    def _words(self, trainer: pl.Trainer, module: pl.LightningModule) -> dict[str, str | None]:
        return {name: words_of(kept.value) for name, kept in kept_values(trainer, module).items()}


def _numbers(trainer: pl.Trainer, module: pl.LightningModule) -> dict[str, float]:
    held = kept_values(trainer, module).items()
    found = {name: kept.value for name, kept in held if type(kept.value) in (int, float)}
    return cast(dict[str, float], found)
