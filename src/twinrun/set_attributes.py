"""Which attributes the code of a class sets, and which an object has beside those."""

import dis
import functools
import inspect
import types
from collections.abc import Callable, Iterable

import pytorch_lightning as pl
import torch
from torch.optim import Optimizer

from twinrun.containers import attributes_of

# By torch's schedulers, and by others that wrap `step`.
_SET_BY_OTHERS = {"step", "_opt_called", "_wrapped_by_lr_sched"}
_ANY = {"__dict__", "vars", "setattr"}  # by these code sets any attribute
_NONE = (lambda: None).__code__


@functools.cache
def set_by(kind: type, packages: tuple[str, ...]) -> frozenset[str]:
    """Name the attributes that those bases of a class set that belong to some packages.

    Args:
        kind: the class.
        packages: how the names of their modules begin.
    """
    return _set_in(base for base in kind.__mro__ if base.__module__.startswith(packages))


@functools.cache
def set_by_other_bases(kind: type, is_users: Callable[[object], bool]) -> frozenset[str]:
    """Name the attributes that those bases of a class set that are no user's own.

    Args:
        kind: the class.
        is_users: says by the name of a module whether it is a user's own.
    """
    return _set_in(base for base in kind.__mro__ if not is_users(base.__module__))


@functools.cache
def settings_of(kind: type, packages: tuple[str, ...]) -> frozenset[str]:
    """Name what bases of a class keep that they were given, and that `load_state_dict` leaves.

    A state may name it all the same: Lightning's ModelCheckpoint compares its folder, say.

    Args:
        kind: the class.
        packages: how the names of the modules of these bases begin.
    """
    theirs = [base for base in kind.__mro__ if base.__module__.startswith(packages)]
    makers = [vars(base)["__init__"] for base in theirs if "__init__" in vars(base)]
    given = {name for maker in makers for name in inspect.signature(maker).parameters}
    loading = [vars(base).get("load_state_dict") for base in kind.__mro__]
    named = {name for each in loading for name in getattr(each, "__code__", _NONE).co_names}
    if not named.isdisjoint(_ANY):
        return frozenset()
    kept = {*given, *(f"_{name}" for name in given)} & _set_in(theirs)
    return frozenset(kept - _stored_by(loading))


def _set_in(bases: Iterable[type]) -> frozenset[str]:
    members = [member for base in bases for member in vars(base).values()]
    setters = [member.fset for member in members if isinstance(member, property)]
    return _stored_by((*members, *setters))


def _stored_by(members: Iterable[object]) -> frozenset[str]:
    return frozenset(
        str(step.argval)
        for function in members
        if isinstance(function, types.FunctionType)
        # What is wrapped may be one of C's, as where a library patches `object.__delattr__`.
        for step in dis.get_instructions(getattr(inspect.unwrap(function), "__code__", _NONE))
        if step.opname == "STORE_ATTR"
    )


def own_attributes(optimizer: Optimizer) -> dict[str, object]:
    """Return the attributes that are neither torch's nor functions, by name."""
    others = _known_attributes(type(optimizer))
    own = {n: value for n, value in attributes_of(optimizer).items() if n not in others}
    return {name: value for name, value in own.items() if not callable(value)}


def own_of_module(part: torch.nn.Module) -> dict[str, object]:
    """Return the attributes of a module that not every module of torch's or Lightning's has."""
    known = _of_every_module()
    return {name: value for name, value in attributes_of(part).items() if name not in known}


@functools.cache
def _of_every_module() -> frozenset[str]:
    # Lightning's copy of what `save_hyperparameters` was given, which nothing trains.
    own = {"_hparams_initial"}
    return frozenset({*vars(torch.nn.Module()), *vars(pl.LightningModule()), *own})


@functools.cache
def _known_attributes(kind: type) -> frozenset[str]:
    """Name what torch and others set in an optimizer of a class."""
    return frozenset({*_plain_attributes(), *set_by(kind, ("torch.",)), *_SET_BY_OTHERS})


@functools.cache
def _plain_attributes() -> frozenset[str]:
    """Name what every optimizer has."""
    return frozenset(vars(torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)))
