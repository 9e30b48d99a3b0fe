"""What a training begins with: its first hooks take that from the weights, or from the step.

They are called once more where a training is resumed, with the weights of the checkpoint: an anchor
that weights are drawn to, their norm at the start, the number of the first step. What is plain data
is put back as it was where the first process began; what is not is a reason to resume nothing.
"""

from collections.abc import Container, Mapping, Sequence
from typing import Any, TypedDict

import numpy as np
import pytorch_lightning as pl
import torch
from torch.utils._pytree import tree_leaves

from twinrun.checkpoint.beside_states import (
    BESIDE,
    DATA,
    are_layers_of_state,
    beside_states,
    beside_states_now,
)
from twinrun.checkpoint.looks import UNSEEN
from twinrun.checkpoint.own_states import SAID, is_other
from twinrun.checkpoint.own_to_process import is_of_clock, is_of_process, is_word
from twinrun.checkpoint.plain_attributes import (
    Attributes,
    looked_at,
    set_attribute,
    states_of_attributes,
    unshared,
)
from twinrun.checkpoint.plain_data import given_back, is_plain, kept
from twinrun.checkpoint.unsaved_optimizers import (
    TEXT,
    states_of_optimizers,
    values_of_optimizers,
)
from twinrun.checkpoint.unsaved_state import (
    attributes_of_callbacks,
    kept_anyway,
    look_of_callbacks,
)

MOST_KEPT = 1 << 26  # bytes of tensors in an attribute that has not changed
_MODULE, _CALLBACK, _OPTIMIZER = "module ", "callback ", "optimizer "


class AtStart(TypedDict):
    """What a checkpoint holds of where its training began."""

    looks: dict[str, str]
    """Hashes of the attributes that had been set by hooks then, by owner and name."""
    values: dict[str, Any]
    """What has not changed since, as far as it is plain data."""


def looks_now(trainer: pl.Trainer) -> dict[str, str]:
    """Hash what module, callbacks and optimizers have in attributes, as any process would."""
    module = trainer.lightning_module
    attributes = states_of_attributes(trainer, ())
    held = {id(tensor) for tensor in (*module.parameters(), *module.buffers())}
    kept = kept_anyway(trainer)
    callbacks = attributes_of_callbacks(trainer, kept)
    found = {
        **{key: state for key, state in attributes.items() if key.startswith(_MODULE)},
        **{f"{_CALLBACK}{key}": look_of_callbacks(value, held, kept) for key, value in callbacks},
        **{f"{_OPTIMIZER}{key}": state for key, state in states_of_optimizers(trainer).items()},
        **beside_states_now(trainer),
    }
    return {key: state for key, state in found.items() if not state.startswith((UNSEEN, TEXT))}


def made_since(trainer: pl.Trainer, told: Mapping[str, str]) -> dict[str, str]:
    """Return of `looks_now` what has changed since, all texts, and all that is beside states.

    What of that a state holds is not known: it is put back if it stays what it is.
    """
    names, looks = left_alone(trainer), looks_now(trainer).items()
    return {k: v for k, v in looks if told.get(k) != v or k.startswith(BESIDE) or k in names}


def state_at_start(
    trainer: pl.Trainer, looks: Mapping[str, str], *, is_this: bool = False
) -> AtStart:
    """Return what brings a resumed training to where the first process began.

    Args:
        trainer: of the training.
        looks: of `looks_now` there, what hooks had set.
        is_this: it is this process itself, whose texts and moments are right.
    """
    if not looks:
        return AtStart(looks={}, values={})
    now = looks_now(trainer)
    same = {key for key, state in looks.items() if now.get(key) == state}
    attributes = _attributes(trainer)
    gone = {key for key in looks if _is_gone(trainer, key, attributes.get(key), key in same)}
    values = unshared(trainer, {k: v for k, v in attributes.items() if k in same})
    return AtStart(
        looks={k: f"{SAID}{v.removeprefix(SAID)}" if k in gone else v for k, v in looks.items()},
        values={
            key: kept(value)
            for key, value in values.items()
            if _is_small(value) and (is_this or not is_of_process(value))
        },
    )


def _is_gone(trainer: pl.Trainer, key: str, value: object, is_same: bool) -> bool:
    """Say whether an attribute is no more of the start: of a clock, or in its owner's state."""
    if not key.startswith(BESIDE):
        return is_of_clock(value)
    return not is_same or are_layers_of_state(*_owner_of(trainer, key), value)


def made_anew(
    now: Mapping[str, str], start: Container[str], before: Container[str], changed: Attributes
) -> list[str]:
    """Name the attributes that there are only because a training is resumed.

    Args:
        now: as `looks_now` found what there is behind the hooks that begin one.
        start: the keys of what there was in the first process then.
        before: what there was in this one before loading, and before any hook.
        changed: what has come since, and is put back.
    """
    later = _later(changed)
    return [
        key
        for key, state in now.items()
        if key.startswith((_MODULE, _CALLBACK))
        and is_other(None, state)
        and not (key in start or key in before or key in later)
    ]


def remove(trainer: pl.Trainer, keys: Sequence[str]) -> str | None:
    """Remove these attributes; name one that cannot be removed, if there is one."""
    only = "is there only where the training is resumed"
    layers = [key for key in keys if key.startswith(_MODULE) and key.endswith(" training")]
    if layers:  # each has that
        path = layers[0].removeprefix(_MODULE).rpartition(" ")[0]
        return f"{type(trainer.lightning_module).__name__}.{path} {only}"
    for key in keys:
        owner, name = _owner_of(trainer, key)
        if name not in vars(owner):  # of what TorchScript keeps, say
            return f"{_called(trainer, key)} {only}"
        delattr(owner, name)
    return None


def put_back_start(
    trainer: pl.Trainer,
    found: Mapping[str, str],
    saved: AtStart,
    changed: Attributes,
    before: Mapping[str, str],
) -> str | None:
    """Put back what the hooks that begin a training have made otherwise than in its first process.

    Args:
        trainer: of the training.
        found: as `looks_now` found them behind these hooks.
        saved: of the checkpoint.
        changed: what has changed later, and is put back as it was last.
        before: as `looks_now` found them before any hook, and before loading but beside states.

    Returns:
        What cannot be put back, if anything.
    """
    later = _later(changed)
    left, own = left_alone(trainer, saved["values"]), _of_optimizers(trainer)
    for key, state in saved["looks"].items():
        others = {each for each in (state, found.get(key, "")) if not each.startswith(SAID)}
        is_kept = key in saved["values"]
        if len(others) < 2 or key in later or key in left:
            continue
        if key.startswith(BESIDE) and found.get(key) == before.get(key):
            continue
        value = given_back(saved["values"].get(key), trainer.strategy.root_device)
        there = own.get(key.removeprefix(_OPTIMIZER))
        if is_kept and not isinstance(there, torch.Tensor | np.ndarray):
            _set(trainer, key, value)
        elif not is_kept or not _is_filled(there, value):  # wherever it lies
            return f"{_called(trainer, key)} is not what it was where the training began"
    return None


def _later(changed: Attributes) -> set[str]:
    return {f"{_MODULE}{path} {name}" for path, values in changed.items() for name in values}


def left_alone(trainer: pl.Trainer, values: Container[str] = ()) -> set[str]:
    """Tell which are texts, paths or moments: those are of the process that made them.

    Args:
        trainer: of the training.
        values: the keys of what can be put back, in which a word is no name but a state.
    """
    found = _attributes(trainer).items()
    return {k for k, v in found if is_of_process(v) and not (k in values and is_word(v))}


def _attributes(trainer: pl.Trainer) -> dict[str, object]:
    parts = trainer.lightning_module.named_modules()
    callbacks = attributes_of_callbacks(trainer, kept_anyway(trainer))
    return {
        **{f"{_MODULE}{p} {name}": v for p, part in parts for name, v in looked_at(part).items()},
        **{f"{_CALLBACK}{key}": value for key, value in callbacks},
        **{f"{_OPTIMIZER}{key}": value for key, value in _of_optimizers(trainer).items()},
        **beside_states(trainer),
    }


def _of_optimizers(trainer: pl.Trainer) -> dict[str, object]:
    """Return what can be set in optimizers: plain attributes, and tensors and arrays anywhere."""
    return {
        key: value
        for key, path, value in values_of_optimizers(trainer)
        if path.isidentifier() or isinstance(value, torch.Tensor | np.ndarray)
    }


def is_kept(value: object) -> bool:
    """Say whether a checkpoint holds what has been set: plain data that is not too large."""
    return _is_small(value) and not is_of_process(value)


def _is_small(value: object) -> bool:
    tensors = [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor | np.ndarray)]
    return is_plain(value) and sum(tensor.nbytes for tensor in tensors) <= MOST_KEPT


def _called(trainer: pl.Trainer, key: str) -> str:
    path, _, name = key.removeprefix(_MODULE).rpartition(" ")
    if not key.startswith(_MODULE):
        return name
    return f"{type(trainer.lightning_module.get_submodule(path)).__name__}.{name}"


def _set(trainer: pl.Trainer, key: str, value: object) -> None:
    owner, name = _owner_of(trainer, key)
    if isinstance(owner, torch.nn.Module):
        set_attribute(owner, name, value)
    else:
        setattr(owner, name, value)


def _owner_of(trainer: pl.Trainer, key: str) -> tuple[object, str]:
    """Return what has the attribute that a key names, and its name there."""
    if key.startswith(_MODULE):
        path, _, name = key.removeprefix(_MODULE).rpartition(" ")
        return trainer.lightning_module.get_submodule(path), name
    kind = next(kind for kind in (_CALLBACK, _OPTIMIZER, BESIDE) if key.startswith(kind))
    index, name = key.removeprefix(kind).split(" ", 1)
    if index == DATA:
        return vars(trainer)["datamodule"], name.partition(".")[2]
    several = trainer.optimizers if kind == _OPTIMIZER else vars(trainer)["callbacks"]
    return several[int(index)], name.partition(".")[2]


@torch.no_grad()
def _is_filled(own: Any, value: Any) -> bool:
    """Write a tensor or an array into another one of its kind; say whether that could be done."""
    is_like = type(own) is type(value) and (own.shape, own.dtype) == (value.shape, value.dtype)
    if is_like:
        own[...] = value
    return is_like
