"""Optimizers and schedules as arguments: made later, of parameters that there are not yet."""

import functools
import importlib
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

import torch

from twinrun.process.no_training import without_training


def base_of(key: str) -> tuple[tuple[type, ...], str]:
    """Return the classes of an `optimizer` or `lr_scheduler`, and the argument that comes later."""
    from pytorch_lightning.cli import LRSchedulerTypeTuple

    if key == "optimizer":
        return (torch.optim.Optimizer,), "params"
    return LRSchedulerTypeTuple, "optimizer"


def later_of(
    value: object, parameter: inspect.Parameter | None
) -> tuple[tuple[type, ...], str] | None:
    """Return what `base_of` says of an argument that is to be given such a class, or None.

    An annotation that says how it is called (`OptimizerCallable`) is another's affair.
    """
    if not isinstance(value, Mapping):
        return None
    found = named_by(value)
    for key in ("optimizer", "lr_scheduler"):
        bases, later = base_of(key)
        if inspect.isclass(found) and issubclass(found, bases):
            is_given = later in (value.get("init_args") or {})
            is_open = parameter is None or _is_open(parameter.annotation, bases)
            return (bases, later) if is_open and not is_given else None
    return None


def named_by(value: Mapping[str, Any]) -> object:
    """Return what the class path of a value names, or None where it names nothing."""
    if not isinstance(path := value.get("class_path"), str):
        return None
    package, _, name = path.rpartition(".")
    try:
        with without_training():
            return getattr(importlib.import_module(package), name)
    except Exception:  # said where the value is read
        return None


def partial_of(made: Mapping[str, Any]) -> Callable[..., object]:
    """Return the constructor of a class with all of its arguments but the one that comes later."""
    package, _, name = made["class_path"].rpartition(".")
    return functools.partial(
        getattr(importlib.import_module(package), name), **made.get("init_args", {})
    )


def _is_open(annotation: object, bases: tuple[type, ...]) -> bool:
    """Say whether an annotation leaves room: it names such a class, none at all, or a module."""
    is_union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    allowed = typing.get_args(annotation) if is_union else (annotation,)
    kinds = [each for each in allowed if each is not types.NoneType]
    says_nothing = (inspect.Parameter.empty, Any, object)
    return all(
        each in says_nothing
        or isinstance(each, str | types.ModuleType)
        or (inspect.isclass(each) and issubclass(each, bases))
        for each in kinds
    )
