"""What steps of micro-batches keep in plain attributes, and what they normalise by themselves.

A counter for the warm-up of a weight, a running mean of losses, a hidden state that is carried over
batches, a list of losses: each micro-batch moves what one step of the whole mini-batch moves once.
Looked at are mini-batches 1 to 4, and then 8, 16, 32 and so on.
"""

import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.utilities.types import STEP_OUTPUT
from torch.nn.modules.batchnorm import _BatchNorm

from twinrun.parallel.kept_values import kept_values, words_of
from twinrun.parallel.micro_batches import MicroBatches
from twinrun.parallel.set_before_read import carried
from twinrun.wording import some

ALL_OF_FIRST = 4
"""Mini-batches that are all looked at."""


class KeptByParts:
    """Looks at plain attributes from micro-batch to micro-batch, and keeps names."""

    def __init__(self, module: pl.LightningModule, made: Sequence[MicroBatches]) -> None:
        """Exchange the step of a module for one that is looked at."""
        self._module, self._made = module, made
        self._moved: Counter[str] = Counter()
        self._normalised: set[str] = set()
        self._batches = self._looks = 0
        self._steps = -1
        self._before: dict[str, str | None] | None = None
        self._in_batch: set[str] = set()
        step = module.training_step

        # Lightning reads the signature of `training_step` to choose what it hands over.
        @functools.wraps(step)
        def training_step(*arguments: object, **options: object) -> STEP_OUTPUT:
            if module._current_fx_name != "training_step":  # a module may evaluate by it
                return step(*arguments, **options)
            self._begin_part()
            calls = self._batches_seen() if self._is_looked_at else {}
            outputs = step(*arguments, **options)
            if self._is_looked_at:
                after = self._batches_seen().items()
                self._normalised |= {name for name, number in after if number != calls.get(name)}
                if made[0].is_last:
                    self._end_batch()
            return outputs

        module.training_step = training_step

    @property
    def sentence(self) -> str | None:
        """Say which attributes have moved; None if none has."""
        if not (names := self._names()):
            return None
        return (
            f"in part, accumulate has attributes ({some(names)}) change in each micro-batch, which "
            f"the plain training changes once a mini-batch: a count of steps, a mean or what is "
            f"carried over is another one; a sum over samples is the same, but within a mini-batch"
        )

    @property
    def normalising(self) -> str | None:
        """Say which layers have normalised; None if none has."""
        if not self._normalised:
            return None
        return (
            f"in part, accumulate has layers ({some(sorted(self._normalised))}) normalise by the "
            f"mean and the variance of each micro-batch"
        )

    def state(self) -> dict[str, Any]:
        """Return what was found so far, as plain data."""
        return {
            "moved": dict(self._moved),
            "normalised": sorted(self._normalised),
            "batches": self._batches,
            "looks": self._looks,
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Take what `state` gave."""
        self._moved = Counter(state["moved"])
        self._normalised = {*state["normalised"]}
        self._batches, self._looks = state["batches"], state["looks"]

    @property
    def _is_looked_at(self) -> bool:
        number = self._batches
        return number <= ALL_OF_FIRST or not number & (number - 1)

    def _begin_part(self) -> None:
        """Compare with what was seen where the micro-batch before this one began."""
        part = self._made[0].part
        # An update within a mini-batch is of a training that is resumed between two micro-batches.
        steps, self._steps = self._steps, self._module.trainer.global_step
        if part == 0:
            self._batches += 1
            self._in_batch, self._before = set(), None
        elif steps == self._steps:
            self._compare(part - 1)
        if self._is_looked_at and self._made[0].number > 1:
            self._before = self._read()

    def _end_batch(self) -> None:
        """Compare where the last micro-batch's step ends, before what moves once comes."""
        self._compare(self._made[0].part)
        self._before = None
        self._looks += 1
        self._moved.update(self._in_batch)

    def _compare(self, part: int) -> None:
        # What the first one moves alone may be what a step of the whole mini-batch moves: a copy of
        # the step's number, what is made for the first call.
        if self._before is None or part == 0:
            return
        now = self._read()
        for name, words in now.items():
            if None not in (words, self._before.get(name, words)):
                self._in_batch |= {name} if words != self._before.get(name) else set()

    def _read(self) -> dict[str, str | None]:
        found = kept_values(self._module.trainer, self._module)
        return {name: words_of(kept.value) for name, kept in found.items()}

    def _names(self) -> list[str]:
        """Name what moves in more than one mini-batch, and is read before it is set again."""
        # A cache that is filled in the first steps moves once.
        least = min(2, self._looks)
        moved = sorted(name for name, times in self._moved.items() if times >= least > 0)
        return carried(moved, self._module.trainer, self._module)

    def _batches_seen(self) -> dict[str, object]:
        """Return by how many batches torch's layers have normalised; an object if not known."""
        layers = {name: x for name, x in self._module.named_modules() if isinstance(x, _BatchNorm)}
        return {
            name: object() if (count := each.num_batches_tracked) is None else count._version
            for name, each in layers.items()
        }
