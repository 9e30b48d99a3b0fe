"""A module that writes no checkpoints of its own, where nobody would read them."""

from collections.abc import Callable, Sequence

import pytorch_lightning as pl


def without_checkpoints(
    module: pl.LightningModule,
    *,
    unless: Callable[[pl.callbacks.Checkpoint], bool] = lambda callback: False,
) -> list[pl.Callback]:
    """Have a module bring no callback that writes checkpoints, wherever it wants them.

    Args:
        module: that is asked for its callbacks later.
        unless: says of such a callback, each time the module is asked, whether it may stay.

    Returns:
        Those that it would have brought, once it was asked.
    """
    original = module.configure_callbacks
    left_out: list[pl.Callback] = []

    def configure_callbacks() -> list[pl.Callback]:
        found = original()
        callbacks = list(found) if isinstance(found, Sequence) else [found]
        writing = [c for c in callbacks if isinstance(c, pl.callbacks.Checkpoint)]
        left_out[:] = [c for c in writing if not unless(c)]
        return [c for c in callbacks if c not in left_out]

    module.configure_callbacks = configure_callbacks
    return left_out
