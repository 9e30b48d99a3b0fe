"""What Lightning's sanity check would do ahead of the first step, where a run has none.

A script has one unless it says otherwise (`num_sanity_val_steps` is 2): two validation batches,
with the global generators put back behind them. So what validation draws from these comes to
nothing there, also where its loaders are made; without the check these are made in the open, and
all that follows draws other numbers. What validation leaves in objects is there one step earlier.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.callbacks import LambdaCallback
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm
from torchmetrics import Metric

from twinrun.generators import state_in_a_word
from twinrun.parallel.reached_code import ReachedCode
from twinrun.trace.fingerprints import fingerprint_rng_states, fingerprint_tree
from twinrun.training.batch_clock import BatchClock
from twinrun.training.first_calls import of_first_calls, of_loaders, uninitialized
from twinrun.training.first_made import FirstMade
from twinrun.training.held_prints import in_module, objects_of, of_updates, prints
from twinrun.training.left_gradients import LeftGradients
from twinrun.training.readers import VALIDATING, Readers
from twinrun.training.set_anew import MetricResets, metric_of
from twinrun.training.set_before import SetBefore
from twinrun.training.step_on_copies import StepOnCopies
from twinrun.wording import some

REMEDY = "say `trainer: {num_sanity_val_steps: 2}`, Lightning's default, to train as such a script"
_OF_OTHERS = ("pytorch_lightning.", "lightning.", "twinrun.")


class SanityCheck(pl.Callback):
    """Looks at the first validation, and at how its loaders are made."""

    def __init__(self, notes: list[str]) -> None:
        """See nothing yet.

        Args:
            notes: is given a sentence for each thing by which a training with the check is another.
        """
        self._notes, self._is_seen = notes, False
        self._resets = MetricResets()
        self._uninitialized: list[str] = []
        self._at_first: dict[str, int] | None = None  # what metrics hold in the first step
        self._made: FirstMade | None = None
        self._gradients = LeftGradients()
        self._copies = StepOnCopies()
        self._batch: tuple[object, ...] = ()  # the first one of validation

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Have the validations of the training looked at, and the one that may follow it."""
        if trainer.num_sanity_val_steps:
            return
        for callback in self._users(trainer):
            kind = type(callback)
            names = ("on_sanity_check_start", "on_sanity_check_end")
            if found := [n for n in names if getattr(kind, n) is not getattr(pl.Callback, n)]:
                self._note(f"{some(found)} of {kind.__name__} is never called")
        for loop in (trainer.fit_loop.epoch_loop.val_loop, trainer.validate_loop):
            vars(loop)["setup_data"] = self._making(loop.setup_data)
            vars(loop)["run"] = self._validating(loop, trainer, pl_module)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """See which metrics are reset: a sanity check would have been before."""
        if not trainer.num_sanity_val_steps:
            self._uninitialized = uninitialized(pl_module)
            if not self._is_seen:
                self._copies.begin(trainer, pl_module, [*self._with_code(trainer)])
            self._resets.begin()

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: object, batch_idx: int
    ) -> None:
        """See what metrics hold in the first step."""
        if not trainer.num_sanity_val_steps and self._at_first is None:
            self._resets.end()
            self._at_first = prints(objects_of(pl_module, Metric))
            with suppress(Exception):  # a module may hold what cannot be looked at
                self._made = FirstMade(pl_module)
            self._gradients.begin(trainer, pl_module)
            self._copies.take(batch)

    def on_train_batch_end(self, *_: object, **__: object) -> None:
        """See no more of the first step."""
        self._gradients.end()

    def on_validation_batch_start(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        batch: object,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Keep the first batch."""
        if self._made is not None and not self._batch:
            self._batch = batch, batch_idx, dataloader_idx
        self._copies.validate(batch, dataloader_idx)

    def on_train_end(self, *_: object, **__: object) -> None:
        """See no more, also where there was no step; a validation may follow."""
        self._end(is_over=self._is_seen)

    def on_exception(self, *_: object, **__: object) -> None:
        """See no more, also where the training breaks off."""
        self._end(is_over=True)

    def _end(self, *, is_over: bool) -> None:
        self._resets.end()
        self._gradients.end()
        if is_over:
            self._copies.end()

    def _making(self, original: Callable[[], None]) -> Callable[[], None]:
        def setup_data() -> None:
            before = fingerprint_rng_states(cuda=False)
            original()
            after = fingerprint_rng_states(cuda=False)
            if drawn := [name for name, found in after.items() if before[name] != found]:
                self._note(
                    f"val_dataloader draws from the global generator of {some(drawn)}, which what "
                    f"is drawn later follows"
                )

        return setup_data

    def _validating(
        self, loop: Any, trainer: pl.Trainer, module: pl.LightningModule
    ) -> Callable[[], Any]:
        original = loop.run

        def run() -> Any:
            if self._is_seen:
                return original()
            self._is_seen = True
            # First: its loaders are a part of what validation may change.
            loop.setup_data()
            for what in (*of_first_calls(module, self._uninitialized), *of_loaders(trainer)):
                self._note(what)
            before = self._state(trainer, module)
            found = original()
            after = self._state(trainer, module)
            every = dict.fromkeys([*before, *after])
            changed = [name for name in every if before.get(name) != after.get(name)]
            self._note_left(trainer, module, changed, after)
            for clock in (c for c in vars(trainer)["callbacks"] if isinstance(c, BatchClock)):
                clock.restart()  # no part of a step that may follow in this epoch
            return found

        return run

    def _note_left(
        self,
        trainer: pl.Trainer,
        module: pl.LightningModule,
        changed: Sequence[str],
        after: Mapping[str, int],
    ) -> None:
        """Note what validation leaves and what first calls make, unless it comes to nothing."""
        first, made, by_length = self._first_made(trainer, module)
        if not changed and not first and not made:
            return
        code = ReachedCode(trainer, module), module, [*self._users(trainer)]
        left = self._left(module, changed, after, SetBefore(*code).names)
        if not (names := [*left, *first, *made]):
            return
        tried = self._copies.of(trainer, module, self._state, names)
        if tried is not None:
            left = tried.left_of(left)
            first = [name for name in first if name in by_length or tried.left_of([name])]
        is_other = tried is not None and not tried.is_alike
        readers = Readers(*code)
        is_said = self._note_changes(left, readers)
        by = "the first call of all, by its batch or by drawing, sets"
        if first and (tried is None or is_other or by_length):
            self._note(f"{by} {some(first)}", "training may be otherwise")
        elif is_other and not is_said:
            # Where validation asks for its Trainer, what is made shows by the step alone.
            what = f"{by} {some(made)}" if made else "validation changes what the first step finds"
            self._note(what, "training may be otherwise")
        else:
            self._note_changes(first, readers, by)
        if tried is not None and tried.draws and tried.is_alike:
            drawn = (
                f"the first validation alone draws from the global generator of {some(tried.draws)}"
            )
            self._note(f"{drawn}, which what is drawn later follows", "training is otherwise")

    def _first_made(
        self, trainer: pl.Trainer, module: pl.LightningModule
    ) -> tuple[list[str], list[str], set[str]]:
        made, batch = self._made, self._batch
        self._made, self._batch = None, ()
        if made is not None and batch:
            with suppress(Exception):
                return made.of(trainer, module, batch, lambda of: prints(in_module(of)))
        return [], [], set()

    def _left(
        self,
        module: pl.LightningModule,
        changed: Sequence[str],
        after: Mapping[str, int],
        anew: Iterable[str],
    ) -> list[str]:
        """Return what of it would be there in the first step, and is not put back before."""
        first = self._at_first or {}

        computed = {
            f"{path}.{hook.name}" if path else hook.name
            for path, part in module.named_modules()
            for hook in part._forward_pre_hooks.values()
            if isinstance(hook, WeightNorm | SpectralNorm)
        }

        def is_put_back(name: str) -> bool:
            if name in computed:
                return True
            if any(name == of or name.startswith((f"{of}[", f"{of}.")) for of in anew):
                return True
            metric = metric_of(module, name)
            if metric is None:
                return False
            is_reset = not metric.update_called and name in first and first[name] == after.get(name)
            return metric in self._resets or is_reset

        return [name for name in changed if not is_put_back(name)]

    def _note_changes(
        self, changed: Sequence[str], readers: Readers, by_what: str = "validation changes"
    ) -> bool:
        """Note what is changed; say whether that may change the training."""
        by = {name: readers.of(name) for name in changed}
        unless = ""
        if asking := readers.of_check:
            unless = f", unless {some(asking)} by asking for sanity_checking leaves it as it is"
        # What reads it may find the same: a cache that is filled sooner.
        if read := [name for name, of in by.items() if of is None or of - VALIDATING]:
            self._note(f"{by_what} {some(read)}", f"training may be otherwise{unless}")
        if found := [name for name, of in by.items() if of and not of - VALIDATING]:
            self._note(
                f"{by_what} {some(found)}, which no other code names",
                f"what later validations log or do may be otherwise{unless}",
            )
        return bool(read)

    def _note(self, what: str, then: str = "this is otherwise") -> None:
        note = f"{what}: with a sanity check before the first step {then}; {REMEDY}"
        if note not in self._notes:
            self._notes.append(note)

    def _users(self, trainer: pl.Trainer) -> Iterator[pl.Callback]:
        for callback in vars(trainer)["callbacks"]:
            if not type(callback).__module__.startswith(_OF_OTHERS):
                yield callback

    def _with_code(self, trainer: pl.Trainer) -> Iterator[pl.Callback]:
        yield from self._users(trainer)
        yield from (c for c in vars(trainer)["callbacks"] if isinstance(c, LambdaCallback))

    def _state(self, trainer: pl.Trainer, module: pl.LightningModule) -> dict[str, int]:
        """Fingerprint what is found in a module, callbacks, loaders of validation and updates."""
        objects = in_module(module)
        objects += [
            (f"requires_grad of {n}", p.requires_grad) for n, p in module.named_parameters()
        ]
        objects += [(type(callback).__name__, callback) for callback in self._users(trainer)]
        objects.append(("val_dataloader", trainer.val_dataloaders))
        generators = ReachedCode(trainer, module).generators
        found = {name: fingerprint_tree(state_in_a_word(g)) for name, g in generators.items()}
        found |= prints(objects) | self._gradients.of(module)
        # What Lightning steps by itself it steps behind a validation, not in it.
        for name, values in of_updates(trainer).items():
            with suppress(Exception):
                found[name] = fingerprint_tree(values)
        return found
