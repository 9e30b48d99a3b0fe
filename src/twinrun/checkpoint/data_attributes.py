"""What data modules, loaders, samplers and datasets keep in attributes, as far as it is plain."""

from collections.abc import Container, Iterator, Mapping, Sequence

import numpy as np
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader

from twinrun.checkpoint.own_states import OwnState, Said
from twinrun.checkpoint.plain_data import PLAIN
from twinrun.checkpoint.stateful import Stateful
from twinrun.checkpoint.stream_position import is_stream, parts_of, telling_data, told_anew
from twinrun.checkpoint.unsaved_state import MOST_LOOKED_AT, OURS
from twinrun.checkpoint.users_code import (
    attributes_seen,
    is_computed_once,
    is_mapped,
    is_users,
)
from twinrun.containers import entries, is_container, size_of
from twinrun.generators import GENERATORS
from twinrun.hidden_content import NUMBERS
from twinrun.set_attributes import set_by_other_bases

LIBRARIES = (*OURS, "torch.", "torchmetrics.")  # keep themselves, or are kept otherwise
_OF_DATA = {*vars(pl.LightningDataModule()), "_hparams_initial"}


def of_data(
    trainer: pl.Trainer, loaders: Sequence[object], left: Container[tuple[int, str]] = ()
) -> Iterator[tuple[str, object]]:
    """Yield the plain attributes of the data module, loaders, samplers and datasets.

    Args:
        trainer: of the training.
        loaders: of the training.
        left: attributes that are looked at elsewhere (see `late_attributes`), by their owner.
    """
    owners = [vars(trainer).get("datamodule"), *parts_of(loaders)]
    for index, owner in enumerate(owners):
        is_known = type(owner).__module__.startswith(LIBRARIES)
        is_telling = isinstance(owner, Stateful) if index else telling_data(trainer) is not None
        is_of_library = isinstance(owner, DataLoader) or not is_users(type(owner).__module__)
        # What says itself where it is may leave a number out: that of a library does not.
        is_left = index > 0 and is_telling and is_of_library
        # The numbers of a stream are looked at as positions: see `stream_position`.
        is_left |= index > 0 and not is_telling and is_stream(owner)
        if owner is None or is_known or is_left:
            continue
        state = OwnState(owner) if is_telling else None
        told = told_anew(owner) if index else set()
        told |= set_by_other_bases(type(owner), is_users) if index and is_telling else set()
        attributes = attributes_seen(owner)
        # It is there, and has these: what it is first given under way has changed.
        prefix = f"{'told' if index and is_telling else 'data'} {index} {type(owner).__name__}."
        yield prefix, Said([f"{name}" for name in attributes])
        for name, value in attributes.items():
            key = f"{'once' if is_computed_once(owner, name) else prefix[:4]}{prefix[4:]}{name}"
            if (id(owner), name) in left:  # as if nothing had come into its place
                yield key, Said("None")
                continue
            is_list = is_container(value) and not isinstance(value, dict)
            is_short = not is_list or size_of(value) <= MOST_LOOKED_AT
            few = [item for _, item in entries(value)] if is_list and is_short else [value]
            is_short = is_short and all(isinstance(v, (*PLAIN, *NUMBERS)) for v in few)
            if is_short and name not in {*_OF_DATA, *told}:
                is_said = state is not None and state.holds_all(name, value)
                yield key, Said(repr(value)) if is_said else value
            elif _is_handle(value):  # of a file that is opened where it is first read, or closed
                yield key, Said("None")


def had(before: Mapping[str, str], key: str) -> bool:
    """Say whether a part of the data had an attribute, as a function, say, or a tensor."""
    part, _, name = key.partition(" ")[2].rpartition(".")
    return any(f"{name!r}" in before.get(f"{kind} {part}.", "") for kind in ("data", "told"))


def _is_handle(value: object) -> bool:
    """Say whether a value is a library's object that holds no data that could be seen."""
    others = (*PLAIN, torch.Tensor, np.ndarray, *GENERATORS)
    is_data = isinstance(value, others) or is_container(value) or callable(value)
    return is_mapped(value) or not (is_data or is_users(type(value).__module__))
