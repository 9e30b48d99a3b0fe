"""What code of the user's keeps in plain attributes: numbers, tensors, lists, objects of its own.

Of the module, of its layers, of callbacks and of the helpers in their attributes; of torch's layers
numbers, such as the share of a dropout. Parameters, buffers, metrics, data, generators and what
libraries keep are looked at elsewhere, or not at all.
"""

import itertools
import time
from collections import deque
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import pytorch_lightning as pl
import torch
import xxhash
from torch.nn.parameter import Parameter
from torch.optim import Optimizer
from torch.utils.data import DataLoader, Dataset, Sampler
from torchmetrics import Metric

from twinrun.checkpoint.users_code import attributes_seen, is_code, is_users
from twinrun.containers import is_really
from twinrun.generators import GENERATORS
from twinrun.set_attributes import own_of_module
from twinrun.trace.fingerprints import described

DEEPEST = 3
"""Helpers and lists inside each other."""
ENTRIES = 512
"""At least so many of a long list are looked at, spread evenly over it."""
CLOCKS = (time.time, time.monotonic, time.perf_counter, time.process_time)
"""What reads one of these is no result of a training."""
RECENT = 60
"""Seconds before now."""
_PLAIN = (bool, int, float, complex, str, bytes, type(None), np.generic)
_VALUES = (*_PLAIN, torch.Tensor, np.ndarray, list, tuple, dict, deque, set, frozenset)
_LONG: tuple[Any, ...] = (dict, list, tuple, deque)
# Looked at by others, or no result of a step.
_OTHERS = (
    *(torch.nn.Module, Parameter, Optimizer, DataLoader, Dataset, Sampler, *GENERATORS),
    *(pl.LightningDataModule, pl.Callback, pl.Trainer, torch.optim.lr_scheduler.LRScheduler),
)


class Kept(NamedTuple):
    """An attribute."""

    holder: object
    """Whose it is: of a class, if all of its objects share it."""
    key: str
    """How code calls it."""
    value: object
    """What lies in it."""


def kept_values(trainer: pl.Trainer, module: pl.LightningModule) -> dict[str, Kept]:
    """Return the attributes in which code of the user's keeps values, by name: `Net.seen`."""
    found: dict[str, Kept] = {}
    seen: set[int] = set()
    for path, part in module.named_modules():
        name = f"{type(module).__name__}.{path}" if path else type(module).__name__
        with suppress(Exception):  # a class of a user's may refuse
            found |= _of_layer(part, name, seen)
    for callback in vars(trainer)["callbacks"]:
        if is_users(type(callback).__module__):
            own = attributes_seen(callback)
            found |= _held(callback, type(callback).__name__, own, seen)
    return found


def _of_layer(part: torch.nn.Module, name: str, seen: set[int]) -> dict[str, Kept]:
    # torchmetrics counts its updates, and is asked what it joins.
    if is_really(part, Metric):
        return {}
    own = own_of_module(part)
    if is_users(type(part).__module__):
        return _held(part, name, own, seen)
    plain = [(key, value) for key, value in own.items() if type(value) in (int, float)]
    return {f"{name}.{key}": Kept(part, key, value) for key, value in plain}


def words_of(value: object) -> str | None:
    """Write a value so that another one is other words, the same in all processes.

    There are no words for the reading of a clock, and for what cannot be looked at.
    """
    try:
        return xxhash.xxh3_64_hexdigest(_words(value, DEEPEST, set()).encode())
    except Exception:  # of a user's class, or a clock's
        return None


def _held(
    holder: object, name: str, attributes: dict[str, object], seen: set[int], deeper: int = DEEPEST
) -> dict[str, Kept]:
    seen.add(id(holder))
    found: dict[str, Kept] = {}
    kind = type(holder)
    for key, value in attributes.items():
        if _is_value(value):
            found[f"{name}.{key}"] = Kept(holder, key, value)
        elif deeper and _is_helper(value) and id(value) not in seen:
            own = attributes_seen(value)
            found |= _held(value, f"{name}.{key}", own, seen, deeper - 1)
    for base in kind.__mro__:
        for key, value in [*vars(base).items()] if is_users(base.__module__) else ():
            if _is_value(value) and not key.startswith("__") and key not in attributes:
                found.setdefault(f"{base.__name__}.{key}", Kept(base, key, value))
    return found


def _is_value(value: object) -> bool:
    """Say whether a value is plain, or one of the containers that are walked."""
    return issubclass(type(value), _VALUES) and not issubclass(type(value), _OTHERS)


def _is_helper(value: object) -> bool:
    """Say whether a value is an object of a class of the user's that keeps values, too."""
    is_left = is_code(value) or issubclass(type(value), _OTHERS)
    return is_users(type(value).__module__) and not is_left


def _words(value: Any, deeper: int, around: set[int]) -> str:
    if is_really(value, float):
        now = float(value)
        if any(0 <= clock() - now < RECENT for clock in CLOCKS if now > RECENT):
            raise ValueError("a clock")
    if issubclass(type(value), (*_PLAIN, torch.Tensor, np.ndarray)):
        return described(value)
    if id(value) in around or not deeper:
        return type(value).__name__
    around = {*around, id(value)}
    if is_really(value, set | frozenset):
        return str(sorted(_words(item, deeper - 1, around) for item in value))
    for kind in _LONG:
        if is_really(value, kind):  # by what it is: a subclass may refuse
            every = max(1, (size := kind.__len__(value)) // ENTRIES)
            pairs = dict.items(value) if kind is dict else enumerate(kind.__iter__(value))
            spread = itertools.islice(pairs, 0, None, every)
            inside = (f"{_words(k, 1, around)}: {_words(v, deeper - 1, around)}" for k, v in spread)
            return f"{size} {[*inside]}"
    if _is_helper(value):
        own = attributes_seen(value).items()
        return str([(key, _words(item, deeper - 1, around)) for key, item in own])
    return type(value).__name__
