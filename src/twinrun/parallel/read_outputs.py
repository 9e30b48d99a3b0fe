"""Whether a hook reads one of its arguments, but for a key of it, by its own code."""

import dis
import inspect
import types
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
    # How this Python asks for a key: versions have other instructions for it.
    asked = compile(f"{name}[{but!r}]", "", "eval")
    first = next(index for index, (_, names) in enumerate(_steps(asked)) if name in names)
    key = _steps(asked)[first + 1 : first + 3]
    steps = _steps(code)
    return any(
        # One instruction of Python 3.13 may name two variables, the last of which it leaves.
        name in names[:-1] or (name in names[-1:] and steps[number + 1 : number + 3] != key)
        for number, (_, names) in enumerate(steps)
    )


def _steps(code: types.CodeType) -> list[tuple[str, tuple[object, ...]]]:
    """Return each instruction with what it names."""
    return [
        (step.opname, step.argval if isinstance(step.argval, tuple) else (step.argval,))
        for step in dis.get_instructions(code)
    ]
