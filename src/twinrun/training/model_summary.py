"""The summary that a Trainer makes of its module before the first step, without a word.

Of a module with an `example_input_array` it calls `forward`, which may draw random numbers, or
count: without it the training would be another one.
"""

import pytorch_lightning as pl


class SilentSummary(pl.callbacks.ModelSummary):
    """Does what Lightning's summary does to the module, and prints nothing."""

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Summarize a module that has an example, where no other summary does."""
        callbacks = vars(trainer)["callbacks"]
        others = [c for c in callbacks if isinstance(c, pl.callbacks.ModelSummary) and c != self]
        if pl_module.example_input_array is not None and not others:
            super().on_fit_start(trainer, pl_module)

    @staticmethod
    def summarize(*_: object, **__: object) -> None:
        """Print nothing."""
