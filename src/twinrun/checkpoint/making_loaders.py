"""What the loaders of a training are made from, which a resumed training makes before any hook.

Random numbers that split the data, what a data module was told, and with
`reload_dataloaders_every_n_epochs` also what the module has learnt: the weights of a sampler, say.
"""

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypedDict

import pytorch_lightning as pl
import torch
from torch.nn.modules.module import register_module_forward_pre_hook

from twinrun.checkpoint.followed_names import names_behind
from twinrun.checkpoint.loaded import metrics_of, put_back_metrics
from twinrun.checkpoint.made_loaders import Made, held_before, made_loaders, unlike
from twinrun.checkpoint.plain_attributes import (
    keys_changed,
    restore_attributes,
    states_of_attributes,
)
from twinrun.checkpoint.replayed_data import data_told
from twinrun.checkpoint.state_code import names_of_state
from twinrun.checkpoint.stream_position import telling_data
from twinrun.process.determinism import RNGStates, restore_rng_states, rng_states

_WEIGHTS = {"forward", "parameters", "named_parameters", "state_dict"}
# Of the Trainer, and of the module too: they move within an epoch.
_MOVING = {"global_step", "callback_metrics", "logged_metrics", "progress_bar_metrics", "callbacks"}
# By these names code comes to all else that a training has by then.
_OF_TRAINER = {"trainer", "global_step", "current_epoch"}
_UNLIKE = "is another one in the loaders that the resumed training has made"
_CURE = (
    " (what each process has anew, as its time, a name that it draws or how long reading took, can "
    "be kept outside of what loaders hold: in a local variable or a log)"
)
_WHY = "changes in an epoch whose loaders are made of it (reload_dataloaders_every_n_epochs)"


class Making(TypedDict):
    """What is noted where loaders are made."""

    random: RNGStates
    """RNG states."""
    data: list[dict[str, Any]]
    """What the data module says of itself, if its class does."""
    made: Made
    """The loaders, if no data module brings them to what it is told."""


class MakingLoaders:
    """Notes it, and puts it back."""

    def __init__(self) -> None:
        """Note nothing yet."""
        self.noted: Making | None = None
        self._attributes: dict[str, str] = {}
        self._asked: str | None = None  # the class of a network that was asked in making them
        self.unlike: str | None = None
        """What is other in the loaders that a resumed training has made, if anything."""

    @contextmanager
    def noting(self, trainer: pl.Trainer, restored: Mapping[str, Any] | None) -> Iterator[None]:
        """Note what the loaders that are made within are made from, or bring it to what it was.

        Args:
            trainer: of the training.
            restored: the state of a checkpoint that Lightning has loaded, until it is put back.
        """
        shown = metrics_of(trainer)
        if restored is not None:
            _put_back(trainer, restored)
        self.noted = {"random": rng_states(), "data": data_told(trainer), "made": {}}
        is_reloaded = _is_reloaded(trainer)
        before = held_before(trainer) if is_reloaded else {}
        self._attributes = states_of_attributes(trainer, ()) if is_reloaded else {}
        self._asked = None
        own = set(trainer.lightning_module.modules())

        def note(module: torch.nn.Module, _: object) -> None:
            if module in own:
                self._asked = self._asked or type(module).__name__

        # However it is come to: `self(inputs)` names nothing of the network.
        hook = register_module_forward_pre_hook(note)
        try:
            yield
        finally:
            hook.remove()
            # Hooks that begin a training find what they would find without these loaders.
            for name, held in shown.items() if restored is not None else ():
                vars(trainer._logger_connector)[name] = held
        # A data module with a state may be told of later data than those that it begins with.
        names = _named_by_loaders(trainer) if telling_data(trainer) is not None else _OF_TRAINER
        is_of_trainer = not _OF_TRAINER.isdisjoint(names)
        if is_reloaded or is_of_trainer or self._asked is not None:
            self.noted["made"] = made_loaders(trainer, before)
        if restored is not None and restored.get("making") is not None:
            other = unlike(restored["making"].get("made", {}), self.noted["made"])
            self.unlike = None if other is None else f"{other} {_UNLIKE}{_CURE}"

    def hindrances(self, trainer: pl.Trainer) -> Iterator[str]:
        """Name what has changed in the epoch and its loaders are made from.

        Where an epoch starts nothing has.
        """
        if not self._attributes:
            return
        module, names = trainer.lightning_module, _named_by_loaders(trainer)
        changed = keys_changed(self._attributes, states_of_attributes(trainer, ()))
        held = {key.rpartition(" ")[2] for key in changed if key.startswith("module ")}
        held |= {*dict(module.named_children()), *dict(module.named_parameters(recurse=False))}
        for name in sorted(names & (held | _WEIGHTS)):
            yield f"{type(module).__name__}.{name} {_WHY}"
        for name in sorted(names & _MOVING):
            yield f"{name} of the Trainer {_WHY}"
        if self._asked is not None:
            yield f"{self._asked}.forward {_WHY}"


def _is_reloaded(trainer: pl.Trainer) -> bool:
    return bool(vars(trainer).get("reload_dataloaders_every_n_epochs"))


def _put_back(trainer: pl.Trainer, state: Mapping[str, Any]) -> None:
    if (noted := state.get("making")) is None:  # of older versions
        return
    if trainer.current_epoch > 0 and _is_reloaded(trainer):
        restore_attributes(trainer.lightning_module, state["attributes"])
        began = state.get("epoch", state)
        put_back_metrics(trainer, began["metrics"], trainer.lightning_module.device)
    data = telling_data(trainer)
    if data is not None and _set_by_state(data) & _named_by_loaders(trainer):
        for told in noted["data"]:
            data.load_state_dict(copy.deepcopy(told))
    restore_rng_states(noted["random"])


def _set_by_state(data: pl.LightningDataModule) -> set[str]:
    names = names_of_state(data)
    return set(vars(data)) if names is None else names


def _named_by_loaders(trainer: pl.Trainer) -> set[str]:
    """Name what the code names that makes the training loaders."""
    owners = (trainer.lightning_module, vars(trainer).get("datamodule"))
    return names_behind(owners, "train_dataloader")
