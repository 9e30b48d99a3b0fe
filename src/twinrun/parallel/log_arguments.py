"""What a call of `log` is given, by name: a module may give it by position, and by a function."""

import inspect
from collections.abc import Sequence
from typing import Any

import pytorch_lightning as pl


def log_arguments(
    module: pl.LightningModule, flags: Sequence[object], options: dict[str, Any]
) -> dict[str, Any]:
    """Return all that `log` is given behind name and value, by name.

    Args:
        module: whose `log` is called.
        flags: given by position.
        options: given by name.

    Raises:
        TypeError: if there are too many, or one is given twice, as Python does.

    >>> log_arguments(pl.LightningModule(), (True, None, False), {"reduce_fx": "max"})
    {'prog_bar': True, 'logger': None, 'on_step': False, 'reduce_fx': 'max'}
    """
    if not flags:
        return options
    own = inspect.signature(type(module).log)
    takes_any = any(p.kind is p.VAR_POSITIONAL for p in own.parameters.values())
    # One that only hands on takes what Lightning's does.
    signature = inspect.signature(pl.LightningModule.log) if takes_any else own
    bound = signature.bind(module, "", None, *flags, **options)
    # Behind the module, the name and the value.
    given = dict(list(bound.arguments.items())[3:])
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            given |= given.pop(parameter.name, {})
    return given


def reduction_of(options: dict[str, Any]) -> str:
    """Return how the values of several steps are joined: by `min`, `max`, `sum`, or another way.

    >>> reduction_of({"reduce_fx": max}), reduction_of({})
    ('max', 'mean')
    """
    told = options.get("reduce_fx", "mean")
    # Lightning has a sentence of its own for what it cannot join by.
    return (told if isinstance(told, str) else getattr(told, "__name__", "")).lower()
