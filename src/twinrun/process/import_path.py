"""Import an object by its import path, or say in one sentence why that failed."""

import difflib
import importlib
import sys
from collections.abc import Sequence
from typing import Any

from twinrun.errors import TwinrunError


def import_object(import_path: str, search_path: Sequence[str] = ()) -> Any:
    """Import `package.module:name`; the folders of `search_path` come before installed packages.

    Raises:
        TwinrunError: if the module cannot be imported or has no such name.
    """
    module_name, _, name = import_path.partition(":")
    for folder in reversed(search_path):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # a user's module may raise anything
        raise TwinrunError(
            f"{import_path}: importing {module_name} failed with {type(error).__name__}: {error}"
        ) from error
    if not hasattr(module, name):
        near = difflib.get_close_matches(name, dir(module), n=1)
        hint = f", did you mean {near[0]}?" if near else ""
        raise TwinrunError(f"{import_path}: {module_name} has no {name}{hint}")
    return getattr(module, name)
