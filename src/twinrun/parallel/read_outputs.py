"""Whether a hook reads what a step gave, which is a part's where mini-batches are cut."""

import dis
import inspect
import types
from collections.abc import Callable

import pytorch_lightning as pl

from twinrun.parallel.joined_logs import is_users


def readers(trainer: pl.Trainer, module: pl.LightningModule, *hooks: str) -> list[str]:
    """Name the user's hooks of these names that read what they are given of a step."""
    return [
        f"{type(owner).__name__}.{name}"
        for owner in (module, *vars(trainer)["callbacks"])
        for name in hooks
        if is_users(hook := getattr(owner, name)) and reads(hook, position_in(owner))
    ]


def position_in(owner: pl.LightningModule | pl.Callback) -> int:
    """Return at which position an owner's hooks are given what a step gave."""
    return 0 if isinstance(owner, pl.LightningModule) else 2  # behind the Trainer and the module


def reads(hook: Callable[..., object], position: int, *, but: str | None = None) -> bool:
    """Say whether a hook reads what it is given at a position, or more of it than a key.

    In doubt: yes.

    >>> reads(lambda outputs, batch: batch, 0, but="loss")
    False
    >>> reads(lambda outputs: 2 * outputs["loss"], 0, but="loss")
    False
    >>> reads(lambda outputs: outputs["loss"] * outputs["size"], 0, but="loss")
    True
    >>> reads(lambda *given: given[0], 0, but="loss"), reads(lambda *_: None, 0, but="loss")
    (True, False)
    >>> reads(lambda outputs: 2 * outputs["loss"], 0), reads(lambda outputs: None, 0)
    (True, False)
    """
    code = getattr(inspect.unwrap(hook), "__code__", None)
    if code is None or not (parameters := list(inspect.signature(hook).parameters)):
        return True
    name = parameters[min(position, len(parameters) - 1)]
    steps = _steps(code)
    if but is None:
        return any(name in names for _, names in steps)
    # How this Python asks for a key: versions have other instructions for it.
    asked = compile(f"{name}[{but!r}]", "", "eval")
    first = next(index for index, (_, names) in enumerate(_steps(asked)) if name in names)
    key = _steps(asked)[first + 1 : first + 3]
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
