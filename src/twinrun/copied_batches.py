"""Batches of the same structure with other tensors, or with copies of them."""

import copy
import dataclasses
from collections.abc import Callable, Mapping, MutableMapping
from typing import TypeVar, cast

import numpy as np
import torch
from torch.utils import _pytree

from twinrun.batches import BUILT_IN, PLAIN, children, is_its_own, is_registered, tensors
from twinrun.containers import is_faceless, is_really, without_faceless

Batch = TypeVar("Batch")


def with_tensors(batch: Batch, change: Callable[[torch.Tensor], torch.Tensor]) -> Batch:
    """Return a batch of the same structure with each tensor changed; nothing is shared but values.

    Containers are made anew; what cannot be looked into is copied deeply, and shared where it
    refuses to be copied.
    """
    return cast(Batch, _changed(batch, change))


def _changed(value: object, change: Callable[[torch.Tensor], torch.Tensor]) -> object:
    if is_really(value, torch.Tensor):
        made = change(value)
        if made is not value:  # attributes are no part of what torch copies or moves
            vars(made).update({k: _changed(item, change) for k, item in vars(value).items()})
        return made
    if is_faceless(value):
        return value
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, PLAIN):
        return value
    is_open = type(value) in BUILT_IN or children(value) is not None
    if is_open and is_really(value, tuple):
        items = [_changed(item, change) for item in value]
        # A named tuple takes its items one by one.
        make: Callable[..., object] = type(value)
        return make(*items) if hasattr(value, "_fields") else make(items)
    if is_open and is_really(value, list):
        # A copy, not a new list: a subclass may have attributes of its own.
        made = copy.copy(value)
        made[:] = [_changed(item, change) for item in value]
        return made
    if is_registered(value):
        return _pytree.tree_map(
            lambda held: _changed(held, change), value, is_leaf=lambda each: each is not value
        )
    if is_open and isinstance(value, Mapping):
        keys = value.keys()
        return _mapping(value, {key: _changed(value[key], change) for key in keys})
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        made = copy.copy(value)
        for field in dataclasses.fields(value):
            if hasattr(value, field.name):  # frozen ones refuse an assignment
                item = _changed(getattr(value, field.name), change)
                object.__setattr__(made, field.name, item)
        return made
    try:
        held = {id(leaf): change(leaf) for leaf in tensors(value)}
        return copy.deepcopy(value, dict[int, object](held))
    except Exception:
        return value


def _mapping(value: Mapping[object, object], items: dict[object, object]) -> object:
    """Return a mapping of the same type with other values."""
    made = copy.copy(value)
    if made is value or not hasattr(made, "__setitem__"):
        return items
    for name, held in without_faceless(getattr(value, "__dict__", {})).items():
        if isinstance(held, dict) and is_its_own(value, held):
            vars(made)[name] = dict(held)  # the copies of some classes share it
    writable = cast(MutableMapping[object, object], made)
    for key, item in items.items():
        writable[key] = item
    return made


def copied(batch: Batch) -> Batch:
    """Return a batch that shares no tensor, array or container with the one given."""
    return with_tensors(batch, torch.Tensor.clone)
