"""Attributes that others may set while a generator that has set them stands still.

A sampler sets `self.extra = []` where it is begun, yields, and reads it at its end; in between a
callback may set it. A resumed training reads the epoch again without the callback. Likewise of what
a function inside of a method reads, which runs later.
"""

import dis
import functools
import types
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytorch_lightning as pl

from twinrun.checkpoint.followed_names import AROUND, INSIDE
from twinrun.checkpoint.late_stored import BY_TEXT, stored_in
from twinrun.checkpoint.late_unread import Method, methods_of, reading_unset, users_files
from twinrun.checkpoint.refusals import loaders_of
from twinrun.checkpoint.schedules import schedules_of
from twinrun.checkpoint.stream_position import parts_of
from twinrun.checkpoint.users_code import attributes_seen, functions_in, is_users, names_in
from twinrun.containers import entries, is_container, size_of

_MOST = 10_000  # objects that are followed
_MOST_INSIDE = 64  # entries of a container in which functions are looked for


class Disturbing:
    """What the code of a training may set of data that are being read."""

    def __init__(self, trainer: pl.Trainer, read: Container[str]) -> None:
        """Look at no code yet.

        Args:
            trainer: of the training.
            read: names that code asks other objects for.
        """
        self._trainer, self._read = trainer, read

    def disturbs(self, owner: object, name: str) -> bool:
        """Say whether an attribute may be set between two steps of what reads it."""
        if not (behind := _reading_behind(type(owner), name)):
            return False
        methods = methods_of(type(owner))
        if id(owner) in self._shared or name in self._stored or self._is_any_stored:
            return True
        # A method of its own may be given the name.
        if any(BY_TEXT & {*names_in(each.code)} for each in methods if each.is_own):
            return True
        return any(self._is_set_by_others(methods, each.name, name) for each in behind)

    def _is_set_by_others(self, methods: Sequence[Method], reading: str, name: str) -> bool:
        """Say whether another method sets it than one that reads it, and those it alone calls."""
        if any(_sets_later(each.code, name) for each in methods):
            return True
        setting = {each.name for each in methods if name in _stored(each.code)}
        for other in setting - {reading}:
            asking = {each.name for each in methods if other in names_in(each.code)} - {other}
            is_asked = other in self._read or other in self._stored or other.startswith("__")
            if is_asked or asking != {reading}:
                return True
        # One that others run meanwhile begins anew.
        own = [each for each in methods if each.is_own]
        asking = {each.name for each in own if reading in names_in(each.code)}
        is_begun = reading in self._read and not reading.startswith("__")
        return reading in setting and (is_begun or bool(asking - {reading, "__iter__"}))

    @functools.cached_property
    def _shared(self) -> set[int]:
        """The identities of what lies in several loaders: one may be read while another is."""
        loaders = loaders_of(self._trainer)
        counts = Counter(id(part) for each in loaders for part in parts_of([each]))
        return {key for key, count in counts.items() if count > 1}

    @functools.cached_property
    def _stored(self) -> set[str]:
        return set[str]().union(*(stored_in(file).names for file in users_files().values()))

    @functools.cached_property
    def _is_any_stored(self) -> bool:
        """Whether code of the training sets an attribute whose name it computes, or may do so."""
        computed = {file: stored_in(file).computed for file in users_files().values()}
        found = [*_functions(self._trainer)]
        return None in found or any(
            not computed[code.co_filename].isdisjoint(_lines(code))
            if code.co_filename in computed
            else _is_in_no_file(code)
            for code in found
            if code is not None
        )


@functools.cache
def _reading_behind(kind: type, name: str) -> tuple[Method, ...]:
    """Return the methods that read an attribute behind a `yield`, or in a function inside."""
    return tuple(reading_unset(methods_of(kind), name, is_at_once=True))


@functools.cache
def _stored(code: types.CodeType) -> frozenset[str]:
    steps = dis.get_instructions(code)
    return frozenset(str(step.argval) for step in steps if step.opname == "STORE_ATTR")


def _is_in_no_file(code: types.CodeType) -> bool:
    """Say whether nobody can read what code does; not what a library makes of a dataclass, say."""
    return not code.co_name.startswith("__") and not Path(code.co_filename).exists()


def _sets_later(code: types.CodeType, name: str) -> bool:
    """Say whether a function inside of a method sets an attribute."""
    inside = [inner for inner in code.co_consts if isinstance(inner, types.CodeType)]
    return any(name in _stored(inner) or _sets_later(inner, name) for inner in inside)


def _lines(code: types.CodeType) -> set[int]:
    found = {line for _, _, line in code.co_lines() if line is not None}
    inside = (inner for inner in code.co_consts if isinstance(inner, types.CodeType))
    return found.union(*map(_lines, inside))


def _functions(trainer: pl.Trainer) -> Iterator[types.CodeType | None]:
    """Yield the code of a user's that a training may run; None where there is too much of it."""
    left: list[object] = [*trainer.lightning_module.modules(), *vars(trainer)["callbacks"]]
    left += [*trainer.optimizers, *schedules_of(trainer), vars(trainer).get("datamodule")]
    left += parts_of(loaders_of(trainer))
    first = {*map(id, left)}
    seen: dict[int, object] = {}  # which are kept, so that no other gets their number
    while left:
        value = left.pop()
        if id(value) in seen:
            continue
        seen[id(value)] = value
        if len(seen) > _MOST:
            yield None
            return
        if isinstance(value, types.FunctionType):
            if is_users(value.__module__):
                yield value.__code__
            left += _named_by(value)
        elif isinstance(value, AROUND):
            left += [getattr(value, name, None) for name in INSIDE]
        elif is_container(value):
            left += [item for _, item in entries(value)] if size_of(value) <= _MOST_INSIDE else []
        else:
            kind = value if isinstance(value, type) else type(value)
            for base in kind.__mro__ if is_users(kind.__module__) else ():
                members = vars(base).values() if is_users(base.__module__) else ()
                left += [found for member in members for found in functions_in(member)]
            # A library's loader or transform may hold one's own.
            is_walked = is_users(kind.__module__) or id(value) in first or callable(value)
            if is_walked and not isinstance(value, type | pl.Trainer):
                left += attributes_seen(value).values()


def _named_by(function: types.FunctionType) -> Iterator[object]:
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # not set yet
            yield cell.cell_contents
    yield getattr(function, "__wrapped__", None)
    names, known = {*names_in(function.__code__)}, function.__globals__
    for name in names & known.keys() if is_users(function.__module__) else ():
        value = known[name]
        if not isinstance(value, types.ModuleType):
            yield value
        elif is_users(value.__name__):
            yield from (vars(value)[each] for each in names & vars(value).keys())
