"""What the code of a state's methods names: attributes, and what they are given."""

import dis
import inspect
import types
from collections.abc import Iterator, Sequence
from typing import Any

from twinrun.checkpoint.users_code import attributes_seen, functions_in, is_users, names_in

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


def may_say(owner: object, name: str, inside: Sequence[str]) -> bool:
    """Say whether the code of an object's state may give what lies in a helper of a user's.

    A state may hold a number that is equal by chance, as of the trainer's epoch.

    Args:
        owner: whose state it is.
        name: of the attribute with the helper.
        inside: the names on the way from that; of one attribute the code has to spell it, or ask
            the helper's class.
    """
    kind = type(attributes_seen(owner).get(name))
    if len(inside) != 1 or not is_users(kind.__module__):
        return True
    named = names_of_state(owner)
    return named is None or inside[0] in named or any(hasattr(kind, each) for each in named)


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
