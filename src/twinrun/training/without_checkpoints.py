"""A module that writes no checkpoints of its own, where nobody would read them."""

from collections.abc import Sequence

import pytorch_lightning as pl


def without_checkpoints(module: pl.LightningModule) -> None:
    """Have a module bring no callback that writes checkpoints, wherever it wants them."""
    original = module.configure_callbacks

    def configure_callbacks() -> list[pl.Callback]:
        found = original()
        callbacks = list(found) if isinstance(found, Sequence) else [found]
        return [c for c in callbacks if not isinstance(c, pl.callbacks.Checkpoint)]

    module.configure_callbacks = configure_callbacks
