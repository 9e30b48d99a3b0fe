"""What a training really had, and where that is not what its variant says.

A data module may ignore `data_workers`, a module may set torch's threads, a shell may fix the hash
seed. A manifest that repeats the settings would not notice.
"""

import os
from collections.abc import Mapping

import pytorch_lightning as pl
import torch
from torch.utils._pytree import tree_leaves

from twinrun.config.definitions import Variant
from twinrun.process.environment import Actual, Switches
from twinrun.process.machine import ARITHMETIC, PLACES


class WhatHappened(pl.Callback):
    """Looks at loaders, Trainer, torch and environment when the training starts and ends."""

    def __init__(self, variant: Variant) -> None:
        self.actual: Actual | None = None
        """None of a training that did not start."""
        self.departures: list[str] = []
        """Where the training departs from its variant, a sentence each."""
        self._variant = variant
        # A module may set threads or precision in its constructor: looked at again at the start.
        self._before = _switches()

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Read what the training starts with."""
        workers = [_workers_of(loader) for loader in tree_leaves(trainer.train_dataloader)]
        switches = _switches()
        actual: Actual = {
            **switches,
            "accelerator": trainer.strategy.root_device.type,
            "devices": trainer.world_size,
            "precision": str(trainer.precision),
            "accumulate": trainer.accumulate_grad_batches,
            "data_workers": [number for number in workers if number is not None],
            "variables": {
                name: value
                for name, value in sorted(os.environ.items())
                if name.startswith(ARITHMETIC) and name not in PLACES
            },
        }
        self.actual, self._before = actual, switches
        self.departures = _departures(dict(actual), self._variant)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Say what the module has changed under way."""
        before, after = dict(self._before), dict(_switches())
        self.departures += [
            f"{name} became {after[name]} in the training, from {before[name]}"
            for name in before
            if after[name] != before[name]
        ]


def _switches() -> Switches:
    return {
        "threads": torch.get_num_threads(),
        "interop_threads": torch.get_num_interop_threads(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "matmul_precision": torch.get_float32_matmul_precision(),
    }


def _workers_of(loader: object) -> int | None:
    """Return the processes of a loader; shards and micro-batches wrap the module's own."""
    inner = getattr(loader, "_loader", loader)
    return getattr(inner, "num_workers", None)


def _departures(actual: Mapping[str, object], variant: Variant) -> list[str]:
    """Name each setting of the variant that the training does not have."""
    asked = {
        "threads": variant.threads,
        "deterministic": variant.deterministic,
        "precision": variant.precision,
        "devices": variant.devices,
        "accumulate": variant.accumulate,
    }
    found = [
        f"{name} is {actual[name]}, where the variant says {value}"
        for name, value in asked.items()
        if actual[name] != value
    ]
    workers = actual["data_workers"]
    others = [n for n in workers if n != variant.data_workers] if isinstance(workers, list) else []
    if others:
        found.append(
            f"data_workers is {others[0]}, where the variant says {variant.data_workers}: the data "
            f"module decides it"
        )
    return found
