"""What the Trainer is given where it asks for the training loader, and nobody else.

Modules and callbacks ask for it too, of the data module or of the Trainer: for its length, for
statistics, for prototypes, to evaluate on it. Data modules hand one loader to training and to
validation. All of them get the loader that the data module makes, as in a plain training; the
Trainer alone trains on shards or micro-batches of it.
"""

import functools
from collections.abc import Callable, Iterable
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.utilities.combined_loader import CombinedLoader


class _Trained(CombinedLoader):
    """Gives what is trained on; who looks at the Trainer's loader sees the data module's own."""

    def __init__(self, trained: Iterable[object], own: object) -> None:
        super().__init__(trained, "max_size_cycle")
        self._own = own

    @property
    def iterables(self) -> object:
        return self._own


def exchange_for_trainer(
    data: pl.LightningDataModule,
    exchange: Callable[[object, pl.Trainer], Iterable[object]],
    *,
    shows_own: bool = True,
) -> None:
    """Have the Trainer, where it asks for the training loader, get another one made of it.

    Args:
        data: the data module, which stays as it is but for its `setup`.
        exchange: returns what is trained on, given the loader and the Trainer, whose limits it may
            set for it.
        shows_own: whether `trainer.train_dataloader` is the data module's own too.
    """
    setup = data.setup

    # The first of its hooks that a Trainer calls of every data module, and no loader is asked
    # for before.
    @functools.wraps(setup)
    def set_up(*arguments: Any, **options: Any) -> None:
        if data.trainer is not None:
            _exchange(data.trainer)
        setup(*arguments, **options)

    def _exchange(trainer: pl.Trainer) -> None:
        loop = trainer.fit_loop
        source = loop._data_source
        # The class's own, since each stage sets up.
        plain = functools.partial(type(source).dataloader, source)
        set_up_data = functools.partial(type(loop).setup_data, loop)

        def dataloader() -> object:
            own = plain()
            trained = exchange(own, trainer)
            return _Trained(trained, own) if shows_own else trained

        def setup_data() -> None:
            told = trainer.limit_train_batches, trainer.val_check_interval
            set_up_data()
            # The loop has taken from these what it needs, and others find what was told.
            trainer.limit_train_batches, trainer.val_check_interval = told

        source.dataloader, loop.setup_data = dataloader, setup_data

    data.setup = set_up
