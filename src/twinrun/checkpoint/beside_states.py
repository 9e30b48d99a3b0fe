"""What callbacks with a state of their own, and data modules, have beside that state."""

import enum

import numpy as np
import pytorch_lightning as pl
import torch

from twinrun.checkpoint.looks import look
from twinrun.checkpoint.own_states import OwnState
from twinrun.checkpoint.own_to_process import is_moment, is_short, is_short_table
from twinrun.checkpoint.plain_data import PLAIN, is_plain
from twinrun.checkpoint.plain_objects import held_by
from twinrun.checkpoint.unsaved_state import (
    MOST_LOOKED_AT,
    kept_anyway,
    own_of_callback,
    says_itself,
)
from twinrun.containers import is_container, is_really, size_of

BESIDE, DATA = "beside ", "data"  # the data module, in the place of a callback's turn


def beside_states_now(trainer: pl.Trainer) -> dict[str, str]:
    """Look at it, by turn, class and name."""
    return {key: look(value, ()) for key, value in beside_states(trainer).items()}


def beside_states(trainer: pl.Trainer) -> dict[str, object]:
    """Return what callbacks with a state of their own have of plain data and objects, and layers.

    No moments. Of the data module, which holds data, no more than numbers, texts and short lists
    and arrays.
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
    if is_data:
        return _is_few(value) and is_plain(value)
    is_array = isinstance(value, np.ndarray) and not value.dtype.hasobject
    return is_array or held_by(value) is not None or (is_short(value) and is_plain(value))


def _is_few(value: object) -> bool:
    if isinstance(value, enum.Enum):
        return True
    if isinstance(value, np.ndarray | np.generic):
        return value.size <= MOST_LOOKED_AT
    if isinstance(value, torch.Tensor):
        return value.numel() <= MOST_LOOKED_AT
    if not (is_container(value) and size_of(value) <= MOST_LOOKED_AT):
        return False
    return is_short_table(value)  # a split may have all its samples in one of two lists


def is_of_state(owner: object, name: str, value: object) -> bool:
    """Say whether a value is no plain data, and its owner's state holds it: loading sets it."""
    if is_really(value, torch.nn.Module):
        return OwnState(owner).holds_all(name, value.state_dict())
    return not is_plain(value) and OwnState(owner).holds_all(name, value)
