"""What a step in one piece reads before it begins, and `training_step` may itself change.

A plain update comes behind `training_step` and goes by what that has set: rates, what is trained,
hooks. In one piece the update is part of the graph, and was read from the optimizer before. What
changes from the first steps on, the proof refuses; what changes at a later one is seen here.
"""

import torch

from twinrun.config.definitions import Variant
from twinrun.errors import TwinrunError

Settings = list[tuple[dict[str, object], list[tuple[int, bool, int]]]]
# `params` are looked at one by one; torch's tracer itself sets `capturable` in what it traces.
NO_SETTINGS = ("params", "capturable")


def settings_of(optimizer: torch.optim.Optimizer) -> Settings:
    """Return what an update rests on: each group's settings, tensors and state."""
    state = optimizer.state
    return [
        (
            {
                # The count of writes to a tensor: its value would have to be waited for.
                key: (id(value), value._version) if isinstance(value, torch.Tensor) else value
                for key, value in group.items()
                if key not in NO_SETTINGS
            },
            [(id(p), p.requires_grad, id(state.get(p))) for p in group["params"]],
        )
        for group in optimizer.param_groups
    ]


def change_of(before: Settings, optimizer: torch.optim.Optimizer) -> str | None:
    """Name what is no longer as it was."""
    now = settings_of(optimizer)
    if now == before:
        return None
    for (options, _), (found, _) in zip(before, now, strict=False):
        if keys := [key for key in found if found[key] != options.get(key)]:
            return f"a change of {', '.join(keys)} of {type(optimizer).__name__}"
    return "a change of what is trained, or of the optimizer's state"


def too_late(what: str, variant: Variant) -> TwinrunError:
    """Return the refusal to go on behind a step whose update was done without something."""
    key = "compile: step" if variant.compile == "step" else "cuda_graph: true"
    return TwinrunError(
        f"{key}: training_step itself brings {what}, which a step in one piece reads before; do it "
        f"in on_train_batch_start, or say compile: module"
    )
