"""A callback that clocks one batch of everything: a training step, validation, test, prediction."""

from typing import Any

import pytorch_lightning as pl
from torch.utils._pytree import tree_leaves
from torch.utils.benchmark import timer  # synchronises the device, then reads the clock


class BatchClock(pl.Callback):
    """Clocks the last training step with the loading of its batch, and one batch of the rest."""

    def __init__(self) -> None:
        self.step = self.validation = self.evaluation = 0.0
        """Seconds; of test and prediction those of both."""
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
        now = timer()
        self.step, self._started = now - self._started, now

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
