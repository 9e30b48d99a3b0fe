"""The line of a user's code that is being executed."""

import os
import sys
import sysconfig
from collections.abc import Collection
from pathlib import Path
from types import CodeType

import pytorch_lightning as pl
import torch
from lightning_fabric import __file__ as fabric_file

from twinrun.process.import_record import relative

_PACKAGE = Path(__file__).parents[1]
_LIBRARIES = tuple(str(Path(file).parent) for file in (torch.__file__, pl.__file__, fabric_file))
_STANDARD_LIBRARY = sysconfig.get_path("stdlib")


def users_line(*, inside_of: Collection[CodeType] = ()) -> str:
    """Return file:line of the innermost line that is not torch's, Lightning's or ours.

    Args:
        inside_of: of functions whose callers are not asked.

    >>> def here():
    ...     return users_line(inside_of=[here.__code__])
    >>> here()
    ''
    """
    frame = sys._getframe(1)
    while frame is not None and frame.f_code not in inside_of:
        file = frame.f_code.co_filename
        if _is_users(file):
            return f"{_shown(file)}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def _is_users(file: str) -> bool:
    """Say whether a line is one that a user can change: the built-in workloads count as his."""
    path = Path(file)
    if path.is_relative_to(_PACKAGE):
        return path.is_relative_to(_PACKAGE / "workloads")
    # `<string>` and frozen modules have no file.
    if not path.is_absolute() or file.startswith(_LIBRARIES):
        return False
    # site-packages lies inside of the standard library's folder.
    return not file.startswith(_STANDARD_LIBRARY) or "site-packages" in file


def _shown(file: str) -> str:
    """Shorten a path: from the working directory, or from the package it belongs to."""
    seen = relative(file)
    if not seen.startswith(os.pardir):
        return seen
    return "/".join(Path(file).parts[-2:])
