"""What can be called and holds something: which, and what of.

A look at a function, a method or a partial is its name. What a first hook makes of the weights may
lie in an object of a user's own, in the object of a method, or in arguments.
"""

import functools
import types
from collections.abc import Container

import numpy as np
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from twinrun.checkpoint.held_by_functions import held_by
from twinrun.checkpoint.looks import UNSEEN, look
from twinrun.checkpoint.users_code import attributes_seen, is_called_object, is_users
from twinrun.containers import entries, holds_plain, is_container, is_really, size_of

_DEEPEST = 8  # inside each other
_PARTS = (pl.Trainer, pl.LightningModule, pl.Callback, pl.LightningDataModule)
_NEVER = (*_PARTS, torch.nn.Module)
_DATA = (Dataset, Sampler, DataLoader)
_MOST_NUMBERS, MOST = 1 << 16, 1 << 10  # and objects, of a data module


def is_called(value: object, parts: Container[int]) -> bool:
    """Say whether a value is a function, or can be called and holds something.

    Args:
        value: of an attribute.
        parts: the identities of parts of the training, whose methods others put there.
    """
    if is_really(value, types.BuiltinFunctionType):
        return isinstance(value.__self__, types.ModuleType | None)
    if is_really(value, types.FunctionType):
        return is_users(value.__module__)
    return holds_something(value, parts)


def holds_something(value: object, parts: Container[int]) -> bool:
    """Say whether a value can be called and holds something; see `is_called`."""
    is_own = type(value) is functools.partial or is_called_object(value) or bool(held_by(value))
    return is_own or owner_of_method(value, parts) is not None


def owner_of_method(value: object, parts: Container[int] = ()) -> object | None:
    """Return the object of a user's own whose method a value is; None for one of the training."""
    if type(value) is not types.MethodType:
        return None
    owner = value.__self__
    is_own = is_users(type(owner).__module__) and not isinstance(owner, type)
    is_part = id(owner) in parts or any(is_really(owner, kind) for kind in _NEVER)
    return owner if is_own and not is_part else None


def is_few(value: object) -> bool:
    """Say whether what can be called holds so little that it may be looked at each time: no data.

    Args:
        value: it; a network is one.
    """
    left, seen, numbers = [value], dict[int, object](), 0
    while left:
        each = left.pop()
        if id(each) in seen or any(is_really(each, kind) for kind in _PARTS):
            continue
        seen[id(each)] = each
        if any(is_really(each, kind) for kind in _DATA):
            return False
        if is_really(each, torch.Tensor) or is_really(each, np.ndarray):
            numbers += each.nbytes // 4
        elif is_container(each):
            numbers += size_of(each)
            is_flat = numbers > _MOST_NUMBERS or holds_plain(each)
            left += [] if is_flat else [item for _, item in entries(each)]
        elif type(each) is functools.partial:
            left += [each.func, each.args, each.keywords]
        elif type(each) is types.MethodType:
            left.append(each.__self__)
        elif is_users(type(each).__module__) or is_really(each, torch.nn.Module):
            left += attributes_seen(each).values()
        if numbers > _MOST_NUMBERS or len(seen) > MOST:
            return False
    return is_really(value, torch.nn.Module) or not hasattr(type(value), "__getitem__")


def held_in(value: object) -> object:
    """Return what lies in a value that can be called, None if nothing does; else the value."""
    if type(value) is functools.partial:
        held = map(held_in, (value.func, *value.args, *value.keywords.values()))
        return [each for each in held if each is not None] or None
    if (owner := owner_of_method(value)) is not None or type(value) is types.MethodType:
        return owner
    is_function = issubclass(type(value), type | types.BuiltinFunctionType | types.FunctionType)
    return (held_by(value) or None) if is_function else value


def look_inside(value: object, held: Container[int], deeper: int = _DEEPEST) -> str:
    """Write down what can be called, with its class and what it holds.

    Args:
        value: of an attribute.
        held: as of `look`.
        deeper: how many more it may have inside.
    """
    if not deeper or id(value) in held:
        return look(value, held)
    if type(value) is functools.partial:
        inside = [value.func, *value.args, *value.keywords.values()]
        name, found = f"partial {[*value.keywords]}", _looks(inside, held, deeper)
    elif (owner := owner_of_method(value, held)) is not None:
        name, found = look(value, held), [_look_of_object(owner, held, deeper)]
    elif values := held_by(value):
        name, found = look(value, held), [look(values, held)]
    elif is_called_object(value):
        return _look_of_object(value, held, deeper)
    else:
        return look(value, held)
    unseen = [each for each in (name, *found) if each.startswith(UNSEEN)]
    return unseen[0] if unseen else f"{name} {found}"


def _looks(values: list[object], held: Container[int], deeper: int) -> list[str]:
    return [
        look_inside(each, held, deeper - 1) if callable(each) else look(each, held)
        for each in values
    ]


def _look_of_object(value: object, held: Container[int], deeper: int) -> str:
    kind, own = type(value), attributes_seen(value)
    found = [look(own, held)]
    # Of an attribute of an attribute, a look passes over what can be called.
    inside = [each for each in own.values() if id(each) not in held and is_called_object(each)]
    found += _looks(inside, held, deeper)
    unseen = [each for each in found if each.startswith(UNSEEN)]
    return unseen[0] if unseen else f"{kind.__module__}.{kind.__qualname__} {' '.join(found)}"
