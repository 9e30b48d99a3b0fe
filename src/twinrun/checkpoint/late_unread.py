"""Attributes that code sets anew before it reads them: from one call to the next they hold nothing.

A sampler may keep the order that it has drawn where it is begun, a dataset the index that it was
asked for last. A resumed training need not have them.
"""

import dis
import functools
import inspect
import sys
import types
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pytorch_lightning as pl

from twinrun.checkpoint.refusals import loaders_of
from twinrun.checkpoint.users_code import (
    MADE_ONCE,
    attributes_seen,
    functions_in,
    is_code,
    is_users,
    names_in,
)

_ENDS = {"RETURN_VALUE", "RETURN_CONST", "RERAISE", "RAISE_VARARGS"}
_ENDS |= {"JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"}
_READS = {"LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "DELETE_ATTR"}
_NAMES = {*_READS, "LOAD_CONST"}
_ANY = {"getattr", "__getattribute__", "vars", "__dict__", "attrgetter"}
_JUMPS = frozenset((*dis.hasjrel, *dis.hasjabs))


@functools.cache
def set_anew(kind: type) -> frozenset[str]:
    """Name the attributes that no method of a class reads that has not set them before."""
    methods = [each for each in _methods(kind) if each.name not in MADE_ONCE]
    own = [each.code for each in methods if each.is_own]
    if any(_ANY & {*names_in(code)} for code in own):
        return frozenset()
    steps = (step for code in own for step in dis.get_instructions(code))
    stored = {str(step.argval) for step in steps if step.opname == "STORE_ATTR"}
    codes = [each.code for each in methods]
    return frozenset(
        name
        for name in stored
        if not any(name in names_in(code) and _reads_unset(code, name) for code in codes)
    )


def read_elsewhere(trainer: pl.Trainer, owners: Iterable[object]) -> set[str]:
    """Name the attributes that code reads of another object than the one whose method it is.

    Args:
        trainer: of the training; its code is that of the files in which the classes and functions
            lie that take part, and of a user's files of which these name something.
        owners: samplers, datasets and helpers.

    Raises:
        Exception: of some class, where a file is not there.
    """
    parts = [*trainer.lightning_module.modules(), *vars(trainer)["callbacks"], *owners]
    parts += [getattr(each, "collate_fn", None) for each in loaders_of(trainer)]
    parts += [each for part in parts for each in attributes_seen(part).values() if is_code(each)]
    names = {getattr(each if is_code(each) else type(each), "__module__", "") for each in parts}
    files = _with_named(frozenset(name for name in names if is_users(name)))
    return set[str]().union(*map(_read_in, files))


@functools.cache
def _with_named(names: frozenset[str]) -> frozenset[str]:
    """Return the names of files, and of a user's files of which they have something."""
    found, left = set[str](), [*names]
    while left:
        if (name := left.pop()) in found or name not in sys.modules:
            continue
        found.add(name)
        for held in [*vars(sys.modules[name]).values()]:
            inner = held.__name__ if isinstance(held, types.ModuleType) else None
            inner = inner or getattr(held if is_code(held) else type(held), "__module__", None)
            if isinstance(inner, str) and is_users(inner):
                left.append(inner)
    return frozenset(found)


@functools.cache
def _read_in(file: str) -> frozenset[str]:
    source = inspect.getsource(sys.modules[file])
    return frozenset(_reads(compile(source, file, "exec", dont_inherit=True)))


def _reads(code: types.CodeType) -> Iterator[str]:
    own, before = _self_of(code), None
    for step in dis.get_instructions(code):
        value = step.argval
        if step.opname in _READS and (before is None or not own or _last(before) != own):
            yield str(value)
        elif step.opname == "LOAD_CONST" and _ANY & {*code.co_names}:
            texts = value if isinstance(value, tuple | frozenset) else (value,)
            yield from (each for each in texts if isinstance(each, str))
        before = step
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _reads(inner)


def _self_of(code: types.CodeType) -> tuple[str, ...]:
    """Return the name of the object whose method it is, as it is called by custom."""
    is_inner = code.co_qualname.endswith(f"<locals>.{code.co_name}")
    is_method = code.co_varnames[:1] == ("self",) and "." in code.co_qualname and not is_inner
    return ("self",) if is_method or "self" in code.co_freevars else ()


class _Method(NamedTuple):
    """One of a class."""

    name: str
    """Its name."""
    is_own: bool
    """Whether it is a user's."""
    code: types.CodeType
    """What it does."""


def _methods(kind: type, *, are_all: bool = False) -> list[_Method]:
    """List the methods of a class and its bases, with those that are overridden if one asks them.

    Args:
        kind: the class.
        are_all: with these whether or not one asks them.
    """
    all_of_them, first = list[_Method](), dict[str, list[_Method]]()
    for base in kind.__mro__[:-1]:
        for name, member in vars(base).items():
            plain = [inspect.unwrap(each) for each in functions_in(member) if callable(each)]
            codes = [each.__code__ for each in plain if isinstance(each, types.FunctionType)]
            methods = [_Method(name, is_users(base.__module__), code) for code in codes]
            all_of_them += methods
            first.setdefault(name, methods)
    asked = {"super", *(base.__name__ for base in kind.__mro__)}
    own = [each for each in all_of_them if each.is_own and each.name not in MADE_ONCE]
    if are_all or any(asked & {*names_in(each.code)} for each in own):
        return all_of_them
    return [each for methods in first.values() for each in methods]


def _reads_unset(code: types.CodeType, name: str) -> bool:
    """Say whether code may read an attribute that it has not set: whether a way leads there."""
    steps = [step for step in dis.get_instructions(code) if step.opname != "CACHE"]
    at = {step.offset: turn for turn, step in enumerate(steps)}
    caught = dis.Bytecode(code).exception_entries  # pyrefly: ignore[missing-attribute]
    own = code.co_varnames[:1]
    left, seen = [0], set[int]()
    while left:
        turn = left.pop()
        if turn in seen or turn >= len(steps):
            continue
        seen.add(turn)
        step = steps[turn]
        value = step.argval
        is_inside = isinstance(value, types.CodeType) and name in names_in(value)
        if is_inside or (step.opname in _NAMES and value == name):
            return True
        is_set = step.opname == "STORE_ATTR" and value == name
        if is_set and turn and _last(steps[turn - 1]) == own:
            continue
        if step.opname not in _ENDS:
            left.append(turn + 1)
        if step.opcode in _JUMPS:
            left.append(at[value])
        left += [at[each.target] for each in caught if each.start <= step.offset < each.end]
    return False


def _last(step: dis.Instruction) -> tuple[str, ...]:
    """Return the variable that a step has put on top, if it has."""
    if not step.opname.startswith(("LOAD_FAST", "LOAD_DEREF")):
        return ()
    found = step.argval
    return (str(found[-1] if isinstance(found, tuple) else found),)
