"""One weight changed by one unit in the last place before the first step.

The smallest change that a training can begin with: what becomes of it is what rounding alone can do
to a result. Which weight it is follows from a number, by a generator of its own, so that nothing
that the training draws is another.
"""

from collections.abc import Mapping
from typing import Any

import pytorch_lightning as pl
import torch

from twinrun.parameters import parameters_of
from twinrun.run_records import PerturbedWeight

MOST_DRAWS = 1000  # of weights that are 0, which have no last place
# By bytes: the next integer is the next number away from 0, in every format.
BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


class Perturbation(pl.Callback):
    """Changes one weight before the first step; of a resumed training it did so before."""

    def __init__(self, number: int) -> None:
        self.found: PerturbedWeight | None = None
        self._number = number
        self._is_done = False

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Change the weight, once all are made, in their type, and as the module begins with them.

        It may write them in its own `on_train_start`, which is called after all callbacks'.
        """
        if not self._is_done:
            self.found = perturb(parameters_of(pl_module, trainer.optimizers), self._number)
            self._is_done = True

    def state_dict(self) -> dict[str, Any]:
        """Return what was changed, for a checkpoint."""
        return {"found": self.found, "is_done": self._is_done}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take what was changed from a checkpoint."""
        self.found, self._is_done = state_dict["found"], state_dict["is_done"]


def perturb(
    parameters: Mapping[str, torch.nn.Parameter | torch.Tensor], number: int
) -> PerturbedWeight | None:
    """Change one weight by one unit in the last place, away from 0.

    Each trained weight is as probable as any other, but for those that smaller numbers take: a
    second training with the same change would tell nothing new. A weight that is 0 is not taken:
    the number next to it is so small that every sum loses it.

    Args:
        parameters: by name.
        number: from 1; seeds the generator that chooses.

    Returns:
        What was changed; None where there is no such weight, or smaller numbers take them all.
    """
    trained = {
        name: p
        for name, p in parameters.items()
        if p.requires_grad and p.is_floating_point() and p.element_size() in BITS
    }
    if not sum(p.numel() for p in trained.values()):
        return None
    taken: set[int] = set()
    for each in range(1, number):
        if (drawn := _drawn(trained, each, taken)) is None:
            return None
        taken.add(drawn[0])
    if (drawn := _drawn(trained, number, taken)) is None:
        return None
    _, name, index = drawn
    before = trained[name].detach()[index].clone()
    after = (before.view(BITS[before.element_size()]) + 1).view(before.dtype)
    with torch.no_grad():
        trained[name][index] = after
    return {
        "parameter": name,
        "index": list(index),
        "before": before.item(),
        "after": after.item(),
    }


def _drawn(
    trained: Mapping[str, torch.Tensor], number: int, taken: set[int]
) -> tuple[int, str, tuple[int, ...]] | None:
    """Draw the position of a weight among all that is neither 0 nor taken, its name and index."""
    sizes = torch.tensor([p.numel() for p in trained.values()], dtype=torch.int64)
    ends = sizes.cumsum(0)
    generator = torch.Generator("cpu").manual_seed(number)
    for _ in range(MOST_DRAWS):
        position = torch.randint(int(ends[-1]), (1,), generator=generator, device="cpu")
        if int(position) in taken:
            continue
        which = int(torch.searchsorted(ends, position, right=True))
        name, parameter = list(trained.items())[which]
        flat = position - (ends[which] - sizes[which])
        index = tuple(int(i) for i in torch.unravel_index(flat, parameter.shape))
        before = parameter.detach()[index]
        if before != 0 and before.isfinite():
            return int(position), name, index
    return None
