"""Gradients that live from one batch to the next: no checkpoint of Lightning's holds them.

A step that comes later may add to them, and a hook or an optimizer read them before they are
zeroed. A validation zeroes them, so that many trainings have none where an epoch starts.
"""

from collections.abc import Mapping

import torch


def gradients_of(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return copies of the gradients of the parameters, dense and sparse ones, by name.

    On the CPU: a GPU may have no room for as much again.
    """
    return {
        name: parameter.grad.detach().to("cpu", copy=True)
        for name, parameter in module.named_parameters()
        if parameter.grad is not None
    }


def put_back_gradients(module: torch.nn.Module, saved: Mapping[str, torch.Tensor]) -> None:
    """Have the parameters have these gradients, and all others none."""
    for name, parameter in module.named_parameters():
        found = saved.get(name)
        parameter.grad = None if found is None else found.to(parameter.device)
