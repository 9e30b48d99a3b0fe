"""What the code of a state's methods names: attributes, and what they are given."""

import dis
import inspect
import types
from collections.abc import Iterator, Sequence
from typing import Any

from twinrun.checkpoint.users_code import functions_in, is_users, names_in

_METHODS = ("state_dict", "load_state_dict")
_ANY = {"__dict__", "vars", "getattr", "setattr"}  # by these code comes to all attributes


def loads_a_state(owner: Any) -> bool:
    """Say whether `load_state_dict` reads what it is given: that of Lightning's callbacks does not.

    Of a class that does so an empty state is none that there is not yet: an average begins late.
    """
    code = getattr(inspect.unwrap(getattr(type(owner), "load_state_dict", len)), "__code__", None)
    if code is None:
        return True
    given = {*code.co_varnames[1:], *code.co_cellvars}
    # Newer versions of Python load two at once.
    return any(
        not given.isdisjoint(step.argval if isinstance(step.argval, tuple) else (step.argval,))
        for step in dis.get_instructions(code)
        if step.opname.startswith("LOAD_")
    )


def names_of_state(owner: object) -> set[str] | None:
    """Return what the code of an object's state names; None if that may be any attribute."""
    bases = [base for base in type(owner).__mro__ if is_users(base.__module__)]
    functions = functions_behind(bases, _METHODS)
    names = {name for function in functions for name in names_in(function.__code__)}
    # Of the code of a library nothing is read.
    return None if not bases or _ANY & names else names


def functions_behind(bases: Sequence[type], methods: Sequence[str]) -> Iterator[types.FunctionType]:
    """Yield methods of classes, and the methods and functions that these name."""
    seen: set[int] = set()
    left = [member for name in methods for member in _members(bases, name)]
    while left:
        for function in functions_in(left.pop()):
            if isinstance(function, types.FunctionType) and id(function) not in seen:
                seen.add(id(function))
                yield function
                names = set(names_in(function.__code__))
                left += [member for name in names for member in _members(bases, name)]
                known = function.__globals__ if is_users(function.__module__) else {}
                left += [known[name] for name in names & known.keys()]


def _members(bases: Sequence[type], name: str) -> list[object]:
    return [vars(base)[name] for base in bases if name in vars(base)]
