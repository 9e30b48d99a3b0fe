"""Objects that two attributes hold, and of which a checkpoint makes two.

A list that two callbacks hold, and that each saves and loads, is one list before a stop and two
behind it. That nobody can tell as long as neither changes, so that they are watched: settings that
two were given are no reason to end a resumed training.
"""

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
import pytorch_lightning as pl
import torch

from twinrun.checkpoint.looks import UNSEEN, Handle, handles, look
from twinrun.checkpoint.plain_attributes import LIBRARIES, looked_at
from twinrun.checkpoint.stream_position import telling_data
from twinrun.checkpoint.unsaved_state import says_itself
from twinrun.checkpoint.users_code import is_users
from twinrun.containers import attributes_of, holds_for_users, is_container, is_really

Groups: TypeAlias = list[list[str]]
"""Names of attributes that hold one object."""

_WRITTEN = (deque, set, bytearray, torch.nn.Module)
_CURE = "(`load_state_dict` may fill what is there: `self.items[:] = state['items']`)"


class Parted:
    """What has become two in a training that was resumed, and what each of it was then."""

    def __init__(self) -> None:
        """Watch nothing yet."""
        self._groups: Groups = []
        self._objects: list[tuple[Sequence[str], object, str]] = []

    def groups(self, trainer: pl.Trainer) -> Groups:
        """Return what is shared now, or was shared before an earlier stop."""
        found = defaultdict(list)
        for name, (handle, _) in _held(trainer).items():
            found[handle].append(name)
        return [*self._groups, *(names for names in found.values() if len(names) > 1)]

    def resumed(self, trainer: pl.Trainer, groups: Groups) -> None:
        """Watch what was shared before the stop and is not any more."""
        held = _held(trainer) if groups else {}
        for names in groups:
            there = [held[name] for name in names if name in held]
            if len({handle for handle, _ in there}) > 1:
                self._groups.append(names)
                self._objects += [(names, value, look(value, ())) for _, value in there]

    def changed(self) -> str | None:
        """Name what has changed since, so that the other one of it has not."""
        for names, value, before in self._objects:
            if before.startswith(UNSEEN) or look(value, ()) != before:
                first, second = (name.partition(" ")[2] for name in names[:2])
                return f"{first} and {second} were one object before the stop, and are two {_CURE}"
        return None


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
            if (handle := _handle(value)) is not None:
                found[f"{turn} {type(owner).__name__}.{name}"] = handle, value
    return found


def _handle(value: object) -> Handle | None:
    """Name an object by what two have in common that hold it; None if nobody writes to it."""
    if is_really(value, torch.Tensor) or is_really(value, np.ndarray):
        return next(handles(value, LIBRARIES), None)
    is_written = is_container(value) and not is_really(value, tuple)
    is_written |= issubclass(type(value), _WRITTEN) or is_users(type(value).__module__)
    return ("object", id(value)) if is_written or holds_for_users(value) else None


def _owners(trainer: pl.Trainer) -> Iterator[object]:
    yield from vars(trainer)["callbacks"]
    yield from (config.scheduler for config in trainer.lr_scheduler_configs)
    if (data := vars(trainer).get("datamodule")) is not None:
        yield data
