"""A loss that is weighed by its shard ahead of its backward pass, and not its gradients behind it.

So what is not linear in gradients (a hook of a layer, a backward pass of a user's own operation)
sees those of the mini-batch.
"""

from typing import Any

import pytorch_lightning as pl
import torch

from twinrun.parallel.workers import Workers


class WeighedLoss:
    """Weighs the losses that Lightning hands to a module's `backward`, where it can."""

    def __init__(self, workers: Workers) -> None:
        self._is_weighed = False
        self._workers = workers

    @property
    def left(self) -> float:
        """The weight that the gradients of the backward pass under way still need."""
        return 1.0 if self._is_weighed else self._workers.weight

    def watch(self, module: pl.LightningModule) -> None:
        """Weigh losses, unless the module's own `backward` may do more with one."""
        plain = module.backward
        if getattr(plain, "__func__", None) is not pl.LightningModule.backward:
            return

        def backward(loss: torch.Tensor, *arguments: Any, **options: Any) -> None:
            # A weight of 16 bits would be off by as much in all gradients. What is there already is
            # the same at all workers, and weights of the sums of both leave it as it is.
            is_exact = torch.finfo(loss.dtype).bits >= 32
            self._is_weighed = is_exact and all(p.grad is None for p in module.parameters())
            plain(loss * self._workers.weight if self._is_weighed else loss, *arguments, **options)
            self._is_weighed = False

        module.backward = backward
