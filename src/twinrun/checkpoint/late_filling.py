"""Which attributes of an object the code sets or fills that reads data.

Read from its instructions: by `self.x = ...`, by `self.x[...] = ...`, and where a local name has
what lies in an attribute, or a function is given it (`row = self.rows[i]`, `fetch(self.kept, i)`).
"""

import dis
import functools
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TypeAlias

from twinrun.checkpoint.late_code import ANY, ITSELF, SET, Filling, method_of
from twinrun.checkpoint.late_values import Member, Value
from twinrun.checkpoint.users_code import attributes_seen, functions_in, is_users, names_in
from twinrun.containers import is_really

__all__ = ["ANY", "ITSELF", "SET", "asked_by", "filled_by"]

_BY_NAME = {"setattr", "__setattr__", "__dict__", "vars"}
# What is called by no name where something is asked for.
_UNNAMED = ("__contains__", "__missing__", "__enter__", "__exit__", "__bool__")
_THE_OBJECT = Value(is_self=True)
_OF_CODE = (types.FunctionType, property, staticmethod, classmethod)
_Call: TypeAlias = tuple[types.FunctionType, Sequence[Value]]


def filled_by(
    kind: type, methods: frozenset[str]
) -> tuple[Mapping[str, frozenset[str]], frozenset[str]]:
    """Name the attributes that methods of a class set or fill, and all that their code names.

    Args:
        kind: the class; methods that these call by a name count too.
        methods: names of those that read.

    Returns:
        By the name of an attribute `SET`, and the keys by which something is put into it, `ANY` of
        one that is computed and `.name` of an attribute, by `ITSELF` those of the object's own
        entries; and all names.
    """
    filled, named, _ = _read(kind, methods)
    return filled, named


def asked_by(kind: type, methods: frozenset[str]) -> frozenset[str]:
    """Name the attributes that methods of a class ask for what lies in them, by `self.x[...]`."""
    return _read(kind, methods)[2]


@functools.cache
def _read(
    kind: type, methods: frozenset[str]
) -> tuple[Mapping[str, frozenset[str]], frozenset[str], frozenset[str]]:
    reading = _Reading(tuple(base for base in kind.__mro__ if base is not object))
    filling, named = reading.filling, reading.named
    reading.read((*sorted(methods), *_UNNAMED))
    filling.sets_any = False
    reading.read(["__getattr__"], is_followed=True)
    if filling.sets_any:  # any that is asked for, and is not there
        for name in filling.loaded - reading.stored():
            filling.filled[name].add(SET)
    if ITSELF in filling.filled:
        reading.read(["__setitem__"])
    filled = {name: frozenset(keys) for name, keys in filling.filled.items()}
    return filled, frozenset(named), frozenset(filling.asked)


class _Reading:
    """Reads methods of a class, and what these name."""

    def __init__(self, bases: Sequence[type]) -> None:
        self.filling, self.named = Filling(bases), set[str]()
        self._seen = set[int]()

    def read(self, methods: Iterable[str], *, is_followed: bool = False) -> None:
        """Read them.

        Args:
            methods: their names.
            is_followed: whether what is set by a text is known where that is.
        """
        left = [found for name in methods for found in self._of_class(name)]
        while left:
            function, given = left.pop()
            if id(function) in self._seen:
                continue
            self._seen.add(id(function))
            around = _around(function)
            texts = {each for each in around if isinstance(each, str)}
            names = {*names_in(function.__code__), *texts}
            # What a descriptor sets is followed by what it knows of itself.
            is_of_member = any(isinstance(each.what, Member) for each in given)
            if _BY_NAME & names and not (is_of_member or is_followed):
                for name in names:
                    self.filling.filled[name] |= {SET, ANY}
            self.filling.read(function, given)
            left += [(each, given) for each in around if isinstance(each, types.FunctionType)]
            if is_of_member and not is_users(function.__module__):
                continue
            self.named |= names
            left += [found for name in names for found in self._of_class(name)]
            known = function.__globals__ if is_users(function.__module__) else {}
            held = [each for name in names & known.keys() for each in functions_in(known[name])]
            left += [(each, ()) for each in held if isinstance(each, types.FunctionType)]

    def stored(self) -> set[str]:
        """Name the attributes that a method sets by their names, or the classes have."""
        members = [pair for base in self.filling.bases for pair in vars(base).items()]
        plain = [it for _, it in members if type(it) in _OF_CODE]
        held = [each for it in plain for each in functions_in(it)]
        found = (_stored(each.__code__) for each in held if is_really(each, types.FunctionType))
        return {name for name, _ in members}.union(*found)

    def _of_class(self, name: str) -> Iterator[_Call]:
        """Yield what classes do by a name, and what it is given first."""
        for member in self.filling.members(name):
            own = () if isinstance(member, staticmethod | classmethod) else (_THE_OBJECT,)
            found = functions_in(member)
            if (get := method_of(member, "__get__")) is not None:
                given = Value(what=self.filling.member(member)), _THE_OBJECT
                others = (method_of(member, each) for each in ("__set__", "__call__"))
                yield from ((each, given) for each in (get, *others) if each is not None)
                found = (*attributes_seen(member).values(),)
            for each in found:
                if isinstance(each, functools._lru_cache_wrapper):
                    each = each.__wrapped__
                if isinstance(each, types.FunctionType):
                    yield each, own


def _stored(code: types.CodeType) -> set[str]:
    steps = dis.get_instructions(code)
    return {str(step.argval) for step in steps if step.opname == "STORE_ATTR"}


def _around(function: types.FunctionType) -> list[object]:
    """Return texts and a user's functions that a decorator's function knows from around it."""
    found: list[object] = [vars(function).get("__wrapped__")]
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # not set yet
            found.append(cell.cell_contents)
    return [
        each
        for each in found
        if is_really(each, str)
        or (is_really(each, types.FunctionType) and is_users(each.__module__))
    ]
