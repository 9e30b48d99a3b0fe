"""A callback that clocks one batch of everything: a training step, validation, test, prediction.

What is slow the first time may be so only then: it compiles, warms up or downloads. Who clocks it
again has both.
"""

import contextlib
from collections.abc import Callable
from statistics import fmean
from typing import Any

import pytorch_lightning as pl
from torch.utils._pytree import tree_leaves
from torch.utils.benchmark import timer  # synchronises the device, then reads the clock

from twinrun.config.memory import Sizes

SLOW = 1.0  # seconds, from which on something takes long, and may do so once only


# Steps after the first that may be slow too, where a graph is captured or a batch of another shape
# is compiled for.
MORE = 2


class LaterSteps:
    """How many steps follow the first, and what one of them takes.

    The first one of a DataLoader with workers waits for its batch, while each of the others loads
    one, too: the next ones come for nothing. So as many steps are clocked as there are workers.
    """

    def __init__(self) -> None:
        self._workers, self._taken = 1, 0
        self._slow: list[float] = []
        self._steady: list[float] = []

    def begin(self, loaders: object) -> None:
        """Note how many workers load at the same time, of the loader that has the most."""
        numbers = [getattr(loader, "num_workers", 0) for loader in tree_leaves(loaders)]
        self._workers = max([1, *(number for number in numbers if isinstance(number, int))])

    def note(self, seconds: float | None) -> None:
        """Note one; None where the module skipped it."""
        self._taken += 1
        if seconds is not None:
            is_slow = seconds > SLOW and not self._steady
            (self._slow if is_slow else self._steady).append(seconds)

    def is_enough(self, first: float) -> bool:
        """Say whether no other one is needed, after a first one of so many seconds."""
        if not self._steady:
            return self._taken >= MORE
        # In which the first batch was loaded, another one is.
        is_known = len(self._steady) >= self._workers or sum(self._steady) >= first
        return is_known or self._taken >= MORE + self._workers

    @property
    def seconds(self) -> float | None:
        """Return those of one; None where none was taken."""
        return fmean(self._steady) if self._steady else min(self._slow, default=None)


class BatchClock(pl.Callback):
    """Clocks each training step with the loading of its batch, and one batch of the rest."""

    def __init__(self) -> None:
        self.step = self.evaluation = 0.0
        """Seconds of the last one; of test and prediction those of both."""
        self.validations: list[float] = []
        """Seconds of each."""
        self.validation_batches: int | None = 0
        """Of a whole validation; None where a loader has no length."""
        self.evaluation_batches: int | None = 0
        """Of test or prediction, whichever has more; None likewise."""
        self._made = self._started = timer()
        self._made_ready = 0.0

    def on_train_start(self, *_: object, **__: object) -> None:
        """Note for how long data and loaders were made ready: who validates again does so, too."""
        self._made_ready = timer() - self._made

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
        """Clock validation, test and prediction once more, and write it to the sizes.

        Not where they are fast and it would take long all the same, for the data. Last of all,
        since it changes what the Trainer knows; and no part of a training, so that where it fails,
        what was clocked first stands.

        Args:
            trainer: which validates.
            data: what it asks for data.
            evaluate: does test and prediction.
            sizes: of what was clocked first.
        """
        with contextlib.suppress(Exception, SystemExit):  # a user's module may raise anything
            if len(self.validations) == 1 and self._is_worth(sizes["validation_seconds"]):
                trainer.validate(trainer.lightning_module, datamodule=data, verbose=False)
                sizes["later_validation_seconds"] = round(self.validations[-1], 6)
            if self._is_worth(sizes["evaluation_seconds"]):
                self.evaluation = 0.0
                evaluate()
                sizes["later_evaluation_seconds"] = round(self.evaluation, 6)

    def has_slow_epochs(self, trainer: pl.Trainer) -> bool:
        """Say whether another epoch takes long besides its step: to validate, or for loaders."""
        made = self._made_ready if vars(trainer)["reload_dataloaders_every_n_epochs"] else 0.0
        return max([made, *self.validations]) > SLOW

    def _is_worth(self, seconds: float) -> bool:
        """Say whether a first one is to be followed by another."""
        return seconds > (0.0 if self._made_ready <= SLOW else SLOW)

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Start the clock."""
        self.validation_batches = _number_of(trainer.val_dataloaders)
        self._started = timer()

    def on_validation_end(self, *_: object, **__: object) -> None:
        """Note its seconds; a step may follow in the same epoch."""
        self.validations.append(timer() - self._started)
        self.restart()

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
