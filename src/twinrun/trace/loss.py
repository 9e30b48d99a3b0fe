"""The losses of training steps, and where a training is."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch


class Now(NamedTuple):
    """Where a training is: its last step."""

    step: int
    """From 1."""
    epoch: int
    """From 1."""
    loss: float | None
    """None where that step gave none."""


def value_of(loss: torch.Tensor | None) -> float:
    """Return the number; NaN without a loss."""
    return float("nan") if loss is None else float(loss)


class Losses:
    """The last loss, and whether those of the last epoch are numbers, of every step: traced or not.

    Reads nothing from a GPU before it is asked: that would wait for each step.
    """

    def __init__(self) -> None:
        self.epoch = 0
        """Of the last step of this process, from 1; 0 before the first."""
        self._epoch_of_least = 0
        self._last: torch.Tensor | None = None
        # The smallest in absolute value: NaN where all are, infinite where none is finite.
        self._least: torch.Tensor | None = None

    def note(self, epoch: int, loss: torch.Tensor | None) -> None:
        """Note the loss of a step; None for a step that gave none."""
        self.epoch = epoch
        if epoch != self._epoch_of_least:
            self._epoch_of_least, self._least = epoch, None
        self._last = None if loss is None else loss.detach()
        if self._last is None:
            return
        found = self._last.reshape(())
        is_fraction = found.is_floating_point() or found.is_complex()
        size = found.abs() if is_fraction else found.float().abs()
        # Of NaN and a number it is the number.
        self._least = size if self._least is None else torch.fmin(self._least, size)

    def last(self) -> float | None:
        """Return that of the last step; None if it gave none."""
        return None if self._last is None else float(self._last)

    def least(self) -> float | None:
        """Return the smallest absolute value of the last epoch; None if no step gave a loss.

        NaN if all are NaN, and infinite if none is finite.
        """
        return None if self._least is None else float(self._least)

    def state(self) -> dict[str, float | None]:
        """Return what a checkpoint keeps."""
        return {"epoch": self._epoch_of_least, "least": self.least()}

    def load(self, state: Mapping[str, Any]) -> None:
        """Take what a checkpoint has kept."""
        self._epoch_of_least, least = state["epoch"], state["least"]
        if least is not None:
            # That it is finite is all that counts: not every type holds a large number.
            self._least = torch.tensor(0.0 if math.isfinite(least) else least)
