"""Which code is a user's own, what it names, and which attributes its objects show."""

import functools
import inspect
import sys
import sysconfig
import types
from collections.abc import Iterator
from contextlib import suppress

import numpy as np

from twinrun.containers import attributes_of
from twinrun.hidden_content import is_of_c
from twinrun.process.import_path import OURS_AS_USERS

MADE_ONCE = ("__init__", "__new__", "__post_init__")


@functools.cache
def is_users(module: object) -> bool:
    """Say whether a module is a user's own, and no installed or built-in one."""
    if not isinstance(module, str) or module.startswith(OURS_AS_USERS):
        return isinstance(module, str)
    if module.partition(".")[0] in {"twinrun", *sys.builtin_module_names}:
        return False
    folders = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    return "site-packages" not in file and not file.startswith(tuple(folders))


def attributes_seen(owner: object) -> dict[str, object]:
    """Return the attributes of an object, none of one that raises when it is looked at.

    Nor of a number that processes share: they say where it is.
    """
    if is_of_c(owner):
        return {}
    found: dict[str, object] = {}
    with suppress(Exception):  # whatever class it is of
        found = attributes_of(owner)
    return found


def names_in(code: types.CodeType) -> Iterator[str]:
    """Name what the code of a function, and of those inside of it, calls by a name.

    Also in a text: `globals()["name"]`, `importlib.import_module("package.module")`.
    """
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from names_in(constant)
        elif isinstance(constant, str) and all(map(str.isidentifier, constant.split("."))):
            yield constant


def functions_in(value: object) -> tuple[object, ...]:
    """Return the functions that an attribute of a class is made of, or what else it is."""
    if isinstance(value, property):
        return value.fget, value.fset, value.fdel
    return (value.__func__ if isinstance(value, staticmethod | classmethod) else value,)


def is_code(value: object) -> bool:
    """Say whether a value is a class, a function or a method."""
    return isinstance(value, type | types.FunctionType | types.MethodType)


def is_computed_once(owner: object, called: str) -> bool:
    """Say whether the class of an object computes an attribute where it is first asked for.

    Args:
        owner: the object.
        called: its name, also behind that of the class.
    """
    member = inspect.getattr_static(type(owner), called.rpartition(".")[2], None)
    return isinstance(member, functools.cached_property)


def is_mapped(value: object) -> bool:
    """Say whether a value is a file that is mapped into memory, to be read alone."""
    return type(value) is np.memmap and not value.flags.writeable


@functools.cache
def seeks(kind: type) -> bool:
    """Say whether a class goes to a place in a buffer before it reads, as an archive's does."""
    own = [base for base in kind.__mro__ if is_users(base.__module__)]
    members = {name: member for base in reversed(own) for name, member in vars(base).items()}
    called = (member for name, member in members.items() if name not in MADE_ONCE)
    functions = (found for member in called for found in functions_in(member))
    codes = [found.__code__ for found in functions if isinstance(found, types.FunctionType)]
    return not own or any("seek" in names_in(code) for code in codes)
