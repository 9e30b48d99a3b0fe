"""Fingerprints of what a training moves and neither its module nor Lightning's optimizers hold."""

from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

import torch

from twinrun.held_elsewhere import Alive, held_elsewhere, was_there
from twinrun.run_records import NotHeld
from twinrun.trace.fingerprints import fingerprint

Began: TypeAlias = tuple[Alive, Mapping[int, str]]
"""What was there where the training began, and its fingerprints, by `id`."""

_UNSEEN = ""  # in place of a fingerprint


def prints_not_held(
    module: torch.nn.Module,
    optimizers: Sequence[torch.optim.Optimizer],
    began: Began | None = None,
) -> dict[str, NotHeld]:
    """Fingerprint what is `held_elsewhere`, by name.

    What may be there by chance is named, and has no fingerprints.
    """
    alive, before = began or (None, {})
    found = held_elsewhere(module, optimizers, alive)
    prints = {
        name: NotHeld(
            prints=sorted(map(_print_of, tensors)),
            is_reached=held is found.reached,
            is_still=all(_is_still(tensor, alive, before) for tensor in tensors),
        )
        for held in (found.in_memory, found.reached)
        for name, tensors in held.items()
    }
    late = {
        f"{name}, made in the training": NotHeld(prints=[_UNSEEN], is_reached=False, is_still=False)
        for name in found.made_later
    }
    return dict(sorted((prints | late).items()))


def began_with(alive: Alive, known: Collection[int]) -> Began:
    """Fingerprint what is there where a training begins.

    Args:
        alive: it.
        known: the `id` of what is compared anyway.
    """
    held = {key: found() for key, found in alive.items() if key not in known}
    return alive, {key: _print_of(tensor) for key, tensor in held.items() if tensor is not None}


def _is_still(tensor: torch.Tensor, alive: Alive | None, before: Mapping[int, str]) -> bool:
    if alive is None or not was_there(tensor, alive):
        return False
    return before.get(id(tensor), _UNSEEN) == _print_of(tensor) != _UNSEEN


def _print_of(tensor: torch.Tensor) -> str:
    try:
        return f"{fingerprint(tensor):016x}"
    except Exception:  # of a subclass, which may refuse anything: no reason to lose the training
        return _UNSEEN
