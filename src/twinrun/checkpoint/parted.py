"""Objects that two attributes hold, and of which a checkpoint makes two.

A list that two callbacks hold, and that each saves and loads, is one list before a stop and two
behind it; so is one that a helper in another attribute was given, too. That nobody can tell as long
as both are alike and neither changes, so that they are watched: settings that two were given are no
reason to end a resumed training.
"""

import functools
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import pytorch_lightning as pl
import torch

from twinrun.checkpoint.held_by_called import owner_of_method
from twinrun.checkpoint.looks import UNSEEN, Handle, handles, look
from twinrun.checkpoint.plain_attributes import LIBRARIES, looked_at
from twinrun.checkpoint.schedules import schedules_of
from twinrun.checkpoint.stream_position import telling_data
from twinrun.checkpoint.unsaved_state import says_itself
from twinrun.checkpoint.users_code import attributes_seen, is_users
from twinrun.containers import attributes_of, holds_for_users, is_container, is_really

Groups: TypeAlias = list[list[str]]
"""Names of attributes that hold one object."""

_WRITTEN = (deque, set, bytearray, torch.nn.Module)
_PARTS = (torch.nn.Module, pl.Trainer, pl.Callback, pl.LightningDataModule)
_DEEPEST = 3  # objects inside each other
_CURE = "(`load_state_dict` may fill what is there: `self.items[:] = state['items']`)"


class Parted:
    """What has become two in a training that was resumed, and what each of it was then."""

    def __init__(self) -> None:
        """Watch nothing yet."""
        self._groups: Groups = []
        self._objects: list[tuple[Sequence[str], object, str]] = []
        self._unlike: Sequence[str] | None = None  # already where the training was resumed

    def state(self, trainer: pl.Trainer) -> dict[str, Groups]:
        """Return what is shared now, and what was before an earlier stop and is not any more."""
        found = defaultdict(list)
        for name, (handle, _) in _held(trainer).items():
            found[handle].append(name)
        return {
            "shared": [names for names in found.values() if len(names) > 1],
            "apart": self._groups,
        }

    def resumed(self, trainer: pl.Trainer, state: Mapping[str, Groups]) -> None:
        """Watch what was shared before a stop and is not any more; see `state`."""
        shared, apart = state.get("shared", []), state.get("apart", [])  # older versions have none
        held = _held(trainer) if shared or apart else {}
        for names in [*shared, *apart]:
            there = [held[name] for name in names if name in held]
            if len({handle for handle, _ in there}) < 2:
                continue
            looks = [look(value, ()) for _, value in there]
            if names in shared and len({*looks}) > 1:
                self._unlike = names
            self._groups.append(names)
            self._objects += [
                (names, value, seen) for (_, value), seen in zip(there, looks, strict=True)
            ]

    def changed(self) -> str | None:
        """Name what has changed since, so that the other one of it has not."""
        if self._unlike is not None:
            return _sentence(self._unlike)
        for names, value, before in self._objects:
            if before.startswith(UNSEEN) or look(value, ()) != before:
                return _sentence(names)
        return None


def _sentence(names: Sequence[str]) -> str:
    first, second = (name.partition(" ")[2] for name in names[:2])
    return f"{first} and {second} were one object before the stop, and are two {_CURE}"


def _held(trainer: pl.Trainer) -> dict[str, tuple[Handle, object]]:
    """Name what may be shared and written to, where somebody loads a state of their own."""
    owners = [*_owners(trainer)]
    if telling_data(trainer) is None and not any(says_itself(type(each)) for each in owners):
        return {}
    found = {}
    parts = [*trainer.lightning_module.modules()]
    pairs = [(owner, attributes_of(owner)) for owner in owners]
    for turn, (owner, values) in enumerate(pairs + [(part, looked_at(part)) for part in parts]):
        for name, value in values.items():
            called = f"{turn} {type(owner).__name__}.{name}"
            for path, inner in [("", value), *_inside(value)]:
                if (handle := _handle(inner)) is not None:
                    found[f"{called}{path}"] = handle, inner
    return found


def _inside(value: object, deeper: int = _DEEPEST) -> Iterator[tuple[str, object]]:
    """Yield what lies in objects of a user's own, in partials and in the objects of methods."""
    if not deeper or is_container(value):
        return
    held = dict[str, object]()
    if type(value) is functools.partial:
        held = {f".args[{turn}]": each for turn, each in enumerate(value.args)}
        held |= {f".keywords[{name!r}]": each for name, each in value.keywords.items()}
    elif (owner := owner_of_method(value)) is not None:
        held = {".__self__": owner}
    elif is_users(type(value).__module__) and not any(is_really(value, part) for part in _PARTS):
        held = {f".{name}": each for name, each in attributes_seen(value).items()}
    for name, each in held.items():
        yield name, each
        for path, inner in _inside(each, deeper - 1):
            yield f"{name}{path}", inner


def _handle(value: object) -> Handle | None:
    """Name an object by what two have in common that hold it; None if nobody writes to it."""
    if is_really(value, torch.Tensor) or is_really(value, np.ndarray):
        return next(handles(value, LIBRARIES), None)
    is_written = is_container(value) and not is_really(value, tuple)
    is_written |= issubclass(type(value), _WRITTEN) or is_users(type(value).__module__)
    return ("object", id(value)) if is_written or holds_for_users(value) else None


def _owners(trainer: pl.Trainer) -> Iterator[object]:
    yield from vars(trainer)["callbacks"]
    yield from schedules_of(trainer)
    if (data := vars(trainer).get("datamodule")) is not None:
        yield data
