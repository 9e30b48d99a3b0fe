"""One step and one validation of a copy, with a sanity check before or without: by a Trainer.

The copy is one of the module as the first step finds it: what a training does before is done.
Nothing is written; what a Trainer and the step set for the whole process is put back.
"""

import copy
import os
import random
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pytorch_lightning as pl
import torch
from pytorch_lightning.loggers.logger import DummyLogger
from pytorch_lightning.plugins.environments import LightningEnvironment
from pytorch_lightning.utilities.seed import isolate_rng

from twinrun.generators import set_state
from twinrun.parallel.reached_code import ReachedCode
from twinrun.trace.fingerprints import (
    fingerprint,
    fingerprint_rng_states,
    fingerprint_states,
    fingerprint_tree,
)
from twinrun.training.held_prints import in_module, prints, values_of
from twinrun.training.longer_tables import longer_tables
from twinrun.training.own_copies import own_copy

MOST_BATCHES = 16  # until an optimizer has stepped: gradients may be added up first
_DONE = ("setup", "prepare_data", "configure_model")  # before the first step


class NoStepError(Exception):
    """A trial has shown nothing: no update, or no validation behind it."""


State = Callable[[pl.Trainer, pl.LightningModule], Mapping[str, int]]
"""Fingerprints what a training holds, by name."""


def attribute_of(name: str) -> str:
    """Return the attribute in which something was found.

    >>> attribute_of("net.kept[0] list.1"), attribute_of("the gradient of net.weight")
    ('net.kept', 'the gradient of net.weight')
    """
    return name if name.startswith(("the ", "requires_grad of ")) else re.split(r"[\[ ,]", name)[0]


@dataclass(frozen=True)
class Seen:
    """What one copy has shown."""

    step: tuple[object, ...]
    """Losses, parameters, gradients, the state of optimizers and of global generators."""
    behind: Mapping[str, int]
    """Fingerprints of what the module holds behind the step, by name."""
    state: Mapping[str, int]
    """Those of what the training holds behind the validation that follows."""
    tables: Mapping[str, object]
    """What the module holds behind the step."""
    values: Mapping[str, object]
    """What it holds at the end."""
    drawn: Mapping[str, int]
    """Fingerprints of the global generators then."""
    moved: frozenset[str]
    """Attributes that the sanity check has changed."""

    def apart_from(self, other: "Seen") -> set[str]:
        """Return the attributes that are not the same in both, behind the step or at the end.

        What a validation makes alike may be read by a step before that.
        """
        names = _unlike(self.state, other.state) | _unlike(self.behind, other.behind)
        still = {name for name in names if self._is_still(name) and other._is_still(name)}
        names -= longer_tables(self.values, other.values, still)
        unlike = {of for of in names if self.state.get(of) == other.state.get(of)}
        names -= longer_tables(self.tables, other.tables, unlike)
        return {attribute_of(name) for name in names}

    def _is_still(self, name: str) -> bool:
        """Say whether a validation leaves it as it is."""
        return name in self.behind and self.behind[name] == self.state.get(name)


@dataclass(frozen=True)
class Trial:
    """All that is the same in both."""

    trainer: pl.Trainer
    """Of the training."""
    kept: pl.LightningModule
    """The copy from ahead of the first step."""
    batch: object
    """Of training."""
    validated: Sequence[object]
    """A batch of each loader of validation."""
    state: State
    """Fingerprints what a training holds."""
    own: Sequence[tuple[object, object]]
    """Generators of the user's that are not copied, and their states."""

    def run(self, *, is_checked: bool) -> Seen:
        """Take a step, behind a sanity check or not."""
        module = own_copy(self.trainer, self.kept)
        vars(module).update(dict.fromkeys(_DONE, _nothing))
        vars(module)["configure_callbacks"] = list
        seeing = _Seeing()
        trainer = _trainer(self.trainer, seeing, is_checked=is_checked)
        known = {*vars(trainer)}
        steps = self.trainer.num_training_batches
        training = _Batches(self.batch, steps if isinstance(steps, int) else MOST_BATCHES)
        validating = [_Batches(batch, 1) for batch in self.validated]
        for generator, state in self.own:
            set_state(generator, state)
        with isolate_rng(include_cuda=torch.cuda.is_initialized()):
            trainer.fit(module, training, validating if len(validating) > 1 else validating[0])
            drawn = _drawn()
        if not seeing.has_validated:
            raise NoStepError
        state = {**self.state(trainer, module), **seeing.gradients}
        # Not of its loaders, which are no user's, nor of generators that others may draw from.
        held, shared = ReachedCode(trainer, module).generators, {id(each) for each, _ in self.own}
        left_out = {name for name, generator in held.items() if id(generator) in shared}
        left_out |= {name for name in state if name.startswith("val_dataloader")}
        state = {name: of for name, of in state.items() if name not in left_out}
        new = {n: value for n, value in vars(trainer).items() if n not in known and n[0] != "_"}
        state |= prints([(f"trainer.{n}", value) for n, value in new.items()])  # by a user's code
        values = values_of(module)
        return Seen(seeing.step, seeing.behind, state, seeing.tables, values, drawn, seeing.moved)


class _Seeing(pl.Callback):
    """Ends a training behind its first update, and keeps what the step has made."""

    def __init__(self) -> None:
        self._losses: list[int] = []
        self._before: list[int] = []
        self._has_stepped = False
        self.has_validated = False
        self.step: tuple[object, ...] = ()
        self.gradients: dict[str, int] = {}
        self.behind: dict[str, int] = {}
        self.tables: dict[str, object] = {}
        self.moved = frozenset[str]()
        self._unchecked: dict[str, int] = {}

    def on_sanity_check_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Look at what there is before."""
        self._unchecked = prints(in_module(pl_module))

    def on_sanity_check_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """See what it has changed."""
        found = _unlike(self._unchecked, prints(in_module(pl_module)))
        self.moved = frozenset(map(attribute_of, found))

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Draw, as loaders do as they start: a later validation draws other numbers."""
        random.random(), np.random.rand(), torch.rand(1)  # noqa: S311
        if torch.cuda.is_initialized():
            torch.rand(1, device="cuda")
        self._before = [fingerprint(p) for p in pl_module.parameters()]

    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: object,
        batch: object,
        batch_idx: int,
    ) -> None:
        """Keep it."""
        parameters = [*pl_module.parameters()]
        now = [fingerprint(p) for p in parameters]
        self._losses.append(fingerprint_tree(outputs))
        # Manual optimization may update by optimizers that Lightning does not know.
        self._has_stepped = trainer.global_step > 0 or now != self._before
        if not self._has_stepped and batch_idx + 1 < MOST_BATCHES:
            return
        self.gradients = {
            f"the gradient of {name}": fingerprint(p.grad)
            for name, p in pl_module.named_parameters()
        }
        states = fingerprint_states(trainer.optimizers, parameters)
        self.step = ([*self._losses], now, self.gradients, states, _drawn())
        self.behind = prints(in_module(pl_module))
        self.tables = {of: _kept(value) for of, value in values_of(pl_module).items()}
        trainer.should_stop = True

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """See whether it comes behind an update."""
        self.has_validated = self._has_stepped


class _Batches:
    """A loader that gives one batch again and again."""

    def __init__(self, batch: object, count: int) -> None:
        self._batch, self._count = batch, count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[object]:
        return (copy.deepcopy(self._batch) for _ in range(self._count))


def _kept(value: object) -> object:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def _unlike(one: Mapping[str, int], other: Mapping[str, int]) -> set[str]:
    return {name for name in (*one, *other) if one.get(name) != other.get(name)}


def _trainer(of: pl.Trainer, seeing: pl.Callback, *, is_checked: bool) -> pl.Trainer:
    """Return a Trainer as another one is, for one step that leaves nothing."""
    device = of.strategy.root_device
    return pl.Trainer(
        accelerator=of.accelerator,
        devices=[device.index or 0] if device.type == "cuda" else 1,
        precision=of.precision,
        max_epochs=of.max_epochs,
        max_steps=of.max_steps,
        num_sanity_val_steps=-1 if is_checked else 0,
        accumulate_grad_batches=of.accumulate_grad_batches,
        gradient_clip_val=of.gradient_clip_val,
        gradient_clip_algorithm=of.gradient_clip_algorithm,
        inference_mode=of.fit_loop.epoch_loop.val_loop.inference_mode,
        logger=DummyLogger() if of.loggers else False,
        default_root_dir=of.default_root_dir,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
        callbacks=[seeing],
        plugins=[LightningEnvironment()],
    )


@contextmanager
def as_it_was(own: Sequence[tuple[object, object]]) -> Iterator[None]:
    """Put back what a Trainer or a user's step sets for the whole process."""
    deterministic = torch.are_deterministic_algorithms_enabled()
    warns = torch.is_deterministic_algorithms_warn_only_enabled()
    benchmark, threads = torch.backends.cudnn.benchmark, torch.get_num_threads()
    environment = dict(os.environ)
    try:
        with warnings.catch_warnings(), torch.inference_mode(mode=False), torch.enable_grad():
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.use_deterministic_algorithms(deterministic, warn_only=warns)
        torch.backends.cudnn.benchmark = benchmark
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        if os.environ != environment:
            os.environ.clear()
            os.environ.update(environment)
        for generator, state in own:
            set_state(generator, state)


def _drawn() -> dict[str, int]:
    return fingerprint_rng_states(cuda=torch.cuda.is_initialized())


def _nothing(*_: object, **__: object) -> None:
    """Stand for a hook that has been called."""
