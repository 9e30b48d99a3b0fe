"""What a recorded step has of a module without asking again: layers, memory, modes and hooks.

A replay reads and writes the memory that its recording saw, and does what the layers did that were
there. Where a buffer is assigned anew, a layer replaced or set to evaluate, a parameter's `data` or
an optimizer's state exchanged, it would go on as before; so these are looked at before each replay.
"""

from collections.abc import Iterable
from itertools import chain
from typing import Any

import torch
from torch.nn.modules import module as torch_module

_HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
_HOOKS_OF_ALL = (
    torch_module._global_forward_pre_hooks,
    torch_module._global_forward_hooks,
    torch_module._global_backward_pre_hooks,
    torch_module._global_backward_hooks,
)


class RecordedParts:
    """Counts how often the parts of a module and its optimizer have become others."""

    def __init__(self, module: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """Look at nothing yet."""
        self._module, self._optimizer = module, optimizer
        self._parts: list[torch.nn.Module] = []
        self._before: list[object] = []
        # Which keeps them, so that no other object gets their number.
        self._held: list[object] = []
        self._changes = 0

    def changes(self) -> int:
        """Return how often anything was another than when this was asked before."""
        now, held = self._look()
        if now != self._before:
            self._parts = [*self._module.modules()]
            self._before, self._held = self._look()
            self._changes += 1
        else:
            self._held = held
        return self._changes

    def _look(self) -> tuple[list[object], list[object]]:
        """Return numbers that say what is there, and the objects whose numbers they are."""
        held: list[object] = []
        tensors: list[Any] = []
        kinds: list[object] = [tuple(chain.from_iterable(_HOOKS_OF_ALL))]
        for part in self._parts:
            # By what is there: a layer of a library's may lack any of it.
            own = part.__dict__
            kinds += (type(part), own.get("training"))
            for name in _HOOKS:
                if hooks := own.get(name):
                    kinds.append((name, *hooks))
            if layers := own.get("_modules"):
                held += layers.values()
            if "forward" in own:
                held.append(own["forward"])
            if found := own.get("_parameters"):
                tensors += found.values()
            if found := own.get("_buffers"):
                tensors += found.values()
        for state in self._optimizer.state.values():
            held += state.values()
        held += tensors
        return [*kinds, *map(id, held), *_addresses(tensors)], held


def _addresses(tensors: Iterable[Any]) -> list[int]:
    """Return where in memory tensors lie."""
    try:
        return [0 if tensor is None else tensor.data_ptr() for tensor in tensors]
    except Exception:  # of one without memory of its own
        return []
