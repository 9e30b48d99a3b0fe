"""Fingerprints of what a training moves and neither its module nor Lightning's optimizers hold."""

from collections.abc import Sequence

import torch

from twinrun.held_elsewhere import Alive, held_elsewhere
from twinrun.run_records import NotHeld
from twinrun.trace.fingerprints import fingerprint

_UNSEEN = ""  # in place of a fingerprint


def prints_not_held(
    module: torch.nn.Module,
    optimizers: Sequence[torch.optim.Optimizer],
    alive: Alive | None = None,
) -> dict[str, NotHeld]:
    """Fingerprint what is `held_elsewhere`, by name.

    What may be there by chance is named, and has no fingerprints.
    """
    found = held_elsewhere(module, optimizers, alive)
    prints = {
        name: NotHeld(prints=sorted(map(_print_of, tensors)), is_reached=held is found.reached)
        for held in (found.in_memory, found.reached)
        for name, tensors in held.items()
    }
    late = {
        f"{name}, made in the training": NotHeld(prints=[_UNSEEN], is_reached=False)
        for name in found.made_later
    }
    return dict(sorted((prints | late).items()))


def _print_of(tensor: torch.Tensor) -> str:
    try:
        return f"{fingerprint(tensor):016x}"
    except Exception:  # of a subclass, which may refuse anything: no reason to lose the training
        return _UNSEEN
