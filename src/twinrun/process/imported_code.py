"""Which code outside the environment's packages a process has really imported.

A run depends on more than the files that its own import statements name: a sister package, an
editable install, a module imported by name. What was imported is read from the process itself, and
hashed. What lies in site-packages is identified by its distribution's version instead.

It cannot see: files that are read and executed without being imported, what a compiled library
loads, and files in site-packages that somebody has edited there. Modules that other processes of a
job import (its workers, what they fork) are in its log: see `import_log`.
"""

import hashlib
import json
import re
import sys
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import TypeAlias, TypedDict

from twinrun.process.import_record import (
    PACKAGE,
    executed,
    hash_of_source,
    is_outside,
    relative,
)

MOST_NAMED = 5  # distributions of other versions


class ImportedFile(TypedDict):
    """A file that a process has imported."""

    file: str
    """Its path."""
    sha256: str
    """SHA-256 of its code, without comments and docstrings where it is Python."""


Imported: TypeAlias = dict[str, ImportedFile]
"""Files by the names of their modules."""


def imported_files(modules: Iterable[ModuleType] | None = None) -> Imported:
    """Return the imported files outside of the standard library, site-packages and Twinrun.

    What the loaders have recorded (see `import_record`) is as it was executed; what was imported
    before that is as it lies there now.

    Args:
        modules: those of this process by default.
    """
    found: dict[str, ImportedFile] = {}
    recorded = executed() if modules is None else []
    for each in recorded:
        entry: ImportedFile = {
            "file": relative(each.file),
            "sha256": hash_of_source(each.file, each.content),
        }
        _add(found, each.name, entry)
    known = {each.file for each in recorded}
    for module in list(sys.modules.values()) if modules is None else modules:
        file = _file_of(module)
        if file is not None and file not in known and is_outside(file):
            name = getattr(module, "__name__", "")
            _add(found, name, {"file": relative(file), "sha256": hash_of_file(file)})
    return dict(sorted(found.items()))


def _add(found: dict[str, ImportedFile], name: str, entry: ImportedFile) -> None:
    """Add a file; several may be executed under one name, and one again when it was edited."""
    label, number = name, 1
    while found.get(label, entry) != entry:
        number += 1
        label = f"{name} ({entry['file']}{f', {number - 1}' if number > 2 else ''})"
    found[label] = entry


def _file_of(module: ModuleType) -> str | None:
    """Return the absolute path of a module's file, or of the archive that holds it."""
    file = getattr(module, "__file__", None)
    if not isinstance(file, str):
        return None
    path = Path(file).absolute()
    if path.is_file():
        return str(path)
    return next((str(parent) for parent in path.parents if parent.is_file()), None)


def hash_of_file(file: str | Path) -> str:
    """Return the SHA-256 of what a file does: of its syntax tree, or of the bytes of a library."""
    return hash_of_source(file, Path(file).read_bytes())


def changed_since(recorded: Mapping[str, ImportedFile], folder: Path = Path()) -> list[str]:
    """Name the recorded files, relative to a folder, that are not any more what they were."""
    return [
        entry["file"]
        for entry in recorded.values()
        if not (path := folder / entry["file"]).is_file() or hash_of_file(path) != entry["sha256"]
    ]


def distributions() -> dict[str, str]:
    """Return the version of every installed distribution, by its normalised name.

    One that was not installed from an index by its version, but from a folder, an archive or a
    repository, keeps its version while it changes: a hash of its files is added, as its installer
    has recorded them.
    """
    # Not all of sys.path: setuptools, once imported, adds what it brings along to it, so that the
    # answer would depend on what else a process has imported.
    folders = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    found: dict[str, str] = {}
    for each in metadata.distributions(path=folders):
        about = each.metadata  # each look at it reads and parses a file
        name = re.sub(r"[-_.]+", "-", about["Name"] or "").lower()
        # The first folder's, as Python imports it: --user, PYTHONPATH and system packages may hold
        # another one, under a name that is spelt otherwise (`ruamel.yaml`, `ruamel-yaml`).
        if name and name not in found:
            found[name] = _version_of(each, name, about["Version"])
    return dict(sorted(found.items()))


def _version_of(distribution: metadata.Distribution, name: str, version: str) -> str:
    # https://packaging.python.org/en/latest/specifications/direct-url/
    is_indexed = distribution.read_text("direct_url.json") is None
    # Twinrun's own code is hashed file by file.
    if is_indexed or name == PACKAGE.name:
        return version
    # Without scripts, which name the environment's folder, and the installer's own notes.
    files = sorted(
        line
        for line in (distribution.read_text("RECORD") or "").splitlines()
        if not line.startswith("..") and ".dist-info/" not in line and "__pycache__" not in line
    )
    digest = hashlib.sha256("\n".join(files).encode()).hexdigest()
    return f"{version} (files {digest[:12]})"


def other_distributions(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Name the first distributions whose versions differ; nothing where all are the same.

    >>> other_distributions({"a": "1", "b": "1", "c": "1"}, {"a": "2", "c": "1", "d": "1"})
    'a 1 and 2, b 1 and none, d none and 1'
    """
    names = [name for name in sorted({*before, *now}) if before.get(name) != now.get(name)]
    said = [f"{name} {before.get(name, 'none')} and {now.get(name, 'none')}" for name in names]
    more = [f"and {len(said) - MOST_NAMED} more"] if len(said) > MOST_NAMED else []
    return ", ".join([*said[:MOST_NAMED], *more])


def distributions_hash(found: dict[str, str] | None = None) -> str:
    """Return one hash of the versions of all installed distributions."""
    text = json.dumps(distributions() if found is None else found)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
