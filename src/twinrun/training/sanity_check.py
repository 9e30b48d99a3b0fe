"""What Lightning's sanity check would do ahead of the first step, where a run has none.

A script has one unless it says otherwise (`num_sanity_val_steps` is 2): two validation batches,
with the global generators put back behind them. So what validation draws from these comes to
nothing there, also where its loaders are made; without the check these are made in the open, and
all that follows draws other numbers. What validation leaves in objects is there one step earlier.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytorch_lightning as pl
import torch

from twinrun.generators import state_in_a_word
from twinrun.hidden_content import saves_itself
from twinrun.parallel.reached_code import ReachedCode
from twinrun.set_attributes import own_of_module
from twinrun.trace.fingerprints import fingerprint_rng_states, fingerprint_tree, settings_of
from twinrun.values_inside import values_in
from twinrun.wording import some

REMEDY = "say `trainer: {num_sanity_val_steps: 2}`, Lightning's default, to train as such a script"
# By these a name that is put together may ask for any attribute.
_BY_TEXT = {"getattr", "vars", "__dict__", "__getattribute__", "getmembers", "eval", "exec"}
_BY_TEXT |= {"attrgetter", "__getstate__"}
_OF_OTHERS = ("pytorch_lightning.", "lightning.", "twinrun.")


class SanityCheck(pl.Callback):
    """Looks at the first validation, and at how its loaders are made."""

    def __init__(self, notes: list[str]) -> None:
        """See nothing yet.

        Args:
            notes: is given a sentence for each thing by which a training with the check is another.
        """
        self._notes, self._is_seen = notes, False

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
            unread = _unread(trainer, module) if changed else ()
            if changed := [name for name in changed if name not in unread]:
                # What reads it may find the same: a cache that is filled sooner.
                self._note(f"validation changes {some(changed)}", "training may be otherwise")
            return found

        return run

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
        objects: list[tuple[str, object]] = [*tensors]
        for path, part in module.named_modules():
            of_part = own_of_module(part).items()
            objects += [(f"{path}.{name}" if path else name, item) for name, item in of_part]
        objects += [(type(callback).__name__, callback) for callback in self._users(trainer)]
        objects.append(("val_dataloader", trainer.val_dataloaders))
        generators = ReachedCode(trainer, module).generators
        found = {name: fingerprint_tree(state_in_a_word(g)) for name, g in generators.items()}
        for path, item in objects:
            with suppress(Exception):  # an object of a user's may refuse to be looked at
                found |= {name: _print(value) for name, value in values_in(item, path)}
        # What Lightning steps by itself it steps behind a validation, not in it.
        for name, values in _of_updates(trainer).items():
            with suppress(Exception):
                found[name] = fingerprint_tree(values)
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


def _unread(trainer: pl.Trainer, module: pl.LightningModule) -> set[str]:
    """Name the module's own attributes that no code of a training reads, as far as names tell.

    What validation leaves there may be looked at after the training.
    """
    reached = ReachedCode(trainer, module)
    asked = {name for of in reached.names.values() for names in of.values() for name in names}
    # Code of an installed class that is no part of Lightning's is not read.
    others = set(type(module).__mro__) - set(pl.LightningModule.__mro__)
    is_read = all(kind.__name__ in reached.names for kind in others)
    if reached.is_cut_short or asked & _BY_TEXT or not is_read:
        return set()
    # A schedule that is stepped in validation alone sets the rate.
    own = {name for name, value in own_of_module(module).items() if not saves_itself(value)}
    return {name for name in own - asked if not hasattr(pl.LightningModule, name)}
