"""What a function of a user's own holds: values of the code around it, and of its defaults.

A look at a function is its name. One that a first hook makes (`lambda: scale`) may hold what that
takes from the weights.
"""

import types
from collections.abc import Mapping
from contextlib import suppress

from twinrun.checkpoint.plain_data import is_plain
from twinrun.checkpoint.users_code import is_users
from twinrun.containers import is_really

_DEFAULT = "default "  # before the number of one, where no variable has a blank


def held_by(value: object) -> dict[str, object]:
    """Return the plain data that a function holds, by name; nothing of anything else."""
    is_function = is_really(value, types.FunctionType)
    return {k: v for k, v in variables_of(value).items() if is_plain(v)} if is_function else {}


def variables_of(value: types.FunctionType) -> dict[str, object]:
    """Return what a function of a user's closes over, and its defaults, by name."""
    if not is_users(value.__module__):
        return {}
    found = dict[str, object]()
    for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
        with suppress(ValueError):  # one that is empty yet
            found[name] = cell.cell_contents
    found |= {f"{_DEFAULT}{index}": each for index, each in enumerate(value.__defaults__ or ())}
    found |= {f"{_DEFAULT}{name}": each for name, each in (value.__kwdefaults__ or {}).items()}
    return found


def have_hold(function: types.FunctionType, values: Mapping[str, object]) -> None:
    """Have a function hold other values than those that `held_by` has returned.

    Args:
        function: it; others that are made of the same variables see them too, as Python has it.
        values: by the names of `held_by`.
    """
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    for name, cell in cells:
        if name in values:
            cell.cell_contents = values[name]
    if function.__defaults__ is not None:
        defaults = enumerate(function.__defaults__)
        function.__defaults__ = tuple(values.get(f"{_DEFAULT}{n}", each) for n, each in defaults)
    named = function.__kwdefaults__ or {}
    for name in named:
        named[name] = values.get(f"{_DEFAULT}{name}", named[name])
