"""What Lightning's sanity check would do ahead of the first step, where a run has none.

A script has one unless it says otherwise (`num_sanity_val_steps` is 2): two validation batches,
with the global generators put back behind them. So what validation draws from these comes to
nothing there, also where its loaders are made; without the check these are made in the open, and
all that follows draws other numbers. What validation leaves in objects is there one step earlier.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import pytorch_lightning as pl
import torch
from torchmetrics import Metric

from twinrun.generators import state_in_a_word
from twinrun.hidden_content import saves_itself
from twinrun.parallel.reached_code import ReachedCode
from twinrun.set_attributes import own_of_module
from twinrun.trace.fingerprints import fingerprint_rng_states, fingerprint_tree, settings_of
from twinrun.training.set_anew import MetricResets, metric_of, set_anew
from twinrun.values_inside import values_in
from twinrun.wording import some

REMEDY = "say `trainer: {num_sanity_val_steps: 2}`, Lightning's default, to train as such a script"
# By these a name that is put together may ask for any attribute.
_BY_TEXT = {"getattr", "vars", "__dict__", "__getattribute__", "getmembers", "eval", "exec"}
_BY_TEXT |= {"attrgetter", "__getstate__"}
# What reads an attribute in these reads it in a validation alone.
_VALIDATING = {"validation_step", *(n for n in dir(pl.LightningModule) if "on_validation_" in n)}
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
        self._at_first: dict[str, int] | None = None  # what metrics hold in the first step

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
            self._resets.begin()

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: object, batch_idx: int
    ) -> None:
        """See what metrics hold in the first step."""
        if not trainer.num_sanity_val_steps and self._at_first is None:
            self._resets.end()
            self._at_first = _prints(_objects(pl_module, Metric))

    def on_train_end(self, *_: object, **__: object) -> None:
        """See no more, also where there was no step."""
        self._resets.end()

    def on_exception(self, *_: object, **__: object) -> None:
        """See no more, also where the training breaks off."""
        self._resets.end()

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
            if scripted := _scripted(module):
                self._note(
                    f"validation calls {some(scripted)}, which TorchScript compiles by what its "
                    f"first calls are"
                )
            before = self._state(trainer, module)
            found = original()
            after = self._state(trainer, module)
            every = dict.fromkeys([*before, *after])
            changed = [name for name in every if before.get(name) != after.get(name)]
            self._note_changes(trainer, module, self._left(trainer, module, changed, after))
            return found

        return run

    def _left(
        self,
        trainer: pl.Trainer,
        module: pl.LightningModule,
        changed: Sequence[str],
        after: Mapping[str, int],
    ) -> list[str]:
        """Return what of it would be there in the first step, and is not put back before."""
        anew = set_anew(module) if changed else set()
        for callback in self._users(trainer) if changed else ():
            anew |= {f"{type(callback).__name__}.{name}" for name in set_anew(callback)}
        first = self._at_first or {}

        def is_put_back(name: str) -> bool:
            if any(name == of or name.startswith((f"{of}[", f"{of}.")) for of in anew):
                return True
            metric = metric_of(module, name)
            if metric is None:
                return False
            is_reset = not metric.update_called and name in first and first[name] == after.get(name)
            return metric in self._resets or is_reset

        return [name for name in changed if not is_put_back(name)]

    def _note_changes(
        self, trainer: pl.Trainer, module: pl.LightningModule, changed: Sequence[str]
    ) -> None:
        if not changed:
            return
        readers = _readers(trainer, module)
        held = {name for name, _ in (*module.named_parameters(), *module.named_buffers())}

        def read_by(name: str) -> set[str] | None:
            """Return the functions that read it; None where nobody knows."""
            attribute = re.split(r"[.\[]", name)[0]
            is_own = attribute in vars(module) or metric_of(module, name) is not None
            return readers.get(attribute) if readers is not None and is_own else None

        by = {name: None if name in held else read_by(name) for name in changed}
        # What reads it may find the same: a cache that is filled sooner.
        if found := [name for name, of in by.items() if of is None or of - _VALIDATING]:
            self._note(f"validation changes {some(found)}", "training may be otherwise")
        if found := [name for name, of in by.items() if of and not of - _VALIDATING]:
            self._note(
                f"validation changes {some(found)}, which no other code names",
                "what later validations log or do may be otherwise",
            )

    def _note(self, what: str, then: str = "this is otherwise") -> None:
        note = f"{what}: with a sanity check before the first step {then}; {REMEDY}"
        if note not in self._notes:
            self._notes.append(note)

    def _users(self, trainer: pl.Trainer) -> Iterator[pl.Callback]:
        for callback in vars(trainer)["callbacks"]:
            if not type(callback).__module__.startswith(_OF_OTHERS):
                yield callback

    def _state(self, trainer: pl.Trainer, module: pl.LightningModule) -> dict[str, int]:
        """Fingerprint what is found in a module, callbacks, loaders of validation and updates."""
        tensors = (*module.named_parameters(), *module.named_buffers())
        objects: list[tuple[str, object]] = [*tensors, *_objects(module, torch.nn.Module)]
        objects += [
            (f"requires_grad of {n}", p.requires_grad) for n, p in module.named_parameters()
        ]
        objects += [(type(callback).__name__, callback) for callback in self._users(trainer)]
        objects.append(("val_dataloader", trainer.val_dataloaders))
        generators = ReachedCode(trainer, module).generators
        found = {name: fingerprint_tree(state_in_a_word(g)) for name, g in generators.items()}
        found |= _prints(objects)
        # What Lightning steps by itself it steps behind a validation, not in it.
        for name, values in _of_updates(trainer).items():
            with suppress(Exception):
                found[name] = fingerprint_tree(values)
        return found


def _objects(module: pl.LightningModule, kind: type) -> list[tuple[str, object]]:
    """List what the parts of a kind hold in attributes of their own, by its path."""
    found: list[tuple[str, object]] = []
    for path, part in module.named_modules():
        of_part = own_of_module(part).items() if isinstance(part, kind) else ()
        found += [(f"{path}.{name}" if path else name, item) for name, item in of_part]
    return found


def _prints(objects: Sequence[tuple[str, object]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for path, item in objects:
        with suppress(Exception):  # an object of a user's may refuse to be looked at
            found |= {name: _print(value) for name, value in values_in(item, path)}
    return found


def _print(value: object) -> int:
    # A schedule that a module keeps, say.
    return fingerprint_tree(value.state_dict() if saves_itself(value) else value)


def _of_updates(trainer: pl.Trainer) -> dict[str, list[object]]:
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


def _scripted(module: pl.LightningModule) -> list[str]:
    """Name the parts of a module that are compiled by TorchScript, but for those inside of such."""
    found: list[str] = []
    for path, part in module.named_modules():
        is_inside = any(path.startswith(f"{outer}.") for outer in found)
        if isinstance(part, torch.jit.ScriptModule) and not is_inside:
            found.append(path)
    return found


def _readers(trainer: pl.Trainer, module: pl.LightningModule) -> dict[str, set[str]] | None:
    """Name the functions that read the module's own attributes, as far as names tell.

    What validation leaves there may be looked at after the training by nobody of these. None where
    an attribute may be read by code that is not seen.
    """
    reached = ReachedCode(trainer, module)
    found: dict[str, set[str]] = {}
    for functions in reached.names.values():
        for function, names in functions.items():
            for name in names:
                found.setdefault(name, set()).add(function)
    # Code of an installed class that is no part of Lightning's is not read.
    others = set(type(module).__mro__) - set(pl.LightningModule.__mro__)
    is_read = all(kind.__name__ in reached.names for kind in others)
    if reached.is_cut_short or _BY_TEXT & found.keys() or not is_read:
        return None
    # A schedule that is stepped in validation alone sets the rate.
    own = {name for name, value in own_of_module(module).items() if not saves_itself(value)}
    # One that is named nowhere is asked for among all layers.
    metrics = {n for n, part in module.named_children() if isinstance(part, Metric) and n in found}
    return {
        name: found.get(name, set())
        for name in own | metrics
        if not hasattr(pl.LightningModule, name)
    }
