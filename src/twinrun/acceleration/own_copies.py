"""Copies of a function that torch's compiler takes for different ones."""

import itertools
import types
from collections.abc import Callable

# Never reset: a name that came twice would share torch's record of what has changed.
_numbers = itertools.count()


def copy_of(function: Callable[..., object]) -> Callable[..., object]:
    """Return a function that torch takes for another.

    It keeps graphs and their limit per code object, and what it has seen change (sizes, numbers)
    per file, line and name: https://github.com/pytorch/pytorch/blob/v2.11.0/torch/_dynamo/pgo.py
    """
    own = f"{function.__name__}_{next(_numbers)}"
    return types.FunctionType(
        function.__code__.replace(co_name=own),
        function.__globals__,
        own,
        function.__defaults__,
        function.__closure__,
    )
