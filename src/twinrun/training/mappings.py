"""A mapping of a config as the kind that an argument asks for: a namespace, OmegaConf's, another.

jsonargparse takes some of them for its own, and forgets what is in them.
"""

import argparse
import importlib
import inspect
import types
import typing
from collections.abc import Callable, Mapping

KINDS = ("argparse.Namespace", "types.SimpleNamespace", "omegaconf.DictConfig")
SPACES = (argparse.Namespace, types.SimpleNamespace)


def as_asked(value: object, parameter: inspect.Parameter | None) -> object | None:
    """Return the object of a mapping where one is asked for, by annotation or class path.

    Args:
        value: a hyperparameter as YAML gives it.
        parameter: of the constructor that takes it.

    Returns:
        None where the value is no mapping, or is taken as it is or as another object.
    """
    if not isinstance(value, Mapping):
        return None
    if "class_path" in value:
        kind = _imported(value["class_path"])
        value = {**value.get("init_args", {}), **value.get("dict_kwargs", {})}
    else:
        annotation = None if parameter is None else parameter.annotation
        # It may be optional.
        allowed = typing.get_args(annotation) or (annotation,)
        kind = next((each for each in allowed if each in SPACES or _is_mapping(each)), None)
    return None if kind is None else _made(kind, value)


def _made(kind: Callable[..., object], given: Mapping[str, object]) -> object | None:
    try:
        return kind(**given) if kind in SPACES else kind(given)
    except Exception:  # a class of mappings may be made of something else
        return None


def _imported(path: object) -> Callable[..., object] | None:
    if path not in KINDS:
        return None
    package, _, name = str(path).rpartition(".")
    try:
        return getattr(importlib.import_module(package), name)
    except ImportError:
        return None


def _is_mapping(kind: object) -> typing.TypeGuard[type]:
    """Say whether a class of mappings has more to it than a dict: attributes, interpolation."""
    return (
        inspect.isclass(kind)
        and issubclass(kind, Mapping)
        and kind is not dict
        and not inspect.isabstract(kind)
        and not typing.is_typeddict(kind)
    )
