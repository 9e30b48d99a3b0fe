"""Whether a hook reads one of its arguments, but for a key of it, by its own code."""

import dis
import inspect
from collections.abc import Callable


def reads(hook: Callable[..., object], position: int, *, but: str) -> bool:
    """Say whether a hook reads of what it is given at a position more than a key; in doubt: yes.

    >>> reads(lambda outputs, batch: batch, 0, but="loss")
    False
    >>> reads(lambda outputs: 2 * outputs["loss"], 0, but="loss")
    False
    >>> reads(lambda outputs: outputs["loss"] * outputs["size"], 0, but="loss")
    True
    >>> reads(lambda *given: given[0], 0, but="loss"), reads(lambda *_: None, 0, but="loss")
    (True, False)
    """
    code = getattr(inspect.unwrap(hook), "__code__", None)
    parameters = list(inspect.signature(hook).parameters)
    if code is None or not parameters:
        return True
    name = parameters[min(position, len(parameters) - 1)]
    steps = [(step.opname, step.argval) for step in dis.get_instructions(code)]
    for number, (done, loaded) in enumerate(steps):
        # One instruction of Python 3.13 may load two of them.
        names = loaded if isinstance(loaded, tuple) else (loaded,)
        is_key = steps[number + 1 : number + 3] == [("LOAD_CONST", but), ("BINARY_SUBSCR", None)]
        if done.startswith("LOAD_") and name in names and not (is_key and loaded == name):
            return True
    return False
