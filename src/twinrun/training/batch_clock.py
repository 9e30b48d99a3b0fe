"""A callback that clocks one batch of everything: a training step, validation, test, prediction.

What is slow the first time may be so only then: it compiles, warms up or downloads. Who clocks it
again has both.
"""

import contextlib
from collections.abc import Callable
from typing import Any

import pytorch_lightning as pl
from torch.utils._pytree import tree_leaves
from torch.utils.benchmark import timer  # synchronises the device, then reads the clock

from twinrun.config.memory import Sizes

SLOW = 1.0  # seconds, from which on a first one is followed by later ones


class BatchClock(pl.Callback):
    """Clocks each training step with the loading of its batch, and one batch of the rest."""

    def __init__(self) -> None:
        self.step = self.validation = self.evaluation = 0.0
        """Seconds of the last one; of test and prediction those of both."""
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

    def again(
        self,
        trainer: pl.Trainer,
        data: pl.LightningDataModule,
        evaluate: Callable[[], object],
        sizes: Sizes,
    ) -> None:
        """Clock once more what was slow, and write it to the sizes.

        Last of all, since it changes what the Trainer knows; and no part of a training, so that
        where it fails, what was clocked first stands.

        Args:
            trainer: which validates.
            data: what it asks for data.
            evaluate: does test and prediction.
            sizes: of what was clocked first.
        """
        with contextlib.suppress(Exception):  # a user's module may raise anything
            if sizes["validation_seconds"] > SLOW:
                trainer.validate(trainer.lightning_module, datamodule=data, verbose=False)
                sizes["later_validation_seconds"] = round(self.validation, 6)
            if sizes["evaluation_seconds"] > SLOW:
                self.evaluation = 0.0
                evaluate()
                sizes["later_evaluation_seconds"] = round(self.evaluation, 6)

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
