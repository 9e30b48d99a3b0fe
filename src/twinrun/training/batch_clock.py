"""A callback that clocks one batch of everything: a training step, validation, test, prediction.

What is slow the first time may be so only then: it compiles, warms up or downloads. Who clocks it
again has both.
"""

from collections.abc import Callable
from typing import Any

import pytorch_lightning as pl
from torch.utils._pytree import tree_leaves
from torch.utils.benchmark import timer  # synchronises the device, then reads the clock

SLOW = 1.0  # seconds, from which on a first one is followed by later ones


class BatchClock(pl.Callback):
    """Clocks each training step with the loading of its batch, and one batch of the rest."""

    def __init__(self) -> None:
        self.step = self.validation = self.evaluation = 0.0
        """Seconds of the last one; of test and prediction those of both."""
        self.later_validation: float | None = None
        """Seconds of the one that was done again, since the first one was slow."""
        self.later_evaluation: float | None = None
        """Likewise, of test and prediction."""
        self.validation_batches: int | None = 0
        """Of a whole validation; None where a loader has no length."""
        self.evaluation_batches: int | None = 0
        """Of test or prediction, whichever has more; None likewise."""
        self._started = 0.0

    def on_train_epoch_start(self, *_: object, **__: object) -> None:
        """Start the clock: the first batch is loaded next."""
        self._started = timer()

    def on_train_batch_end(self, *_: object, **__: object) -> None:
        """Note the seconds of the step, and start the clock again."""
        self.step = timer() - self._started
        self.restart()

    def restart(self) -> None:
        """Leave out what has been done since the last step."""
        self._started = timer()

    def again(self, validate: Callable[[], object], evaluate: Callable[[], object]) -> None:
        """Clock validation and evaluation once more where they were slow."""
        first, of_both = self.validation, self.evaluation
        if first > SLOW:
            validate()
            self.later_validation, self.validation = self.validation, first
        if of_both > SLOW:
            self.evaluation = 0.0
            evaluate()
            self.later_evaluation, self.evaluation = self.evaluation, of_both

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Start the clock."""
        self.validation_batches = _number_of(trainer.val_dataloaders)
        self._started = timer()

    def on_validation_end(self, *_: object, **__: object) -> None:
        """Note its seconds."""
        self.validation = timer() - self._started

    def on_test_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Start the clock."""
        self._begin_evaluation(trainer.test_dataloaders)

    def on_predict_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Start the clock."""
        self._begin_evaluation(trainer.predict_dataloaders)

    def on_test_end(self, *_: object, **__: object) -> None:
        """Note its seconds."""
        self.evaluation += timer() - self._started

    on_predict_end = on_test_end

    def _begin_evaluation(self, loaders: Any) -> None:
        found, known = _number_of(loaders), self.evaluation_batches
        self.evaluation_batches = None if found is None or known is None else max(found, known)
        self._started = timer()


def _number_of(loaders: Any) -> int | None:
    """Count the batches of one loader, or of several in a list or a dictionary."""
    try:
        return sum(len(loader) for loader in tree_leaves(loaders))
    except Exception:  # a stream has no length, and a loader's own may raise anything
        return None
