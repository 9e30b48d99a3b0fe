"""Calls behind all hooks that come before an optimizer's update, and behind one by hand."""

from collections.abc import Callable

import pytorch_lightning as pl
import torch
from lightning_fabric.utilities.types import Steppable
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.hooks import RemovableHandle


class Updates:
    """Calls back until it is removed."""

    def __init__(
        self,
        trainer: pl.Trainer,
        *,
        before: Callable[[Steppable], None],
        after: Callable[[torch.optim.Optimizer], None],
    ) -> None:
        """Begin.

        Args:
            trainer: of the training, which has begun.
            before: called where Lightning has called the hooks before an update, of which each may
                set a rate, and has clipped.
            after: called behind an update of a module that optimizes manually.
        """
        self.is_announced = False
        """Whether `before` follows."""
        # The module's hook comes after those of callbacks; Lightning has none behind it.
        self._precision = vars(trainer.precision_plugin)
        after_closure = trainer.precision_plugin._after_closure

        def called(module: pl.LightningModule, optimizer: Steppable) -> None:
            self.is_announced = True
            try:
                after_closure(module, optimizer)
            finally:
                self.is_announced = False
            before(optimizer)

        self._precision["_after_closure"] = called
        self._hook: RemovableHandle | None = None
        # A module that optimizes manually may have torch's own optimizer step, around Lightning's
        # hooks. In automatic optimization a hook would have compiled steps done in parts.
        if not trainer.lightning_module.automatic_optimization:
            self._hook = register_optimizer_step_post_hook(lambda optimizer, *_: after(optimizer))

    def remove(self) -> None:
        """Call back no more."""
        self._precision.pop("_after_closure", None)
        if self._hook is not None:
            self._hook.remove()
