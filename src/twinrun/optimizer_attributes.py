"""What an optimizer keeps beside its groups and its state of parameters, by the attribute.

Its `state_dict` holds neither a list of averages nor a counter that its class has made an
attribute of, neither the slow weights of a Lookahead nor the optimizer that this wraps: unless the
class says so, a checkpoint loses them. What torch's own classes set follows from the rest.
"""

import contextvars
import dis
import functools
import inspect
import logging
import types
from collections.abc import Container, Iterable, Iterator
from pathlib import PurePath
from typing import Any, Protocol, TypeGuard

import numpy as np
import pytorch_lightning as pl
import torch
from torch.optim import Optimizer

from twinrun.batches import Opaque, leaves
from twinrun.containers import (
    attributes_of,
    entries,
    is_container,
    is_hidden_iterator,
    is_really,
    shown,
    size_of,
)
from twinrun.hidden_content import content_of

# By torch's schedulers, and by others that wrap `step`.
_LIBRARIES = ("torch.", "pytorch_lightning.", "lightning.", "lightning_fabric.")
_LIBRARIES += ("builtins.", "collections.", "numpy.")
_DEEPEST = 8
_LONG = 64  # a container whose objects are too many to look into
_SET_BY_OTHERS = {"step", "_opt_called", "_wrapped_by_lr_sched"}


@functools.cache
def set_by(kind: type, packages: tuple[str, ...]) -> frozenset[str]:
    """Name the attributes that those bases of a class set that belong to some packages.

    Args:
        kind: the class.
        packages: how the names of their modules begin.
    """
    bases = [base for base in kind.__mro__ if base.__module__.startswith(packages)]
    members = [member for base in bases for member in vars(base).values()]
    setters = [member.fset for member in members if isinstance(member, property)]
    return frozenset(
        str(step.argval)
        for function in (*members, *setters)
        if isinstance(function, types.FunctionType)
        for step in dis.get_instructions(inspect.unwrap(function))
        if step.opname == "STORE_ATTR"
    )


def own_attributes(optimizer: Optimizer) -> dict[str, object]:
    """Return the attributes that are neither torch's nor functions, by name."""
    others = _known_attributes(type(optimizer))
    return {
        name: value
        for name, value in vars(optimizer).items()
        if name not in others and not callable(value)
    }


def values_beside(optimizer: Optimizer, held: Iterable[torch.Tensor]) -> dict[str, object]:
    """Return the tensors, arrays and numbers in these attributes, by their paths.

    Also what `state` keeps of no parameter, and the state of an optimizer that this one wraps.

    Args:
        optimizer: of a training.
        held: parameters and buffers of the module, which are no state of an optimizer.
    """
    known = {id(tensor) for tensor in held}
    return {
        path: value
        for path, value in _values(optimizer, "", ())
        if id(value) not in known and isinstance(value, torch.Tensor | np.ndarray | int | float)
    }


def iterators_beside(optimizer: Optimizer) -> dict[str, object]:
    """Return the iterators in these attributes whose position nobody can see, by their paths."""
    return {path: value for path, value in _values(optimizer, "", ()) if is_hidden_iterator(value)}


def _values(
    optimizer: Optimizer, prefix: str, above: tuple[int, ...]
) -> Iterator[tuple[str, object]]:
    above = (*above, id(optimizer))
    for key, state in optimizer.state.items():
        if not isinstance(key, torch.Tensor):
            yield from values_in(state, f"{prefix}state[{key!r}]", above)
    for name, value in own_attributes(optimizer).items():
        yield from values_in(value, f"{prefix}{name}", above)


class SavesItself(Protocol):
    """Tells its state."""

    def state_dict(self) -> dict[str, Any]:
        """Return all of it."""
        ...


def saves_itself(value: object) -> TypeGuard[SavesItself]:
    """Say whether an object of torch's tells its state: a schedule, a scaler of gradients."""
    kind = type(value)
    methods = (getattr(kind, name, None) for name in ("state_dict", "load_state_dict"))
    is_torchs = kind.__module__.startswith("torch.") and all(map(callable, methods))
    return is_torchs and not issubclass(kind, torch.nn.Module | Optimizer)


def values_in(
    value: object, path: str, above: tuple[int, ...] = (), held: Container[int] = ()
) -> Iterator[tuple[str, object]]:
    """Yield what there is in an attribute, by its path: tensors, plain values, hidden iterators.

    Looked into are containers, networks, optimizers and objects of a user's own. What
    `saves_itself` is yielded as it is, and nothing that is among the identities `held`.
    """
    is_known = id(value) in above or id(value) in held
    # A logger knows all others, and notes which levels it was asked for.
    if is_known or len(above) > _DEEPEST or isinstance(value, logging.Logger | logging.Handler):
        return
    inside = (*above, id(value))
    if is_hidden_iterator(value) or saves_itself(value):
        yield path, value
    elif isinstance(value, PurePath):
        yield path, f"the path {value}"
    elif is_really(value, Optimizer):
        yield from _values(value, f"{path}.", above)
        for index, state in enumerate(value.state.values()):
            yield from values_in(state, f"{path}.state[{index}]", inside, held)
    elif is_really(value, torch.nn.Module):
        yield from values_in([*value.parameters(), *value.buffers()], path, inside, held)
        # The states of a metric are attributes, and whatever somebody has put on a layer.
        for name, part in value.named_modules():
            for key, item in {**own_of_module(part), "training": part.training}.items():
                if not callable(item) or isinstance(item, torch.nn.Module):
                    yield from values_in(item, f"{path}.{name}.{key}", inside, held)
    elif isinstance(value, contextvars.ContextVar):
        yield from values_in(value.get(None), path, inside, held)
    elif is_container(value) and size_of(value) > _LONG:
        for where, leaf in leaves(value):
            if not isinstance(leaf, Opaque):
                yield f"{path} {where}", leaf
        for index, (key, item) in enumerate(entries(value)):
            if (content := content_of(item)) is not None:
                yield f"{path}[{shown(key, index)}]", content
    elif is_container(value):
        if not size_of(value):  # an emptied list is not one that was never there
            yield path, f"empty {type(value).__name__}"
        for index, (key, item) in enumerate(entries(value)):
            yield from values_in(item, f"{path}[{shown(key, index)}]", inside, held)
    else:
        # An object that keeps the average of the weights, say; not what knows the whole training.
        is_own = not f"{type(value).__module__}.".startswith(_LIBRARIES)
        own = attributes_of(value) if is_own else {}
        followed = tuple(f"{type(value).__name__}.<attribute {name}>" for name in own)
        if not own and (content := content_of(value)) is not None:
            yield path, content
        for where, leaf in leaves(value):
            if not isinstance(leaf, Opaque) and not where.startswith(followed):
                yield f"{path}{where and ' '}{where}", leaf
        for name, item in own.items():
            if not callable(item) or isinstance(item, torch.nn.Module) or content_of(item):
                yield from values_in(item, f"{path}.{name}", inside, held)


def own_of_module(part: torch.nn.Module) -> dict[str, object]:
    """Return the attributes of a module that not every module of torch's or Lightning's has."""
    known = _of_every_module()
    return {name: value for name, value in vars(part).items() if name not in known}


@functools.cache
def _of_every_module() -> frozenset[str]:
    return frozenset({*vars(torch.nn.Module()), *vars(pl.LightningModule())})


@functools.cache
def _known_attributes(kind: type) -> frozenset[str]:
    """Name what torch and others set in an optimizer of a class."""
    return frozenset({*_plain_attributes(), *set_by(kind, ("torch.",)), *_SET_BY_OTHERS})


@functools.cache
def _plain_attributes() -> frozenset[str]:
    """Name what every optimizer has."""
    return frozenset(vars(torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)))
