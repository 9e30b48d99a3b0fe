"""What a training begins with: its first hooks take that from the weights, or from the step.

They are called once more where a training is resumed, with the weights of the checkpoint: an anchor
that weights are drawn to, their norm at the start, the number of the first step. What is plain data
is put back as it was where the first process began; what is not is a reason to resume nothing.
"""

from collections.abc import Collection, Container, Mapping, Sequence
from typing import Any, NotRequired, TypedDict

import numpy as np
import pytorch_lightning as pl
import torch

from twinrun.checkpoint.begun_attributes import (
    CALLBACK,
    IS_CALLED,
    MODULE,
    OPTIMIZER,
    attributes_now,
    called,
    left_alone,
    looks_now,
    owner_of,
    set_to,
)
from twinrun.checkpoint.beside_states import BESIDE, DATA, is_of_state
from twinrun.checkpoint.own_states import SAID, is_other
from twinrun.checkpoint.own_to_process import (
    Clocks,
    is_moment,
    is_name_or_moment,
    is_of_process,
    is_text_for_all,
    with_own,
)
from twinrun.checkpoint.plain_attributes import Attributes, unshared
from twinrun.checkpoint.plain_data import given_back, is_plain, kept
from twinrun.checkpoint.plain_objects import bytes_in, is_object, kept_of, set_again
from twinrun.checkpoint.unsaved_state import kept_anyway
from twinrun.checkpoint.users_code import attributes_seen

_NOTHING = object()  # another one may be there by `other_key`
MOST_KEPT = 1 << 26  # bytes of tensors in an attribute that has not changed
_OTHER = (
    "is not what it was where the training began (what `__init__` makes stays what it is, and "
    "plain numbers, tensors and words are put back)"
)


class AtStart(TypedDict):
    """What a checkpoint holds of where its training began."""

    looks: dict[str, str]
    """Hashes of the attributes that had been set by hooks then, by owner and name."""
    values: dict[str, Any]
    """What has not changed since, as far as it is plain data."""
    clocks: NotRequired[list[float]]
    """Of the process that wrote it; older versions have none."""
    of_data: NotRequired[list[str]]
    """Names of attributes that the data module had, at the start or since; older ones lack it."""


def state_at_start(
    trainer: pl.Trainer,
    looks: Mapping[str, str],
    clocks: Clocks = (),
    of_data: Collection[str] = (),
    *,
    is_this: bool = False,
) -> AtStart:
    """Return what brings a resumed training to where the first process began.

    Args:
        trainer: of the training.
        looks: of `looks_now` there, what hooks had set.
        clocks: of this process.
        of_data: what the data module had there, whatever it is.
        is_this: it is this process itself, whose texts and moments are right.
    """
    named = sorted({*of_data, *names_of_data(trainer)})
    if not looks:
        return AtStart(looks={}, values={}, of_data=named)
    now = looks_now(trainer)
    same = {key for key, state in looks.items() if now.get(key) == state}
    attributes = attributes_now(trainer)
    gone = {key for key in looks if _is_gone(trainer, key, attributes.get(key), key in same)}
    parts = kept_anyway(trainer)
    values = unshared(trainer, {k: v for k, v in attributes.items() if k in same}, parts).items()
    values = {k: v for k, v in values if is_this or not is_name_or_moment(v) or is_text_for_all(v)}
    forms = {k: kept_of(v, MOST_KEPT, parts) for k, v in values.items()}
    return AtStart(
        looks={k: f"{SAID}{v.removeprefix(SAID)}" if k in gone else v for k, v in looks.items()},
        values={
            **{k: form for k, form in forms.items() if form is not None},
            **{k: kept(v) for k, v in values.items() if _is_small(v)},
        },
        clocks=list(clocks),
        of_data=named,
    )


def _is_gone(trainer: pl.Trainer, key: str, value: object, is_same: bool) -> bool:
    """Say whether an attribute is no more of the start: a moment, or in its owner's state."""
    if not key.startswith(BESIDE):
        return is_moment(value)
    return not is_same or is_of_state(*owner_of(trainer, key), value)


def names_of_data(trainer: pl.Trainer) -> set[str]:
    """Name the attributes of the data module: what lies there may be data, and is not looked at."""
    return {n for n in attributes_seen(vars(trainer).get("datamodule")) if type(n) is str}


def made_anew(
    now: Mapping[str, str],
    start: Container[str],
    before: Container[str],
    changed: Attributes,
    of_data: Container[str] | None,
) -> list[str]:
    """Name the attributes that there are only because a training is resumed.

    Args:
        now: as `looks_now` found what there is behind the hooks that begin one.
        start: the keys of what there was in the first process then.
        before: what there was in this one before loading, and before any hook.
        changed: what has come since, and is put back.
        of_data: the names that there may be in the data module, None if all.
    """
    later, beside = _later(changed), f"{BESIDE}{DATA} "

    def may_be(key: str) -> bool:
        """Say whether the first process may have had it, and not looked at it."""
        name = key.removesuffix(IS_CALLED).partition(".")[2]
        return key.startswith(beside) and (of_data is None or name in of_data)

    return [
        key
        for key, state in now.items()
        if key.startswith((MODULE, CALLBACK, BESIDE))
        and not may_be(key)
        and is_other(None, state)
        # What could not be called, or could be, before: there was an attribute.
        and not any(
            each in start or each in before or each in later for each in (key, other_key(key))
        )
    ]


def other_key(key: str) -> str:
    """Return by which key an attribute is looked at if it can be called, and else if it cannot.

    >>> other_key("module  a"), other_key("module  a()")
    ('module  a()', 'module  a')
    """
    return key.removesuffix(IS_CALLED) if key.endswith(IS_CALLED) else f"{key}{IS_CALLED}"


def remove(trainer: pl.Trainer, keys: Sequence[str]) -> str | None:
    """Remove these attributes; name one that cannot be removed, if there is one."""
    only = "is there only where the training is resumed"
    layers = [key for key in keys if key.startswith(MODULE) and key.endswith(" training")]
    if layers:  # each has that
        path = layers[0].removeprefix(MODULE).rpartition(" ")[0]
        return f"{type(trainer.lightning_module).__name__}.{path} {only}"
    for key in dict.fromkeys(key.removesuffix(IS_CALLED) for key in keys):
        owner, name = owner_of(trainer, key)
        if name not in vars(owner):  # of what TorchScript keeps, say
            return f"{called(trainer, key)} {only}"
        delattr(owner, name)
    return None


def put_back_start(
    trainer: pl.Trainer,
    found: Mapping[str, str],
    saved: AtStart,
    changed: Attributes,
    before: Mapping[str, str],
    clocks: Clocks,
) -> tuple[str | None, set[str]]:
    """Put back what the hooks that begin a training have made otherwise than in its first process.

    Args:
        trainer: of the training.
        found: as `looks_now` found them behind these hooks.
        saved: of the checkpoint.
        changed: what has changed later, and is put back as it was last.
        before: as `looks_now` found them before any hook, and before loading but beside states.
        clocks: of this process.

    Returns:
        What cannot be put back, if anything; and of what something belongs to this process.
    """
    later = _later(changed)
    left, there = left_alone(trainer, saved["values"]), attributes_now(trainer)
    then, own = saved["clocks"] if "clocks" in saved else (), set[str]()  # noqa: SIM401
    parts = kept_anyway(trainer)
    for key, state in saved["looks"].items():
        others = {each for each in (state, found.get(key, "")) if not each.startswith(SAID)}
        raw = saved["values"].get(key)
        is_kept = key in saved["values"] and not is_object(raw)
        if len(others) < 2 or key in later or key in left:
            continue
        if key.startswith(BESIDE) and found.get(key) == before.get(key):
            continue
        value, now = given_back(raw, trainer.strategy.root_device), there.get(key, _NOTHING)
        made, is_set = set_again(raw, now, then, clocks, parts)
        if is_set:
            own.add(key)
            if made is not now:
                set_to(trainer, key, made)
            continue
        is_filled = key.startswith(OPTIMIZER) and isinstance(now, torch.Tensor | np.ndarray)
        if is_kept and not is_filled:
            value, has_own = with_own(value, now, then, clocks)
            own |= {key} if has_own else set()
            if value is not now:
                set_to(trainer, key, value)
        elif not is_kept or not _is_filled(now, value):  # wherever it lies
            return f"{called(trainer, key)} {_OTHER}", own
    return None, own


def _later(changed: Attributes) -> set[str]:
    return {f"{MODULE}{path} {name}" for path, values in changed.items() for name in values}


def is_kept(value: object) -> bool:
    """Say whether a checkpoint holds what has been set: plain data that is not too large."""
    return _is_small(value) and not is_of_process(value)


def _is_small(value: object) -> bool:
    return is_plain(value) and bytes_in(value) <= MOST_KEPT


@torch.no_grad()
def _is_filled(own: Any, value: Any) -> bool:
    """Write a tensor or an array into another one of its kind; say whether that could be done."""
    is_like = type(own) is type(value) and (own.shape, own.dtype) == (value.shape, value.dtype)
    if is_like:
        own[...] = value
    return is_like
