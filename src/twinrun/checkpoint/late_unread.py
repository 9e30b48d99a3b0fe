"""Attributes that code sets anew before it reads them: from one call to the next they hold nothing.

A sampler may keep the order that it has drawn where it is begun, a dataset the index that it was
asked for last. A resumed training need not have them. Between two mini-batches a generator stands
still, and a callback or a step may set what it reads next: so of what it sets before and reads
behind a `yield`, it alone has to be the one that sets it (see `late_disturbed`).
"""

import dis
import functools
import inspect
import sys
import types
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from twinrun.checkpoint.users_attributes import READING
from twinrun.checkpoint.users_code import MADE_ONCE, functions_in, is_users, names_in

_RETURNS = {"RETURN_VALUE", "RETURN_CONST"}
_ENDS = _RETURNS | {"RERAISE", "RAISE_VARARGS"}
_ENDS |= {"JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"}
_READS = {"LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "DELETE_ATTR"}
_NAMES = {*_READS, "LOAD_CONST"}
_NO_STEPS = {"CACHE", "PRECALL"}
_ANY = {"getattr", "__getattribute__", "vars", "__dict__", "attrgetter"}
_JUMPS = frozenset((*dis.hasjrel, *dis.hasjabs))


@functools.cache
def set_anew(kind: type) -> frozenset[str]:
    """Name the attributes that no method of a class reads that has not set them before."""
    methods = methods_of(kind)
    own = [each.code for each in methods if each.is_own]
    if any(_ANY & {*names_in(code)} for code in own):
        return frozenset()
    stored = set[str]().union(*map(_stored, own))
    return frozenset(
        name
        for name in stored
        if _is_set_in_reading(methods, name) and not _is_read_unset(methods, name)
    )


def read_elsewhere(owners: Iterable[object]) -> set[str]:
    """Name the attributes that a user's code reads of another object than a method's own.

    Args:
        owners: samplers, datasets and helpers.

    Raises:
        TypeError: if one is of a class that lies in no file.
        OSError: if a file cannot be read.
    """
    if any(type(each).__module__ not in sys.modules for each in owners):
        raise TypeError("a class lies in no file")
    files = users_files()
    if "__main__" not in files and any(type(each).__module__ == "__main__" for each in owners):
        raise TypeError("a class lies in no file")
    return set[str]().union(*map(_read_in, files.values()))


def users_files() -> dict[str, str]:
    """Return the files of a user's that the process has, by the names of their modules."""
    return _files_of(tuple(sys.modules))


@functools.lru_cache(maxsize=1)
def _files_of(names: tuple[str, ...]) -> dict[str, str]:
    users = {name: sys.modules.get(name) for name in names if is_users(name)}
    named = {name: getattr(each, "__file__", None) or "" for name, each in users.items()}
    # Namespaces that a library makes name files that are none.
    return {
        name: file
        for name, file in named.items()
        if file.endswith(".py") and Path(file).is_absolute() and not _is_gone(users[name], file)
    }


def _is_gone(module: object, file: str) -> bool:
    """Say whether a compiler has made a module that nobody imported, and taken its file away."""
    return getattr(module, "__spec__", None) is None and not Path(file).exists()


@functools.cache
def _read_in(file: str) -> frozenset[str]:
    return frozenset(_reads(compile(Path(file).read_bytes(), file, "exec", dont_inherit=True)))


def _reads(code: types.CodeType) -> Iterator[str]:
    own, before = _self_of(code), None
    steps = [*dis.get_instructions(code)]
    is_by_text = _ANY & {*code.co_names} or any(step.opname == "MATCH_CLASS" for step in steps)
    for step in steps:
        value = step.argval
        if step.opname in _READS and (before is None or not own or _last(before) != own):
            yield str(value)
        elif step.opname == "LOAD_CONST" and is_by_text:
            texts = value if isinstance(value, tuple | frozenset) else (value,)
            yield from (each for each in texts if isinstance(each, str))
        before = step
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _reads(inner)


def _self_of(code: types.CodeType) -> tuple[str, ...]:
    """Return the name of the object whose method it is, as it is called by custom."""
    is_inner = code.co_qualname.endswith((f"<locals>.{code.co_name}", "<lambda>"))
    is_method = code.co_varnames[:1] == ("self",) and "." in code.co_qualname and not is_inner
    return ("self",) if is_method or "self" in code.co_freevars else ()


class Method(NamedTuple):
    """One of a class."""

    name: str
    """Its name."""
    is_own: bool
    """Whether it is a user's."""
    code: types.CodeType
    """What it does."""


def methods_of(kind: type) -> list[Method]:
    """List the methods of a class that may be called once an object of it has been made."""
    return [each for each in _methods(kind) if each.name not in MADE_ONCE]


def _methods(kind: type, *, are_all: bool = False) -> list[Method]:
    """List the methods of a class and its bases, with those that are overridden if one asks them.

    Args:
        kind: the class.
        are_all: with these whether or not one asks them.
    """
    all_of_them, first = list[Method](), dict[str, list[Method]]()
    for base in kind.__mro__[:-1]:
        for name, member in vars(base).items():
            plain = [inspect.unwrap(each) for each in functions_in(member) if callable(each)]
            codes = [each.__code__ for each in plain if isinstance(each, types.FunctionType)]
            methods = [Method(name, is_users(base.__module__), code) for code in codes]
            all_of_them += methods
            first.setdefault(name, methods)
    asked = {"super", *(base.__name__ for base in kind.__mro__)}
    own = [each for each in all_of_them if each.is_own and each.name not in MADE_ONCE]
    if are_all or any(asked & {*names_in(each.code)} for each in own):
        return all_of_them
    return [each for methods in first.values() for each in methods]


def _is_set_in_reading(methods: Sequence["Method"], name: str) -> bool:
    """Say whether a method that reads data sets an attribute, or one that is called by these."""
    setting = {each.name for each in methods if name in _stored(each.code)}
    reading = [each for each in methods if each.name in READING]
    return any(each.name in setting or setting & {*names_in(each.code)} for each in reading)


def _stored(code: types.CodeType) -> set[str]:
    steps = dis.get_instructions(code)
    return {str(step.argval) for step in steps if step.opname == "STORE_ATTR"}


def _is_read_unset(methods: Sequence["Method"], name: str) -> bool:
    """Say whether a method may read an attribute that neither it nor one it calls has set."""
    return any(True for _ in reading_unset(methods, name))


def reading_unset(
    methods: Sequence["Method"], name: str, *, is_at_once: bool = False
) -> Iterator["Method"]:
    """Yield the methods that may read an attribute that neither they nor one they call has set.

    Args:
        methods: of a class.
        name: of the attribute.
        is_at_once: take nothing for set behind a `yield`, nor in functions inside of methods.
    """
    naming = [each for each in methods if name in names_in(each.code)]
    leaving = {each.name for each in methods if each not in naming or _may_leave(each.code, name)}
    setting = frozenset(each.name for each in naming if each.name not in leaving)
    # A way there is by code that calls what sets it, too.
    for each in naming:
        inside = [inner for inner in each.code.co_consts if isinstance(inner, types.CodeType)]
        is_inside = any(name in names_in(inner) for inner in inside if not _is_run_at_once(inner))
        steps = _unset(each.code, name, setting - {each.name}, is_at_once=is_at_once)
        if (is_at_once and is_inside) or any(_is_reading(step, name) for step in steps):
            yield each


def _is_run_at_once(code: types.CodeType) -> bool:
    """Say whether it is a comprehension, which older versions of Python run as a function."""
    return code.co_name in {"<listcomp>", "<dictcomp>", "<setcomp>"}


def _is_reading(step: dis.Instruction, name: str) -> bool:
    if isinstance(step.argval, types.CodeType):
        return name in names_in(step.argval)
    return step.opname in _NAMES and step.argval == name


def _may_leave(code: types.CodeType, name: str) -> bool:
    """Say whether a method may return without having set an attribute."""
    is_run_later = code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE)
    returns = (step.opname in _RETURNS for step in _unset(code, name, frozenset()))
    return bool(is_run_later) or any(returns)


def _unset(
    code: types.CodeType, name: str, setting: frozenset[str], *, is_at_once: bool = False
) -> Iterator[dis.Instruction]:
    """Yield the steps to which a way leads on which an attribute is not set.

    Args:
        code: of a method.
        name: of the attribute.
        setting: methods that set it, if they are called without arguments.
        is_at_once: it is not set any more behind a `yield`.
    """
    steps = [step for step in dis.get_instructions(code) if step.opname not in _NO_STEPS]
    at = {step.offset: turn for turn, step in enumerate(steps)}
    caught = dis.Bytecode(code).exception_entries  # pyrefly: ignore[missing-attribute]
    own = code.co_varnames[:1]
    left, seen = [(0, False)], set[tuple[int, bool]]()
    while left:
        turn, is_set = left.pop()
        if (turn, is_set) in seen or turn >= len(steps):
            continue
        seen.add((turn, is_set))
        step = steps[turn]
        if is_at_once and step.opname == "YIELD_VALUE":
            is_set = False
        if not is_set:
            yield step
        left += [
            (at[each.target], is_set) for each in caught if each.start <= step.offset < each.end
        ]
        is_set |= turn > 0 and _last(steps[turn - 1]) == own and _sets(steps, turn, name, setting)
        if is_set and not is_at_once:
            continue
        if step.opname not in _ENDS:
            left.append((turn + 1, is_set))
        if step.opcode in _JUMPS:
            left.append((at[step.argval], is_set))


def _sets(steps: Sequence[dis.Instruction], turn: int, name: str, setting: frozenset[str]) -> bool:
    """Say whether a step sets an attribute of what lies on top."""
    step = steps[turn]
    called = steps[turn + 1 : turn + 2] if step.opname in _READS else []
    is_called = any(each.opname == "CALL" and not each.arg for each in called)
    is_set = step.opname == "STORE_ATTR" and step.argval == name
    return is_set or (is_called and step.argval in setting)


def _last(step: dis.Instruction) -> tuple[str, ...]:
    """Return the variable that a step has put on top, if it has."""
    if not step.opname.startswith(("LOAD_FAST", "LOAD_DEREF")):
        return ()
    found = step.argval
    return (str(found[-1] if isinstance(found, tuple) else found),)
