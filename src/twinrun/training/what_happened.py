"""What a training really had, and where that is not what its variant says.

A data module may ignore `data_workers`, a module may set torch's threads, a shell may fix the hash
seed. A manifest that repeats the settings would not notice.
"""

import os
from operator import attrgetter

import pytorch_lightning as pl
import torch
from pytorch_lightning.utilities.model_helpers import is_overridden
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils._pytree import tree_leaves

from twinrun.acceleration.in_effect import Layouts, departures_of
from twinrun.acceleration.optimizer_forms import OptimizerForms
from twinrun.acceleration.placement import lay_out_batch
from twinrun.batches import tensors
from twinrun.config.definitions import Variant
from twinrun.config.trainer_arguments import TrainerArguments
from twinrun.held_elsewhere import leaves_alive
from twinrun.parallel.micro_batches import MicroBatches
from twinrun.parallel.not_of_whole import of_parts
from twinrun.parameters import parameters_of
from twinrun.process.compiler_cache import cache_used
from twinrun.process.environment import Actual
from twinrun.process.imported_code import ImportedFile, imported_files
from twinrun.process.machine import ARITHMETIC, NO_ARITHMETIC
from twinrun.process.shared_files import look_at_data, look_at_held, names, under_way
from twinrun.run_records import Departure, NotHeld
from twinrun.trace.fingerprints import is_plain
from twinrun.training.named_data import named_files
from twinrun.training.not_held import Began, began_with, prints_not_held
from twinrun.training.own_generators import OwnGenerators
from twinrun.training.switched import (
    Switched,
    departure,
    departures_of_switches,
    other_than_asked,
    switches,
)
from twinrun.training.without_numbers import without_numbers
from twinrun.training.write_run import tensors_of


class WhatHappened(pl.Callback):
    """Looks at loaders, Trainer, torch and environment when the training starts and ends."""

    def __init__(self, variant: Variant, told: TrainerArguments) -> None:
        self.actual: Actual | None = None
        """None for a training that did not start."""
        self.departures: list[Departure] = []
        """Where the training departs from its variant."""
        self.code: dict[str, ImportedFile] = {}
        """The user's modules, as they were when the training had imported them."""
        self.whole_epochs = 0
        """So many epochs, from the first on, took every batch that their loader had."""
        self.without_numbers: set[str] = set()
        """Tensors that were so from the start: what was filled with NaN on purpose, say."""
        self._variant, self._told = variant, told
        # A module may set threads or precision in its constructor: looked at again at the start.
        self._before = switches()
        self._is_noted = False
        self._forms, self._layouts = OptimizerForms(), Layouts()
        self._switched = Switched()
        self._laid_out: set[tuple[object, ...] | None] = set()
        self._began: Began | None = None
        self.own_generators = OwnGenerators()
        """Seen around the first step; nothing of a training that is resumed behind it."""
        self._is_first = False

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Look at the weights as they were made, before a checkpoint takes their place."""
        if stage == "fit":
            self.without_numbers = without_numbers(tensors_of(pl_module, []))

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Read what the training starts with."""
        known = {id(p) for p in parameters_of(pl_module, trainer.optimizers).values()}
        alive = leaves_alive()
        # What a resumed training has trained before may lie still in the rest of it.
        self._began = (alive, {}) if trainer.global_step else began_with(alive, known)
        self.look_at_code()
        # A module may make layers in hooks of its own; of a resumed training they may have broken.
        if not trainer.global_step:
            self.without_numbers = without_numbers(tensors_of(pl_module, trainer.optimizers))
        self._is_first = not trainer.global_step
        # Of a resumed training: an epoch that was not whole would have ended it.
        self.whole_epochs = 0 if _is_limited(trainer) else trainer.current_epoch
        workers = [_workers_of(loader) for loader in tree_leaves(trainer.train_dataloader)]
        now = switches()
        actual: Actual = {
            **now,
            "accelerator": trainer.strategy.root_device.type,
            "devices": trainer.world_size,
            "precision": str(trainer.precision),
            "accumulate": self._micro_batches(trainer),
            "gathers_gradients": not pl_module.automatic_optimization
            or is_overridden("optimizer_zero_grad", pl_module),
            "data_workers": [number for number in workers if number is not None],
            "persistent_workers": any(
                _attribute(loader, "persistent_workers")
                for loader in tree_leaves(trainer.train_dataloader)
            ),
            "validation": False,
            "fill_uninitialized_memory": torch.are_deterministic_algorithms_enabled()
            and attrgetter("utils.deterministic.fill_uninitialized_memory")(torch),
            "optimizer": [],
            "layout": [],
            "batch_norm": _batch_norm_of(pl_module),
            "checkpointing": any(
                isinstance(callback, pl.callbacks.ModelCheckpoint)
                for callback in trainer.checkpoint_callbacks
            ),
            "logging": bool(trainer.loggers),
            "variables": {
                name: value
                for name, value in sorted(os.environ.items())
                if name.startswith(ARITHMETIC) and name not in NO_ARITHMETIC
            },
        }
        self.actual, self._before = actual, now
        self.departures = [*_departures(actual, self._variant), *_of_variables(self._variant)]
        self._switched.start()
        # A hook of optimizers would have compiled and captured steps done in parts.
        if self._variant.compile != "step" and not self._variant.cuda_graph:
            self._forms.start()

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Tell files that steps write from those that a training begins with."""
        if under_way():
            names(named_files(trainer))

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: object, batch_idx: int
    ) -> None:
        """Look at what the first step of an epoch will be given, and of a resumed training."""
        if batch_idx == 0 or not self._is_noted:
            self._is_noted = True
            # The Trainer's number may be another one in each epoch.
            if self.actual and trainer.accumulate_grad_batches > self._variant.accumulate:
                self.actual["gathers_gradients"] = True
            self._layouts.note_module(pl_module, self._variant.layout)
            # Of the same strides comes the same layout: where an epoch is a step, a copy costs.
            strides = _strides(batch)
            if strides is None or strides not in self._laid_out:
                self._laid_out.add(strides)
                laid_out = lay_out_batch(batch, self._variant.layout)
                self._layouts.note_batch(laid_out, self._variant.layout)
        if self._is_first:
            self.own_generators.begin(trainer, pl_module)

    def on_train_batch_end(self, *_: object, **__: object) -> None:
        """Look at torch's switches, which a module may put back behind the step."""
        self._switched.look()
        if self._is_first:
            self._is_first = False
            self.own_generators.end()

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Note whether the epoch was whole; find what the first one has imported."""
        look_at_held()
        is_next = self.whole_epochs == trainer.current_epoch
        is_whole = trainer.fit_loop.epoch_loop.batch_progress.is_last_batch
        if is_next and is_whole and not _is_limited(trainer):
            self.whole_epochs += 1
        # Later ones hardly import more.
        if trainer.current_epoch == 0:
            self.look_at_code()

    def _micro_batches(self, trainer: pl.Trainer) -> int:
        """Return into how many micro-batches a mini-batch is cut, or what the module has set."""
        accumulated, number = trainer.accumulate_grad_batches, self._told.accumulate_grad_batches
        if isinstance(number, dict):  # whose callback sets the Trainer's at each epoch
            # `trainer.train_dataloader` is the data module's own.
            combined = trainer.fit_loop._combined_loader
            loaders = combined.flattened if combined is not None else []
            return max(x.number if isinstance(x, MicroBatches) else 1 for x in loaders)
        return accumulated if accumulated % number else accumulated // number

    def not_held(self, trainer: pl.Trainer, module: pl.LightningModule) -> dict[str, NotHeld]:
        """Return how what neither the module nor Lightning's optimizers hold has ended."""
        return prints_not_held(module, trainer.optimizers, self._began)

    def look_at_code(self) -> None:
        """Hash what has been imported since the last look, before somebody edits it."""
        self.code = {**imported_files(), **self.code}

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Note that there is a validation: what a variant asks for, no module need have."""
        if self.actual is not None:
            self.actual["validation"] = True

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Say what the module has changed under way."""
        look_at_held()  # before it closes them
        look_at_data()
        before, after = dict(self._before), dict(switches())
        self._forms.stop()
        self._switched.stop()
        self._layouts.note_module(pl_module, self._variant.layout)
        cache = cache_used()
        is_shared = cache is not None and not cache["is_own"]
        # Which products became loops is seen where they are compiled.
        may_be_cached = is_shared and self._variant.layout == "features_first"
        self.departures += departures_of(
            self._variant, self._forms.found, self._layouts, may_be_cached=may_be_cached
        )
        if self.actual is not None:
            unseen = ["unseen"] if may_be_cached else []
            self.actual["optimizer"] = sorted(self._forms.found)
            self.actual["layout"] = sorted(self._layouts.found) + unseen
        self.departures += [
            departure(name, f"became {after[name]} in the training, from {before[name]}")
            for name in before
            if after[name] != before[name]
        ]
        self.departures += [
            departure(
                name, f"was {value} for a part of the training, and {before[name]} for the rest"
            )
            for name, value in self._switched.found.items()
            if after[name] == before[name]
        ]
        self.departures += of_parts(trainer, pl_module)

    def teardown(self, *_: object, **__: object) -> None:
        """Look at the files that this process holds; the first of several workers knows its own."""
        look_at_held()

    def on_exception(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException
    ) -> None:
        """Take the hooks of optimizers away, and the watch over switches."""
        self._forms.stop()
        self._switched.stop()


def _strides(batch: object) -> tuple[object, ...] | None:
    """Return shapes and strides of a batch's tensors; None if it holds others than dense ones."""
    found = tensors(batch)
    if not all(map(is_plain, found)):
        return None
    return tuple((tensor.shape, tensor.stride()) for tensor in found)


def _is_limited(trainer: pl.Trainer) -> bool:
    """Say whether an epoch takes a part of the loader's batches: 1 is a batch, 1.0 all of them."""
    limit = trainer.limit_train_batches  # of `overfit_batches` too
    return not (isinstance(limit, float) and limit == 1.0)


def _batch_norm_of(module: torch.nn.Module) -> str:
    """Return how a module's batch normalisation is done over several workers, if it has any."""
    kinds = {type(child) for child in module.modules()}
    if torch.nn.SyncBatchNorm in kinds:
        return "synchronised"
    return "joined" if any(issubclass(kind, _BatchNorm) for kind in kinds) else "none"


def _workers_of(loader: object) -> int | None:
    """Return the processes of a loader; shards and micro-batches wrap the module's own."""
    return _attribute(loader, "num_workers")


def _attribute(loader: object, name: str) -> int | None:
    return getattr(getattr(loader, "_loader", loader), name, None)


def _departures(actual: Actual, variant: Variant) -> list[Departure]:
    """Return each setting of the variant that the training does not have."""
    found = [
        *departures_of_switches(actual, variant),
        *other_than_asked(actual, variant, ("precision", "devices", "accumulate")),
    ]
    others = [n for n in actual["data_workers"] if n != variant.data_workers]
    if others:
        is_and_asked = f"is {others[0]}, where the variant says {variant.data_workers}"
        found.append(departure("data_workers", f"{is_and_asked}: the data module decides it"))
    kept = actual["persistent_workers"]
    if kept != variant.persistent_workers:
        is_and_asked = f"is {kept}, where the variant says {variant.persistent_workers}"
        found.append(departure("persistent_workers", f"{is_and_asked}: the data module decides it"))
    # torch names a GPU by its maker: cuda, mps, xpu.
    if (actual["accelerator"] == "cpu") != (variant.accelerator == "cpu"):
        is_and_asked = f"is {actual['accelerator']}, where the variant says {variant.accelerator}"
        found.append(departure("accelerator", is_and_asked))
    return found


def _of_variables(variant: Variant) -> list[Departure]:
    """Return the variant's environment variables that the module has changed."""
    return [
        departure(
            "environment", f"has {name}={os.environ.get(name)}, where the variant says {value}"
        )
        for name, value in variant.environment.items()
        if os.environ.get(name) != value
    ]
