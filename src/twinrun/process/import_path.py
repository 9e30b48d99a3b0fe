"""Import an object by its import path, or say in one sentence why that failed."""

import difflib
import importlib
import os
import re
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from twinrun.errors import TwinrunError
from twinrun.process.import_cures import cure_of, hidden, shadowed
from twinrun.process.no_training import TrainsAtImportError, without_training
from twinrun.process.one_lightning import unite
from twinrun.process.unmet_requirements import unmet
from twinrun.wording import meant_path

# What of this package is as a user's own.
OURS_AS_USERS = ("twinrun.workloads.", "twinrun.data.")
_NO_USERS = {"twinrun", "torch", "pytorch_lightning", "lightning", "lightning_fabric"}


IMPORT_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


def folders_in(text: str) -> list[str]:
    """Return the folders of a search path that a rule hands on as one text.

    >>> folders_in(""), folders_in(os.pathsep.join(["a", "b"]))
    ([], ['a', 'b'])
    """
    return text.split(os.pathsep) if text else []


def import_object(import_path: str, search_path: Sequence[str] = ()) -> Any:
    """Import `package.module:name`, or `module:Class.method`; `search_path` comes before the rest.

    Raises:
        TwinrunError: if the module cannot be imported or has no such name.
    """
    if not IMPORT_PATH.fullmatch(import_path):
        meant = meant_path(import_path)
        raise TwinrunError(f"{import_path} is not an import path like package.module:Class{meant}")
    module_name, _, name = import_path.partition(":")
    for folder in reversed(search_path):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    unite()
    try:
        with without_training():
            module = importlib.import_module(module_name)
    except TrainsAtImportError as error:
        raise TwinrunError(f"{import_path}: {error}") from error
    except SystemExit as error:  # no Exception: a script that parses arguments or ends itself
        raise TwinrunError(
            f"{import_path}: importing {module_name} ends the program, as a script does "
            f"(sys.exit({error.code!r})); put what the script does under "
            f'`if __name__ == "__main__":`'
        ) from error
    except Exception as error:  # a user's module may raise anything
        where = ""
        meant = meant_path(import_path) if module_name.endswith(".py") else ""
        if isinstance(error, ModuleNotFoundError) and search_path and not meant:
            here = str(Path.cwd())
            own = [here] if {"", here} & set(sys.path) else []
            folders = dict.fromkeys([*(str(Path(f).absolute()) for f in search_path), *own])
            where = (
                f" (looked for in {', '.join(folders)}, beside the config, and among what is "
                f"installed)"
            )
        raise TwinrunError(
            f"{import_path}: importing {module_name} failed with {type(error).__name__}: "
            f"{first_line(error)}{where}{cure_of(error, module_name, search_path)}"
            f"{unmet(error, module_name)}{meant}"
        ) from error
    found, owner = module, module_name
    for part in name.split("."):
        if not hasattr(found, part):
            near = difflib.get_close_matches(part, dir(found), n=1)
            hint = f", did you mean {near[0]}?" if near else ""
            if found is module:
                hint = hidden(module, part) or shadowed(module_name, search_path) or hint
            raise TwinrunError(f"{import_path}: {owner} has no {part}{hint}")
        found, owner = getattr(found, part), part
    return found


def first_line(error: BaseException) -> str:
    """Return the first line of a message, of which some packages write pages."""
    return next(iter(str(error).strip().splitlines()), "")


def user_line(error: BaseException, import_paths: Sequence[str]) -> str:
    """Return `file, line n` of the deepest call in the packages of import paths, or nothing.

    Where there is none, of the deepest one that is neither torch's, Lightning's, Python's nor ours:
    of a file that the others import.
    """
    packages = {path.partition(":")[0].partition(".")[0] for path in import_paths}
    found, elsewhere = "", ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        name = frame.f_globals.get("__name__", "")
        is_ours = name.startswith("twinrun.") and not name.startswith(OURS_AS_USERS)
        here = f"{Path(frame.f_code.co_filename).name}, line {line}"
        if name.partition(".")[0] in packages and not is_ours:
            found = here
        elif name.partition(".")[0] not in {*_NO_USERS, *sys.stdlib_module_names}:
            elsewhere = here
    return found or elsewhere
