"""Where Lightning's loops call nobody: just before an epoch's batches are asked for, and after it.

The iterator of a training's first epoch is made before any hook of the training; those of later
epochs behind all hooks that begin one. What draws there decides the order of the epoch.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytorch_lightning as pl


class BesideLightning:
    """Has functions called there, in one Trainer, until it is removed."""

    def __init__(
        self,
        trainer: pl.Trainer,
        *,
        around_loaders: Callable[[], AbstractContextManager[None]],
        before_iterator: Callable[[], None],
        around_validation: Callable[[Callable[[], None], Any], None],
        after_iterator: Callable[[], None],
        after_start: Callable[[Any], None],
    ) -> None:
        """Take the places.

        Args:
            trainer: of the training.
            around_loaders: in its context training loaders are made.
            before_iterator: called just before the iterator of an epoch is made.
            around_validation: is given what makes those of a validation, and Lightning's loop.
            after_iterator: called just after the one is made that new loaders begin with.
            after_start: called with Lightning's fetcher before the first batch is fetched from it.
        """
        fit, epoch = trainer.fit_loop, trainer.fit_loop.epoch_loop
        self._fit, self._epoch = fit, epoch
        load, start = fit._load_combined_loader_states, epoch.on_run_start
        set_up, self._validation = fit.setup_data, epoch.val_loop
        reset = epoch.val_loop.reset

        def load_states() -> None:
            load()
            before_iterator()

        def setup_data() -> None:
            is_made = fit._combined_loader is None or fit._should_reload_train_dl
            with around_loaders() if is_made else nullcontext():
                set_up()
            if is_made:
                after_iterator()

        def on_run_start(data_fetcher: Any) -> None:
            if trainer.current_epoch > 0:
                before_iterator()
            start(data_fetcher)
            after_start(data_fetcher)

        def begin_validation() -> None:
            around_validation(reset, epoch.val_loop)

        # Attributes of these objects, which Python finds before the methods of their class.
        vars(fit)["_load_combined_loader_states"] = load_states
        vars(fit)["setup_data"] = setup_data
        vars(epoch)["on_run_start"] = on_run_start
        vars(epoch.val_loop)["reset"] = begin_validation

    def remove(self) -> None:
        """Leave Lightning's loops as they were."""
        for name in ("_load_combined_loader_states", "setup_data"):
            vars(self._fit).pop(name, None)
        vars(self._epoch).pop("on_run_start", None)
        vars(self._validation).pop("reset", None)
