"""What callbacks with a state of their own, and data modules, have beside that state."""

import pytorch_lightning as pl
import torch

from twinrun.checkpoint.looks import look
from twinrun.checkpoint.own_states import OwnState
from twinrun.checkpoint.own_to_process import holds_names, is_of_clock, is_short
from twinrun.checkpoint.plain_data import PLAIN, is_plain
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
    """Return what callbacks with a state of their own have of plain data, and layers.

    No clocks, and no names in containers. Of the data module, which holds data, no more than
    numbers, texts and short lists.
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
        return not is_of_clock(value)
    is_few = not is_data or (is_container(value) and size_of(value) <= MOST_LOOKED_AT)
    if not (is_few and is_short(value) and is_plain(value)):
        return False
    return not (holds_names(value) or is_of_clock(value))


def are_layers_of_state(owner: object, name: str, value: object) -> bool:
    """Say whether a value is layers that the state of their owner holds: loading it sets them."""
    if not is_really(value, torch.nn.Module):
        return False
    return OwnState(owner).holds_all(name, value.state_dict())
