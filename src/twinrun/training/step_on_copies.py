"""A first step with a sanity check before it, and one without: on copies of the module.

What validation leaves, and what a first call makes, need not matter to a training: a table of
positions that is made for a longer batch, what a step clears or overwrites before it reads it. Two
copies of the module, as the first step finds it, show whether it does: they take the same step, one
of them behind a validation, and both validate. Where all is alike behind both, so is what follows.
"""

import copy
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from inspect import getattr_static
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.utilities.exceptions import SIGTERMException

from twinrun.generators import state_of
from twinrun.parallel.reached_code import ReachedCode
from twinrun.training.own_copies import is_larger, own_copy
from twinrun.training.read_by_data import read_by_data
from twinrun.training.trial_step import State, Trial, as_it_was, attribute_of

# Bytes of a module: with its gradients and an optimizer's state it is four times as much, which
# counts in what memory jobs ask for.
LARGEST = 2**26
# What a module may define and be tried: its steps and what there is before them. A hook may do what
# reaches further (end a run of a logger's, remove a file), and a callback, too.
_STEPS = {
    *("forward", "training_step", "validation_step", "test_step", "predict_step"),
    *("train_dataloader", "val_dataloader", "test_dataloader", "predict_dataloader"),
    *("prepare_data", "setup", "configure_model", "configure_optimizers"),
}


@dataclass(frozen=True)
class Tried:
    """What two copies have shown."""

    is_alike: bool
    """Whether a step gives the same loss, gradients, updates and draws in both."""
    apart: frozenset[str]
    """Attributes that are otherwise behind the step, or the validation that follows it."""
    known: frozenset[str]
    """All attributes that were looked at."""
    is_unexplained: bool
    """Whether others are, too, than the trial was asked for."""
    draws: tuple[str, ...]
    """The global generators from which only one of both had drawn behind that."""
    by_data: frozenset[str]
    """Names that code of the training data reads, which takes no part in it."""
    moved: frozenset[str]
    """Attributes that the sanity check of the trial has changed."""

    def left_of(self, names: Sequence[str]) -> list[str]:
        """Return what is not shown to come to nothing."""
        if not self.is_alike or self.is_unexplained:
            return [*names]
        return [name for name in names if self._is_left(attribute_of(name))]

    def _is_left(self, attribute: str) -> bool:
        if self.by_data.intersection(attribute.split(".")):
            return True
        # What had been another object may be a part by now, with attributes of its own.
        inside = set(_inside(attribute, self.known))
        # A check of one batch may leave what one of two changes.
        is_tried = any(_inside(attribute, self.moved))
        return not is_tried or not inside or bool(inside & self.apart)


def _inside(attribute: str, names: Iterable[str]) -> list[str]:
    return [of for of in names if of == attribute or of.startswith(f"{attribute}.")]


class StepOnCopies:
    """Keeps a copy from ahead of the first step, and tries that on two others."""

    def __init__(self) -> None:
        """Keep nothing yet."""
        self._kept: pl.LightningModule | None = None
        self._batch: list[Any] = []
        self._validated: dict[int, Any] = {}

    def begin(
        self, trainer: pl.Trainer, module: pl.LightningModule, callbacks: Sequence[pl.Callback]
    ) -> None:
        """Copy a module, where a copy can be made, is not large, and does its steps alone.

        Args:
            trainer: of the training.
            module: with its layers.
            callbacks: that may run a user's code.
        """
        is_compiled = any(type(p).__name__ == "OptimizedModule" for p in module.modules())
        if not trainer.enable_validation or trainer.world_size > 1 or is_compiled:
            return
        with suppress(Exception):  # of what cannot be copied, or not be looked at
            if not callbacks and _does_steps_alone(module) and not is_larger(module, LARGEST):
                self._kept = own_copy(trainer, module)

    def take(self, batch: object) -> None:
        """Keep the first training batch."""
        if self._kept is not None and not self._batch:
            try:
                self._batch = [copy.deepcopy(batch)]
            except Exception:  # of a user's own class
                self.end()

    def validate(self, batch: object, loader: int) -> None:
        """Keep the first batch of each loader of validation."""
        if self._batch and loader not in self._validated:
            try:
                self._validated[loader] = copy.deepcopy(batch)
            except Exception:  # of a user's own class
                self.end()

    def end(self) -> None:
        """Keep nothing any more."""
        self.__init__()

    def of(
        self,
        trainer: pl.Trainer,
        module: pl.LightningModule,
        state: State,
        names: Sequence[str],
    ) -> Tried | None:
        """Try it; None where that tells nothing, as where a step asks for what only a run has.

        Args:
            trainer: of the training.
            module: the original, behind its first validation.
            state: fingerprints what copies hold behind theirs.
            names: of what may come to nothing.
        """
        kept, batch, validated = self._kept, self._batch, [*self._validated.values()]
        self.end()
        if kept is None or not batch or not validated:
            return None
        try:
            reached = ReachedCode(trainer, module)
            own = [(g, state_of(g)) for g in reached.generators.values()]
            by_data = read_by_data(trainer, module, reached)
            with as_it_was(own):
                trial = Trial(trainer, kept, batch[0], validated, state, own)
                return _tried(trial, {attribute_of(name) for name in names}, by_data)
        except (Exception, SystemExit) as error:  # whatever a module does that finds itself so
            # By Lightning the user's own signals end as one of these.
            is_signal = isinstance(error.__context__, KeyboardInterrupt)
            if is_signal or isinstance(error, SIGTERMException):
                raise
            return None


def _tried(trial: Trial, asked: set[str], by_data: set[str]) -> Tried | None:
    checked, alone = trial.run(is_checked=True), trial.run(is_checked=False)
    apart = checked.apart_from(alone)
    others = {of for of in apart if not any(of == a or of.startswith(f"{a}.") for a in asked)}
    if checked.step != alone.step or others:
        again = trial.run(is_checked=False)
        if again.step != alone.step:
            return None  # it does not repeat anyway
        others -= again.apart_from(alone)  # such as what tells the time
    return Tried(
        checked.step == alone.step,
        frozenset(apart),
        frozenset(map(attribute_of, (*checked.state, *alone.state))),
        bool(others),
        tuple(of for of, found in checked.drawn.items() if alone.drawn[of] != found),
        frozenset(by_data),
        checked.moved,
    )


def _does_steps_alone(module: pl.LightningModule) -> bool:
    """Say whether of Lightning's methods a module defines no other than its steps."""
    kind, base = type(module), pl.LightningModule
    names = {name for name in dir(base) if not name.startswith("__")} - _STEPS
    is_own = {
        n for n in names if getattr_static(kind, n, None) is not getattr_static(base, n, None)
    }
    # Of a method that is set on one alone; a run's callbacks are given so.
    on_it = names & vars(module).keys() - {"configure_callbacks"}
    return not is_own and not any(callable(getattr(base, name, None)) for name in on_it)
