"""What a training keeps beside a checkpoint, where an epoch starts, and what of it has changed."""

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import pytorch_lightning as pl
import torch

from twinrun.checkpoint.at_start import names_of_data
from twinrun.checkpoint.begun_attributes import looks_now, made_since
from twinrun.checkpoint.data_attributes import of_data
from twinrun.checkpoint.data_in_place import DataLooks
from twinrun.checkpoint.exchanged import Exchanged
from twinrun.checkpoint.late_attributes import LateAttributes
from twinrun.checkpoint.orders_in_memory import orders_in_memory, reordered
from twinrun.checkpoint.own_to_process import Clocks, counted
from twinrun.checkpoint.plain_attributes import (
    Attributes,
    changed_attributes,
    keys_changed,
    states_of_attributes,
)
from twinrun.checkpoint.refusals import generators_of, loaders_of, samplers_of
from twinrun.checkpoint.replayed_data import training_loaders
from twinrun.checkpoint.stream_position import (
    moved,
    parts_of,
    possible_positions,
    told_alone,
)
from twinrun.checkpoint.structure import Structure
from twinrun.checkpoint.switches import changed_switches, switches
from twinrun.checkpoint.trainer_settings import changed_settings, settings_of
from twinrun.checkpoint.unsaved_optimizers import changed_optimizers, states_of_optimizers
from twinrun.checkpoint.unsaved_state import changed_callbacks, states_of_callbacks

Look = TypeVar("Look")
Told = tuple[Sequence[float], Mapping[str, str]]
NOTHING_TOLD: Told = ((), {})
# Of a loader that is its own iterator.
_CURE = " (an `__iter__` with `yield` in it, and no `__next__`, keeps no place)"
# Of what data keep in their class or their file.
_OF_CLASS = " (a cache of what data read may be an attribute that `__init__` sets: `self.x = {}`)"
# Of a set: data may depend on whether something is in it.
_OF_SET = " (its data's `state_dict` and `load_state_dict` may hold it)"
# Of a data module whose loaders are made anew.
_WITH_LOADERS = (
    " (with loaders that are made anew, `train_dataloader` may set it each time, by "
    "`self.trainer.current_epoch`)"
)


def told_now(trainer: pl.Trainer) -> Told:
    """Return what `counted` shows, and `looks_now` finds, ahead of any hook."""
    return counted(), looks_now(trainer)


class KeptBeside:
    """A look at it."""

    def __init__(
        self,
        trainer: pl.Trainer,
        late: LateAttributes,
        began: Sequence[float] = (),
        told: Mapping[str, str] | None = None,
    ) -> None:
        """Look.

        Args:
            trainer: of the training.
            late: what data were first given as they were read.
            began: what `counted` showed before any hook.
            told: as `looks_now` found the attributes then.
        """
        loaders, left = loaders_of(trainer), late.left(trainer)
        self._late = late
        # By their places: those of training come first.
        self.parts = parts_of(training_loaders(trainer))
        self.generators = list(map(id, generators_of(loaders)))
        # Those of validation data may be made under way, with generators of their own.
        self.ordering = [o for loader in loaders for o in (loader, *samplers_of(loader))]
        self.callbacks = states_of_callbacks(trainer)
        self.optimizers = states_of_optimizers(trainer)
        self.positions = possible_positions(loaders, told_alone(loaders))
        self.data = DataLooks(trainer, loaders, left=left)
        self.attributes = states_of_attributes(trainer, loaders, left)
        self.settings = settings_of(trainer)
        self.exchanged = Exchanged(trainer)
        self.structure, self.switches = Structure(trainer), switches()
        self.orders = orders_in_memory(trainer.lightning_module)
        self.made, self.of_data = made_since(trainer, told or {}), names_of_data(trainer)
        self.clocks: Clocks = [counted()[0] - began[0], *began] if began else []

    def put_back(self, trainer: pl.Trainer, state: Mapping[str, Any]) -> str | None:
        """Put back plain values of training data where an epoch starts; say what could not be."""
        if "epoch" in state:
            return None
        return self._late.plain.begin(trainer, state.get("late", {}).get("plain", {}))

    def look_again(self, trainer: pl.Trainer) -> None:
        """Look at the data module again, whose numbers have been put back, or removed."""
        found = of_data(trainer, loaders_of(trainer))
        others = {k: v for k, v in self.attributes.items() if not k.startswith("data 0 ")}
        self.attributes = others | {k: repr(v) for k, v in found if k.startswith("data 0 ")}

    def epoch_begins(self, trainer: pl.Trainer) -> None:
        """Look at the loaders, samplers and datasets that have been made anew for an epoch.

        They are other objects, and have not changed; a resumed training makes them likewise.
        """
        loaders = training_loaders(trainer)
        parts, known = parts_of(loaders), {id(part) for part in self.parts}
        if all(id(part) in known for part in parts):
            return
        attributes = {key: repr(value) for key, value in of_data(trainer, loaders)}
        positions = possible_positions(loaders, told_alone(loaders))
        new = [turn for turn, part in enumerate(parts) if id(part) not in known]
        # The data module is before them.
        keys = [f"{kind} {turn + 1} " for turn in new for kind in ("data", "told", "once")]
        self.attributes = _renewed(self.attributes, attributes, tuple(keys))
        turns = tuple(f"{turn} " for turn in new)
        self.positions = _renewed(self.positions, positions, turns)
        self.parts = parts

    def since(self, start: "KeptBeside") -> "KeptBeside":
        """Return this look, but for what the checkpoint of a resumed training keeps as changed."""
        self.attributes, self.made, self.clocks = start.attributes, start.made, start.clocks
        self.of_data = start.of_data
        return self

    def keep_own(self, trainer: pl.Trainer, keys: Container[str]) -> None:
        """Take what belongs to this process for what the training began with."""
        now = states_of_attributes(trainer, loaders_of(trainer), self._late.left(trainer))
        self.made |= {key: look for key, look in looks_now(trainer).items() if key in keys}
        self.attributes |= {k: v for k, v in now.items() if k in keys and k in self.attributes}

    def changed_keys(self, trainer: pl.Trainer) -> set[str]:
        """Name the attributes that have changed since, as `states_of_attributes` does."""
        now = states_of_attributes(trainer, loaders_of(trainer), self._late.left(trainer))
        return set(keys_changed(self.attributes, now))

    def not_as_it_was(
        self, trainer: pl.Trainer, attributes: Attributes, *, is_begun: bool
    ) -> str | None:
        """Name what a resumed training has otherwise than the one before the stop.

        Args:
            trainer: of the training.
            attributes: of the module, which had changed by then.
            is_begun: whether batches have come. Of a loader that was told where it is an `__iter__`
                with `yield` in it uses that up only then.
        """
        trained = {id(each) for each in training_loaders(trainer)}
        parts = enumerate(parts_of(loaders_of(trainer)), 1)  # the data module is before them
        keys = tuple(f"told {turn} " for turn, part in parts if id(part) in trained)
        saved = {f"module {path} {name}" for path, of in attributes.items() for name in of}
        others = self.changed_keys(trainer) - saved
        found = [key for key in others if key.startswith(keys) is is_begun]
        if not found:
            return None
        name = min(found).rpartition(" ")[2]
        return f"{name} is not as it was, though it had not changed before the stop"

    def _generators_made(self, trainer: pl.Trainer) -> Iterator[str]:
        """Name those of loaders and samplers that were made under way: a resumed one has none."""
        loaders = loaders_of(trainer)
        if len(generators_of(loaders)) <= len(self.generators):
            return
        for owner in self.ordering:
            made = getattr(owner, "generator", None)
            if isinstance(made, torch.Generator) and id(made) not in self.generators:
                yield (
                    f"{type(owner).__name__}.generator is a random number generator that is made "
                    f"under way, which no checkpoint holds (it may be given one from the first on)"
                )

    def changed(self, trainer: pl.Trainer) -> tuple[Attributes, list[str]]:
        """Return what of it a checkpoint must hold too, and why it cannot hold the rest."""
        now = KeptBeside(trainer, self._late)
        attributes, refused = changed_attributes(trainer, self.attributes, now.attributes)
        found = [
            *changed_callbacks(self.callbacks, now.callbacks),
            *changed_optimizers(self.optimizers, now.optimizers),
            *moved(self.positions, now.positions),
            *refused,
            *self._late.changed(trainer),
            *self._generators_made(trainer),
            *self.structure.changed(now.structure),
            *reordered(self.orders, now.orders),
            *changed_switches(self.switches, now.switches),
            *self.exchanged.changed(now.exchanged),
            *self.data.changed(now.data),
            *changed_settings(self.settings, now.settings),
        ]
        # What is computed under way is a cache, and has to stay what it is from then on.
        computed = {key for key in now.attributes if key.startswith("once ")}
        self.attributes = {key: now.attributes[key] for key in computed} | self.attributes
        loaders = training_loaders(trainer)
        kinds = {type(each).__name__ for each in loaders if hasattr(type(each), "__next__")}
        cures = dict.fromkeys(now.data.sets, _OF_SET)
        cures |= dict.fromkeys(now.data.held.of_classes, _OF_CLASS)
        cures |= dict.fromkeys(now.data.beside_loaders, _WITH_LOADERS)
        cures |= {_named(why): _CURE for why in found if why.partition(".")[0] in kinds}
        return attributes, [f"{why}{cures.get(_named(why), '')}" for why in found]


def _named(why: str) -> str:
    return why.partition(" changes ")[0]


def _renewed(
    old: Mapping[str, Look], new: Mapping[str, Look], which: tuple[str, ...]
) -> dict[str, Look]:
    """Return a look in which that at some parts is another, by how their names begin."""
    kept = {key: value for key, value in old.items() if not key.startswith(which)}
    return kept | {key: value for key, value in new.items() if key.startswith(which)}
