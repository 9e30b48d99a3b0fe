"""The summary that a Trainer makes of its module before the first step, without a word.

Of a module with an `example_input_array` it calls `forward`, which may draw random numbers, or
count: without it the training would be another one.
"""

from collections.abc import Sequence

import pytorch_lightning as pl
from pytorch_lightning.trainer.connectors import callback_connector

from twinrun.config.trainer_arguments import TrainerArguments


class SilentSummary(pl.callbacks.ModelSummary):
    """Does what the summary does to the module that a Trainer has by default, and prints nothing.

    For a Trainer that is given no other one.
    """

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Summarize a module that has an example, unless it brings what replaces the default."""
        callbacks = vars(trainer)["callbacks"]
        replaces = any(isinstance(c, _default()) for c in callbacks if c is not self)
        if pl_module.example_input_array is not None and not replaces:
            super().on_fit_start(trainer, pl_module)

    @staticmethod
    def summarize(*_: object, **__: object) -> None:
        """Print nothing."""


def default_summary(
    given: TrainerArguments, callbacks: Sequence[pl.Callback]
) -> list[SilentSummary]:
    """Return what stands for the summary that Lightning would add to a Trainer's callbacks."""
    has_own = any(isinstance(callback, pl.callbacks.ModelSummary) for callback in callbacks)
    return [SilentSummary()] if given.enable_model_summary and not has_own else []


def _default() -> type[pl.callbacks.ModelSummary]:
    """Return the class that Lightning takes, which a module's callback of this class replaces."""
    has_rich = callback_connector._RICH_AVAILABLE
    return callback_connector.RichModelSummary if has_rich else pl.callbacks.ModelSummary
