"""Which code is a user's own, and what it names."""

import functools
import sys
import sysconfig
import types
from collections.abc import Iterator

from twinrun.process.import_path import OURS_AS_USERS


@functools.cache
def is_users(module: object) -> bool:
    """Say whether a module is a user's own, and no installed or built-in one."""
    if not isinstance(module, str) or module.startswith(OURS_AS_USERS):
        return isinstance(module, str)
    if module.partition(".")[0] in {"twinrun", *sys.builtin_module_names}:
        return False
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    return "site-packages" not in file and not file.startswith(_installed())


@functools.cache
def _installed() -> tuple[str, ...]:
    """Return the folders of what is installed."""
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    return tuple({sysconfig.get_path(name) for name in names})


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
