"""Which code a job will depend on, found before it starts.

Importing a user's modules tells, in a process of its own. That takes seconds, so the answer is
remembered: until one of the files changes, until a module appears beside them that may be imported
too (a plugin that is looked for, what `try: import` misses, one that hides another), until another
distribution is installed. What could not be imported is found anew by the next start: a start asks
for each rule, and an import that breaks off may have taken long, too.
"""

import contextlib
import functools
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import TypedDict

import msgspec

from twinrun import artifacts
from twinrun.errors import TwinrunError
from twinrun.process.import_record import PACKAGE, is_outside
from twinrun.process.importable import folders_of, modules_in
from twinrun.process.imported_code import Imported, changed_since, distributions_hash
from twinrun.process.job import say
from twinrun.process.machine_faults import SENT
from twinrun.process.source_hash import find_source, may_name_code, sources_hash

MEMORY = Path(".snakemake/twinrun/imports.json")  # beside Snakemake's own memory of the folder
SILENT_SECONDS = 5.0  # then a line says what is waited for
# What broke off in this process, as `MEMORY` has what did not.
_BROKEN_OFF: dict[str, "_Remembered"] = {}

# What the process does: it says what it has imported, and whether all of it could be.
IMPORTING = """
import importlib, json, os, sys
started = os.getcwd()
from twinrun.process.no_training import without_training
from twinrun.process.one_lightning import unite
unite()  # as in a run
modules, folders = json.loads(sys.argv.pop())  # as in a run: they may read the command line
sys.path[:0] = folders
out, sys.stdout = sys.stdout, sys.stderr
is_whole = True
for path in modules:
    name, attribute = path, ""
    while True:
        try:
            with without_training():
                module = importlib.import_module(name)
            is_whole = is_whole and (not attribute or hasattr(module, attribute))
        except BaseException as error:  # the rehearsal says so in a sentence
            if getattr(error, "name", "") == name and "." in name:  # a class in a module
                name, _, attribute = name.rpartition(".")
                continue
            is_cli = isinstance(error, AttributeError) and error.name == "cli"
            if is_cli and "pytorch_lightning.cli" not in sys.modules:
                import pytorch_lightning.cli  # as each command of LightningCLI has
                continue
            is_whole = False
        break
from twinrun.process.importable import folders_of, modules_in
from twinrun.process.imported_code import imported_files
os.chdir(started)  # a module may have changed it
json.dump({"imported": imported_files(), "is_whole": is_whole}, out)
"""


class _Told(TypedDict):
    """What the process tells."""

    imported: Imported
    """The files that it has imported."""
    is_whole: bool
    """Whether every module could be imported."""


class _Remembered(TypedDict):
    """What one import found."""

    imported: Imported
    """The files."""
    beside: str
    """What else decides what is imported: see `_state`."""


def discover(modules: Sequence[str], search_path: Sequence[str], memory: Path) -> Imported:
    """Return what importing modules imports.

    Args:
        modules: their dotted names.
        search_path: folders looked in before the installed packages.
        memory: a JSON file; where it cannot be written nothing is remembered.
    """
    folders = [str(Path(p).resolve()) for p in search_path]
    key = json.dumps([sorted(modules), folders, sys.path[1:]])
    remembered = _read(memory)
    known = remembered.get(key) or _BROKEN_OFF.get(key)
    if (
        known is not None
        and not changed_since(known["imported"])
        and known["beside"] == _state(known["imported"], search_path)
    ):
        return known["imported"]
    told = _imported_elsewhere(modules, folders)
    found: _Remembered = {
        "imported": told["imported"],
        "beside": _state(told["imported"], search_path),
    }
    # Of what breaks off nobody knows what else it would import: not until one of *its* files
    # changes, but when a package is installed or a machine has a GPU, it may go through.
    if told["is_whole"]:
        with contextlib.suppress(OSError):  # a folder that cannot be written: found again next time
            artifacts.write_record(memory, {**remembered, key: found}, dict[str, _Remembered])
    else:
        _BROKEN_OFF[key] = found
    return told["imported"]


def _imported_elsewhere(
    modules: Sequence[str], folders: Sequence[str], *, is_again: bool = False
) -> _Told:
    """Import modules in a process of its own; say what is waited for."""
    search_path = os.pathsep.join(filter(None, [str(PACKAGE.parent), os.environ.get("PYTHONPATH")]))
    process = subprocess.Popen(
        [sys.executable, "-c", IMPORTING, json.dumps([list(modules), list(folders)])],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": search_path},
    )
    try:
        try:
            output, _ = process.communicate(timeout=SILENT_SECONDS)
        except subprocess.TimeoutExpired:
            say(f"Importing {', '.join(modules)} to see what code a job depends on ...")
            output, _ = process.communicate()
    finally:
        process.kill()  # where this one is interrupted
    # The system, say, where memory runs out. The jobs would be planned without the user's code, and
    # be done anew at the next start.
    if -process.returncode in SENT and not is_again:
        return _imported_elsewhere(modules, folders, is_again=True)
    if process.returncode != 0:  # a module that kills its process
        return {"imported": {}, "is_whole": False}
    return msgspec.json.decode(output, type=_Told)


def _read(memory: Path) -> dict[str, _Remembered]:
    try:
        return artifacts.read_record(memory, dict[str, _Remembered])
    except (OSError, TwinrunError):  # none yet, or a damaged one: found again
        return {}


def hash_of_code(
    modules: Sequence[str],
    search_path: Sequence[str],
    memory: Path = MEMORY,
    scripts: Sequence[Path] = (),
) -> str:
    """Return one hash of all code that a job depends on: Twinrun's, and what a user's imports.

    Args:
        modules: their dotted names, or those of classes in them; those of Twinrun are followed by
            their import statements.
        search_path: folders with the user's own modules.
        memory: see `discover`.
        scripts: files that are executed, not imported; what they import counts only as a module.
    """
    modules = [module for module in modules if may_name_code(module, search_path)]
    users = [module for module in modules if _is_users(module, search_path)]
    own = sources_hash([_module(n, search_path) for n in modules], search_path, scripts)
    if not users:
        return own
    found = discover(users, search_path, memory)
    imported = {name: entry["sha256"] for name, entry in found.items()}
    return hashlib.sha256(json.dumps([own, imported]).encode()).hexdigest()


def _is_users(name: str, search_path: Sequence[str]) -> bool:
    """Say whether a name is a module, or in one, that is not of Twinrun."""
    package = name.split(".")[0]
    if package == PACKAGE.name:
        return False
    # Of a text that looks like a class's path there may be no package.
    return bool(PathFinder.find_spec(package, list(search_path)) or find_spec(package))


def _module(name: str, search_path: Sequence[str]) -> str:
    """Return the module in which a class lies, and of a module itself."""
    module = name
    while "." in module and find_source(module, search_path) is None:
        module = module.rpartition(".")[0]
    return module if find_source(module, search_path) else name


# What lies beside


def modules_beside(
    workloads: Iterable[Sequence[str]], search_path: Sequence[str], memory: Path = MEMORY
) -> dict[str, list[str]]:
    """Name the modules in every folder that a new one would be imported from, by folder.

    Args:
        workloads: the modules of each.
        search_path: as for `discover`.
        memory: likewise.
    """
    folders: set[str] = set()
    for modules in workloads:
        users = [
            module
            for module in modules
            if _is_users(module, search_path) and may_name_code(module, search_path)
        ]
        if users:
            folders |= _folders(discover(users, search_path, memory), _paths(search_path))
    return {folder: modules_in(folder) for folder in sorted(folders)}


def hash_beside(imported: Imported, paths: Sequence[str]) -> str:
    """Hash the names of the modules that lie beside imported ones.

    Another one may be imported too the next time, or instead, though no file has changed.

    Args:
        imported: the files.
        paths: the folders where Python looks for a user's modules.
    """
    names = {folder: modules_in(folder) for folder in sorted(_folders(imported, paths))}
    return hashlib.sha256(json.dumps(names).encode()).hexdigest()


def _state(imported: Imported, search_path: Sequence[str]) -> str:
    """Return what else than the files decides what is imported: names beside, what is installed."""
    return f"{hash_beside(imported, _paths(search_path))} {_installed(tuple(sys.path))}"


def _paths(search_path: Sequence[str]) -> list[str]:
    """Return the folders where Python looks for a user's modules."""
    paths = [path or "." for path in sys.path]
    return [*search_path, *(p for p in paths if is_outside(os.path.join(p, "any")))]  # noqa: PTH118


@functools.cache  # asked for by each rule of each workload; reading all metadata takes 0.2 s
def _installed(_: tuple[str, ...]) -> str:
    """Hash the versions of all distributions on a path, `sys.path`."""
    return distributions_hash()


def _folders(imported: Imported, paths: Sequence[str]) -> set[str]:
    """Name the folders in which a new module could be found by an import, as seen from here."""
    found = {*map(os.path.relpath, paths)}
    for name, entry in imported.items():
        found |= {*folders_of(name, entry["file"])}
    return found


def added_since(beside: Mapping[str, Sequence[str]], folder: Path = Path()) -> list[str]:
    """Name the modules that have come to lie in folders since they were looked at.

    Args:
        beside: what `modules_beside` found.
        folder: the working directory of then.
    """
    return [
        os.path.join(where, name)  # noqa: PTH118
        for where, names in beside.items()
        for name in sorted({*modules_in(folder / where)} - {*names})
    ]
