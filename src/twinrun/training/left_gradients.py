"""Gradients that a validation leaves, where the first step would begin with them.

Lightning clears gradients ahead of each backward pass, but not under manual optimization, nor where
the module has an `optimizer_zero_grad` of its own.
"""

from collections.abc import Iterator
from typing import Any

import pytorch_lightning as pl
import torch

from twinrun.trace.fingerprints import fingerprint_tree


class LeftGradients:
    """Sees which gradients the first step clears before an optimizer goes by them."""

    def __init__(self) -> None:
        """See nothing yet."""
        self._originals = torch.optim.Optimizer.zero_grad, torch.nn.Module.zero_grad
        self._cleared: dict[int, torch.Tensor] = {}  # kept, so that no other gets its number
        self._used: dict[int, torch.Tensor] = {}
        self._hooks: list[Any] = []
        self._is_asked = False

    def begin(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """See it from now on, ahead of the first step."""
        own = type(module).optimizer_zero_grad is not pl.LightningModule.optimizer_zero_grad
        self._is_asked = own or not module.automatic_optimization
        if not self._is_asked:
            return
        of_optimizer, of_module = self._originals

        def zero_grad(self_: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> None:
            self._clear(_of(self_))
            of_optimizer(self_, *args, **kwargs)

        def zero_grad_of_module(self_: torch.nn.Module, *args: Any, **kwargs: Any) -> None:
            self._clear(self_.parameters())
            of_module(self_, *args, **kwargs)

        torch.optim.Optimizer.zero_grad = zero_grad
        torch.nn.Module.zero_grad = zero_grad_of_module
        for optimizer in trainer.optimizers:
            # Behind it: gradients may be cleared in its closure.
            self._hooks.append(optimizer.register_step_post_hook(self._use))

    def end(self) -> None:
        """See no more."""
        torch.optim.Optimizer.zero_grad, torch.nn.Module.zero_grad = self._originals
        while self._hooks:
            self._hooks.pop().remove()

    def _clear(self, parameters: Iterator[torch.Tensor]) -> None:
        # What is cleared behind a step had been a part of it.
        self._cleared |= {id(p): p for p in parameters if id(p) not in self._used}

    def _use(self, optimizer: torch.optim.Optimizer, *_: object) -> None:
        self._used |= {id(p): p for p in _of(optimizer)}

    def of(self, module: pl.LightningModule) -> dict[str, int]:
        """Fingerprint the gradients that the first step had not cleared, by name.

        All of them, where no optimizer had stepped: it may have begun to add them up.
        """
        if not self._is_asked:
            return {}
        return {
            f"the gradient of {name}": fingerprint_tree(parameter.grad)
            for name, parameter in module.named_parameters()
            if id(parameter) not in self._cleared
            and (id(parameter) in self._used or not self._used)
        }


def _of(optimizer: torch.optim.Optimizer) -> Iterator[torch.Tensor]:
    for group in optimizer.param_groups:
        yield from group["params"]
