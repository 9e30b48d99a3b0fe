"""Streams that keep what they are told for their next iterator: which do so, and where."""

import dis
import functools
import types
from collections.abc import Iterator, Sequence

from twinrun.checkpoint.state_code import functions_behind
from twinrun.checkpoint.stateful import Stateful
from twinrun.checkpoint.users_code import attributes_seen, names_in

_ANY = {"__dict__", "vars", "getattr", "setattr", "__setattr__", "__setstate__"}
_PUTTING = {"add", "append", "appendleft", "extend", "insert", "setdefault", "update"}
_PUT = {"STORE_SUBSCR", "STORE_SLICE"}


def keeps(part: object) -> bool:
    """Say whether a part keeps what it is told, or may: its code may not say what that sets."""
    return any(_kept_by(type(each)) or _is_unread(type(each)) for each in _owners(part))


def kept_in(part: object) -> Iterator[tuple[object, str]]:
    """Name where a part, or a stream in one of its attributes, keeps what it is told."""
    for owner in _owners(part):
        for name in sorted(_kept_by(type(owner))):
            yield owner, name


def _owners(part: object) -> list[object]:
    values = attributes_seen(part).values()
    return [part, *(each for each in values if issubclass(type(each), Stateful))]


@functools.cache
def _kept_by(kind: type) -> frozenset[str]:
    """Name what `load_state_dict` sets and `state_dict` says nothing of."""
    loading, saying = _code_of(kind)
    if _ANY & _named(loading + saying):
        return frozenset()
    return frozenset(_argued(loading, {"STORE_ATTR"}) - _named(saying))


@functools.cache
def _is_unread(kind: type) -> bool:
    """Say whether what `load_state_dict` sets may be anything, or lie in what is there already."""
    loading, saying = _code_of(kind)
    is_any = bool(_ANY & _named(loading + saying))
    return is_any or bool(_PUTTING & _named(loading) or _argued(loading, _PUT))


def _code_of(kind: type) -> tuple[list[types.FunctionType], list[types.FunctionType]]:
    """Return the functions behind `load_state_dict` and those behind `state_dict`."""
    loading, saying = (
        [*functions_behind(kind.__mro__, (name,))] for name in ("load_state_dict", "state_dict")
    )
    return loading, saying


def _named(functions: Sequence[types.FunctionType]) -> set[str]:
    return {name for function in functions for name in names_in(function.__code__)}


def _argued(functions: Sequence[types.FunctionType], operations: set[str]) -> set[str]:
    """Return what such operations of their code name."""
    steps = (step for function in functions for step in dis.get_instructions(function))
    return {str(step.argval) for step in steps if step.opname in operations}
