"""Fingerprints of what a training holds: its module, metrics, optimizers and schedules, by name."""

from collections.abc import Sequence
from contextlib import suppress

import pytorch_lightning as pl
import torch
from torchmetrics import MetricCollection

from twinrun.hidden_content import saves_itself
from twinrun.set_attributes import own_of_module, set_by
from twinrun.trace.fingerprints import fingerprint_tree, settings_of
from twinrun.values_inside import values_in


def in_module(module: pl.LightningModule) -> list[tuple[str, object]]:
    """List the parameters and buffers of a module, and what its parts hold, by path."""
    tensors = (*module.named_parameters(), *module.named_buffers())
    return [*tensors, *objects_of(module, torch.nn.Module)]


def values_of(module: pl.LightningModule) -> dict[str, object]:
    """Return what a module and its parts hold, by path."""
    return {
        name: value for path, held in in_module(module) for name, value in values_in(held, path)
    }


def objects_of(module: pl.LightningModule, kind: type) -> list[tuple[str, object]]:
    """List what the parts of a kind hold in attributes of their own, by its path."""
    found: list[tuple[str, object]] = []
    for path, part in module.named_modules():
        of_part = own_of_module(part).items() if isinstance(part, kind) else ()
        # By what it notes of itself a collection shares states, which its metrics are asked for.
        noted = set_by(type(part), ("torchmetrics.",)) if isinstance(part, MetricCollection) else ()
        named = [(name, item) for name, item in of_part if name not in noted]
        found += [(f"{path}.{name}" if path else name, item) for name, item in named]
    return found


def prints(objects: Sequence[tuple[str, object]]) -> dict[str, int]:
    """Fingerprint what lies in objects, by path; nothing of those that refuse to be looked at."""
    found: dict[str, int] = {}
    for path, item in objects:
        with suppress(Exception):
            found |= {name: _print(value) for name, value in values_in(item, path)}
    return found


def _print(value: object) -> int:
    # A schedule that a module keeps, say.
    return fingerprint_tree(value.state_dict() if saves_itself(value) else value)


def of_updates(trainer: pl.Trainer) -> dict[str, list[object]]:
    """Find the settings of optimizers and the states of schedules: all of one name together."""
    found: dict[str, list[object]] = {}
    for optimizer in trainer.optimizers:
        for group in settings_of(optimizer):
            for name, value in group.items():
                of_name = found.setdefault(f"the setting {name} of {type(optimizer).__name__}", [])
                of_name.append(value)
    for config in trainer.lr_scheduler_configs:
        with suppress(Exception):  # of a user's own
            state = config.scheduler.state_dict()
            found.setdefault(f"the schedule {type(config.scheduler).__name__}", []).append(state)
    return found
