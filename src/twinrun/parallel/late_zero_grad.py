"""Hooks of `zero_grad`, called when all micro-batches of a mini-batch have been computed.

Lightning zeroes gradients behind the forward pass of a batch and ahead of its backward pass: of the
first micro-batch, when others are still to be computed. A target network that `on_before_zero_grad`
moves and the loss reads would be another one for them. So the last step's gradients are put aside
with the first micro-batch, and the hooks find them there with the last one.
"""

from collections.abc import Callable, Sequence

import pytorch_lightning as pl
import torch
from pytorch_lightning.utilities.model_helpers import is_overridden

from twinrun.parallel.micro_batches import MicroBatches


class LateZeroGrad:
    """Has the gradients of a training zeroed with the last micro-batch where hooks look on."""

    def __init__(self, made: Sequence[MicroBatches]) -> None:
        self._made = made
        self._before: dict[torch.Tensor, torch.Tensor] = {}

    def watch(self, module: pl.LightningModule) -> None:
        """Exchange what the loop of a module's Trainer makes to zero gradients.

        Only where hooks of the module's or of callbacks look on, since the gradients of two steps
        are held.
        """
        trainer = module.trainer
        if not (
            is_overridden("on_before_zero_grad", module)
            or is_overridden("optimizer_zero_grad", module)
            or any(
                is_overridden("on_before_zero_grad", callback, pl.Callback)
                for callback in vars(trainer)["callbacks"]
            )
        ):
            return
        loop = trainer.fit_loop.epoch_loop.automatic_optimization
        plain = type(loop)._make_zero_grad_fn

        def make(batch_idx: int, optimizer: torch.optim.Optimizer) -> Callable[[], None] | None:
            part = self._made[0].part
            if (batch_idx - part) % self._made[0].number:
                # Lightning has resumed between two of them, and counts from another one.
                return plain(loop, batch_idx, optimizer)
            # By the number of the first one Lightning tells whether a step begins.
            zero = plain(loop, batch_idx - part, optimizer)
            if zero is None:
                return None
            if part == 0:
                return lambda: self._put_aside(module, optimizer)
            return (lambda: self._zero(zero, module, optimizer)) if self._made[0].is_last else None

        vars(loop)["_make_zero_grad_fn"] = make

    def _put_aside(self, module: pl.LightningModule, optimizer: torch.optim.Optimizer) -> None:
        self._before = _taken(module, optimizer)

    def _zero(
        self, zero: Callable[[], None], module: pl.LightningModule, optimizer: torch.optim.Optimizer
    ) -> None:
        """Zero the last step's gradients; those of the micro-batches so far come on top."""
        summed = _taken(module, optimizer)
        for parameter, gradient in self._before.items():
            parameter.grad = gradient
        self._before = {}
        zero()
        for parameter, gradient in summed.items():
            if not parameter.requires_grad:  # a hook has frozen it ahead of the backward pass
                continue
            # A hook may keep the last step's, or a part of them.
            if parameter.grad is None:
                parameter.grad = gradient
            else:
                parameter.grad.add_(gradient)


def _taken(
    module: pl.LightningModule, optimizer: torch.optim.Optimizer
) -> dict[torch.Tensor, torch.Tensor]:
    """Take the gradients away from all parameters, and return them."""
    parameters: set[torch.Tensor] = {*module.parameters()}
    for group in optimizer.param_groups:
        parameters.update(group["params"])
    found = {each: each.grad for each in parameters if each.grad is not None}
    for parameter in found:
        parameter.grad = None
    return found
