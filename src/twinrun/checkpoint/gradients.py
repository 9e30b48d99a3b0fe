"""Gradients that live from one batch to the next: no checkpoint of Lightning's holds them.

A step that comes later may add to them, and a hook or an optimizer read them before they are
zeroed. A validation zeroes them, so that many trainings have none where an epoch starts.
"""

from collections.abc import Iterator, Mapping

import torch

from twinrun.checkpoint.own_memory import is_by_itself


def gradients_of(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return the gradients of the parameters, dense and sparse ones, by name.

    They are written at once, before any step: those that lie on the CPU by themselves are no
    copies. Of a part of something larger torch would write all of it.
    """
    return {
        name: grad.cpu() if is_by_itself(grad) else grad.to("cpu", copy=True)
        for name, grad in _gradients(module)
    }


def _gradients(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    for name, parameter in module.named_parameters():
        if parameter.grad is not None:
            yield name, parameter.grad.detach()


def put_back_gradients(module: torch.nn.Module, saved: Mapping[str, torch.Tensor]) -> None:
    """Have the parameters have these gradients, and all others none."""
    for name, parameter in module.named_parameters():
        found = saved.get(name)
        parameter.grad = None if found is None else found.to(parameter.device)
