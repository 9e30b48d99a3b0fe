"""Whether a hook reads one of its arguments, by its own code."""

import dis
import inspect
from collections.abc import Callable


def reads(hook: Callable[..., object], position: int) -> bool:
    """Say whether a hook reads what it is given at a position; in doubt it does.

    >>> reads(lambda outputs, batch: batch, 0), reads(lambda outputs, batch: batch, 1)
    (False, True)
    >>> reads(lambda *given: given[0], 0), reads(lambda *_: None, 0)
    (True, False)
    """
    code = getattr(inspect.unwrap(hook), "__code__", None)
    parameters = list(inspect.signature(hook).parameters)
    if code is None or not parameters:
        return True
    name = parameters[min(position, len(parameters) - 1)]
    # One instruction of Python 3.13 may load two of them.
    loaded = [step.argval for step in dis.get_instructions(code) if step.opname.startswith("LOAD_")]
    return any(name in (each if isinstance(each, tuple) else (each,)) for each in loaded)
