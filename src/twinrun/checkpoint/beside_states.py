"""What callbacks with a state of their own, and data modules, have beside that state."""

import enum
from collections import deque
from itertools import islice
from pathlib import PurePath

import numpy as np
import pytorch_lightning as pl
import torch
from torch.utils.data import Dataset, Sampler

from twinrun.checkpoint.begun_generators import generators_in, with_generators
from twinrun.checkpoint.held_by_called import held_in
from twinrun.checkpoint.own_states import OwnState
from twinrun.checkpoint.own_to_process import in_short_table, is_moment, is_short
from twinrun.checkpoint.plain_data import PLAIN, is_plain
from twinrun.checkpoint.plain_objects import bytes_in
from twinrun.checkpoint.said_inside import said_inside
from twinrun.checkpoint.unsaved_state import (
    kept_anyway,
    look_of_callbacks,
    own_of_callback,
    says_itself,
)
from twinrun.checkpoint.users_code import attributes_seen, is_users
from twinrun.containers import is_container, is_really

_MOST_NUMBERS, _MOST_BYTES = 1 << 16, 1 << 20  # of a data module
BESIDE, DATA = "beside ", "data"  # the data module, in the place of a callback's turn


def beside_states_now(trainer: pl.Trainer) -> dict[str, str]:
    """Look at it, by turn, class and name."""
    kept = kept_anyway(trainer)
    found = beside_states(trainer)
    looks = {key: look_of_callbacks(value, kept, kept) for key, value in found.items()}
    return with_generators(looks, found, kept)


def beside_states(trainer: pl.Trainer) -> dict[str, object]:
    """Return what callbacks with a state of their own have in attributes, but for moments.

    Nor containers of very many values. Of the data module, which holds data, no more than numbers,
    texts and short lists and arrays.
    """
    known = kept_anyway(trainer)
    owners: dict[str, object] = {
        str(turn): each
        for turn, each in enumerate(vars(trainer)["callbacks"])
        if says_itself(type(each))
    }
    if (data := vars(trainer).get("datamodule")) is not None:
        owners[DATA] = data
    return {
        f"{BESIDE}{turn} {type(owner).__name__}.{name}": value
        for turn, owner in owners.items()
        for name, value in own_of_callback(owner, known)
        if _is_looked_at(value, is_data=turn == DATA)
    }


def _is_looked_at(value: object, *, is_data: bool) -> bool:
    if is_really(value, torch.nn.Module):
        return not is_data
    if type(value) in PLAIN:
        return not is_moment(value)
    if is_data:  # which may be data
        return _is_few(value)
    return not is_container(value) or is_short(value)


def _is_few(value: object) -> bool:
    if isinstance(value, enum.Enum):
        return True
    if isinstance(value, np.ndarray | np.generic):
        return value.size <= _MOST_NUMBERS
    if isinstance(value, torch.Tensor):
        return value.numel() <= _MOST_NUMBERS
    if isinstance(value, deque):
        value = [*islice(value, _MOST_NUMBERS + 1)]
    if is_container(value):
        found = in_short_table(value)
        return found is not None and bytes_in(found) <= _MOST_BYTES and all(map(_is_small, found))
    return _is_small(value)


def _is_small(value: object) -> bool:
    """Say whether a value of a data module is too little to be data."""
    if is_plain(value) or isinstance(value, np.ndarray | PurePath):
        return True
    # One that has items may be data.
    is_data = hasattr(type(value), "__getitem__") or isinstance(value, Dataset | Sampler)
    if is_data or not is_users(type(value).__module__):
        return False
    held = attributes_seen(value)
    found = in_short_table(held)
    return found is not None and all(map(is_plain, found)) and bytes_in(found) <= _MOST_BYTES


def is_of_state(owner: object, name: str, value: object) -> bool:
    """Say whether a value is no plain data, and its owner's state holds it: loading sets it."""
    if is_really(value, torch.nn.Module):
        return OwnState(owner).holds_all(name, value.state_dict())
    if is_plain(value):
        return False
    state, is_function, value = OwnState(owner), callable(value), held_in(value)
    if is_function and value is None:
        return False
    generators = [*generators_in(value)]
    if not all(state.holds_generator(name, each) for each in generators):
        return False
    found = said_inside(state, name, value)
    # What shows nothing is held by no state.
    return bool(found or generators) and all(found)
