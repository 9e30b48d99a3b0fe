"""What a training really had, and where that is not what its variant says.

A data module may ignore `data_workers`, a module may set torch's threads, a shell may fix the hash
seed. A manifest that repeats the settings would not notice.
"""

import os
from collections.abc import Mapping
from operator import attrgetter

import pytorch_lightning as pl
import torch
from torch.utils._pytree import tree_leaves

from twinrun.config.definitions import Variant
from twinrun.process.environment import Actual, Switches
from twinrun.process.imported_code import ImportedFile, imported_files
from twinrun.process.machine import ARITHMETIC, NO_ARITHMETIC
from twinrun.run_records import Departure


class WhatHappened(pl.Callback):
    """Looks at loaders, Trainer, torch and environment when the training starts and ends."""

    def __init__(self, variant: Variant) -> None:
        self.actual: Actual | None = None
        """None of a training that did not start."""
        self.departures: list[Departure] = []
        """Where the training departs from its variant."""
        self.code: dict[str, ImportedFile] = {}
        """The user's modules, as they were when the training had imported them."""
        self._variant = variant
        # A module may set threads or precision in its constructor: looked at again at the start.
        self._before = _switches()

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Read what the training starts with."""
        self.look_at_code()
        workers = [_workers_of(loader) for loader in tree_leaves(trainer.train_dataloader)]
        switches = _switches()
        actual: Actual = {
            **switches,
            "accelerator": trainer.strategy.root_device.type,
            "devices": trainer.world_size,
            "precision": str(trainer.precision),
            "accumulate": trainer.accumulate_grad_batches,
            "data_workers": [number for number in workers if number is not None],
            "persistent_workers": any(
                _attribute(loader, "persistent_workers")
                for loader in tree_leaves(trainer.train_dataloader)
            ),
            "validation": False,
            "fill_uninitialized_memory": torch.are_deterministic_algorithms_enabled()
            and attrgetter("utils.deterministic.fill_uninitialized_memory")(torch),
            "variables": {
                name: value
                for name, value in sorted(os.environ.items())
                if name.startswith(ARITHMETIC) and name not in NO_ARITHMETIC
            },
        }
        self.actual, self._before = actual, switches
        self.departures = [*_departures(dict(actual), self._variant), *_of_variables(self._variant)]

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Find what the first epoch has imported; later ones hardly import more."""
        if trainer.current_epoch == 0:
            self.look_at_code()

    def look_at_code(self) -> None:
        """Hash what has been imported since the last look, before somebody edits it."""
        self.code = {**imported_files(), **self.code}

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Note that there is a validation: what a variant asks for, no module need have."""
        if self.actual is not None:
            self.actual["validation"] = True

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Say what the module has changed under way."""
        before, after = dict(self._before), dict(_switches())
        self.departures += [
            _departure(name, f"became {after[name]} in the training, from {before[name]}")
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
    return _attribute(loader, "num_workers")


def _attribute(loader: object, name: str) -> int | None:
    return getattr(getattr(loader, "_loader", loader), name, None)


def _departure(setting: str, what: str) -> Departure:
    return {"setting": setting, "sentence": f"{setting} {what}"}


def _departures(actual: Mapping[str, object], variant: Variant) -> list[Departure]:
    """Return each setting of the variant that the training does not have."""
    asked = {
        "threads": variant.threads,
        "deterministic": variant.deterministic,
        "precision": variant.precision,
        "devices": variant.devices,
        "accumulate": variant.accumulate,
    }
    found = [
        _departure(name, f"is {actual[name]}, where the variant says {value}")
        for name, value in asked.items()
        if actual[name] != value
    ]
    workers = actual["data_workers"]
    others = [n for n in workers if n != variant.data_workers] if isinstance(workers, list) else []
    if others:
        is_and_asked = f"is {others[0]}, where the variant says {variant.data_workers}"
        found.append(_departure("data_workers", f"{is_and_asked}: the data module decides it"))
    kept = actual["persistent_workers"]
    if kept != variant.persistent_workers:
        is_and_asked = f"is {kept}, where the variant says {variant.persistent_workers}"
        found.append(
            _departure("persistent_workers", f"{is_and_asked}: the data module decides it")
        )
    # torch names a GPU by its maker: cuda, mps, xpu.
    if (actual["accelerator"] == "cpu") != (variant.accelerator == "cpu"):
        is_and_asked = f"is {actual['accelerator']}, where the variant says {variant.accelerator}"
        found.append(_departure("accelerator", is_and_asked))
    return found


def _of_variables(variant: Variant) -> list[Departure]:
    """Return the variant's environment variables that the module has changed."""
    return [
        _departure(
            "environment", f"has {name}={os.environ.get(name)}, where the variant says {value}"
        )
        for name, value in variant.environment.items()
        if os.environ.get(name) != value
    ]
