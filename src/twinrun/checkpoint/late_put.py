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
from twinrun.containers import entries, is_container, is_really

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
    path, _, name = called.rpartition(".")
    value: Any = attributes_seen(owners[path]).get(name)
    for key in keys:
        if is_container(value) or isinstance(value, collections.deque):
            value = dict(entries(value) if is_container(value) else enumerate(value)).get(key)
        else:
            value = attributes_seen(value).get(str(key)[1:])
    return value


def put(owners: Mapping[str, object], part: Part) -> None:
    """Have a part lie where it lay."""
    called, keys, value = part
    last: Any = keys[-1] if keys else None
    if lies_at(owners, called, keys) is value:
        return
    if not keys:
        path, _, name = called.rpartition(".")
        _set(owners[path], name, value)
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
