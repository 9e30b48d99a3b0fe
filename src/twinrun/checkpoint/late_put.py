"""Where in data something lies by its name, and how it is put there."""

import collections
import types
from collections.abc import Mapping, Sequence
from typing import Any

import pytorch_lightning as pl

from twinrun.checkpoint.held_content import Part
from twinrun.checkpoint.refusals import loaders_of
from twinrun.checkpoint.stream_position import parts_of
from twinrun.checkpoint.users_attributes import UsersAttribute, users_attributes
from twinrun.checkpoint.users_code import attributes_seen
from twinrun.containers import is_really

_WITH_POSITIONS: tuple[type[Any], ...] = (list, tuple, collections.deque)
OWNER, ATTRIBUTE = "o", "a"  # what the name of something known begins with


def owners_and_values(
    trainer: pl.Trainer,
) -> tuple[dict[str, object], dict[str, UsersAttribute]]:
    """Return what has attributes that are looked at, and these, by their names."""
    loaders = loaders_of(trainer)
    values = dict(users_attributes(trainer, loaders))
    parts = [*enumerate(parts_of(loaders), 1), (0, vars(trainer).get("datamodule"))]
    own = {f"{turn} {type(part).__name__}": part for turn, part in parts}
    return {**own, **{name.rpartition(".")[0]: each.owner for name, each in values.items()}}, values


def named(name: str, owners: Mapping[str, object], values: Mapping[str, UsersAttribute]) -> object:
    """Return what a name stands for that begins with `OWNER` or `ATTRIBUTE`."""
    called = name[1:]
    return owners[called] if name.startswith(OWNER) else values[called].value


def lies_at(owners: Mapping[str, object], called: str, keys: Sequence[object]) -> Any:
    """Return what lies somewhere; None if nothing does."""
    value: Any = attributes_seen(owners[path_of(called)]).get(called.rpartition(".")[2])
    for key in keys:
        value = _entry(value, key)
    return value


def _entry(value: Any, key: Any) -> Any:
    if is_really(value, dict):
        return dict.get(value, key)
    for kind in _WITH_POSITIONS:
        if issubclass(type(value), kind):
            return kind.__getitem__(value, key) if key < kind.__len__(value) else None
    return attributes_seen(value).get(str(key)[1:])


def path_of(called: str) -> str:
    """Return by which name an attribute's owner is known."""
    return called.rpartition(".")[0]


def put(owners: Mapping[str, object], part: Part) -> None:
    """Have a part lie where it lay."""
    called, keys, value = part
    last: Any = keys[-1] if keys else None
    if lies_at(owners, called, keys) is value:
        return
    if not keys:
        _set(owners[path_of(called)], called.rpartition(".")[2], value)
        return
    holder = lies_at(owners, called, keys[:-1])
    if is_really(holder, dict):
        dict.__setitem__(holder, last, value)
    elif is_really(holder, list) or isinstance(holder, collections.deque):
        holder[last] = value
    else:
        _set(holder, str(last)[1:], value)


def _set(owner: Any, name: str, value: object) -> None:
    """Set an attribute, whatever code of its class sets it by."""
    for base in type(owner).__mro__:
        if isinstance(member := vars(base).get(name), types.MemberDescriptorType):
            member.__set__(owner, value)
            return
    vars(owner)[name] = value
