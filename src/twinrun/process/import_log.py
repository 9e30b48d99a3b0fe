"""What the processes of a job import of a user's code, and read, remembered beside its result.

Importing a user's modules tells what they import (see `planned_code`), and not what a training
imports under way, by a name that only it knows. So each process of a job, and what it forks,
appends what its loaders execute to one file, `run.imports.jsonl` beside `run.json`. The next plan
looks at it: `state_of` is a parameter of the rule.

The file begins with the state that its job was planned with. As long as nothing has changed since,
that is the state now, whatever was imported; after a change it is another one for good, also when
the job was done again. A change is one of a file, or of the names of the modules that lie beside
(see `importable`): what a training looks for under way, no plan has seen. So it is with data that
it finds by itself (see `read_files`).
"""

import functools
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from twinrun import artifacts
from twinrun.process import read_files
from twinrun.process.cached_sources import with_sources
from twinrun.process.import_record import LOG, hash_of_source
from twinrun.process.importable import folders_of, modules_in
from twinrun.process.imported_code import Imported
from twinrun.process.made_files import remember
from twinrun.process.read_files import as_noted, changed, held, told_apart
from twinrun.process.read_notes import GONE, named_alone, notes_of, parts_noted
from twinrun.process.source_hash import find_source


def log_of(result: str | Path) -> Path:
    """Return where the imports of the job that makes a result are kept.

    >>> log_of("results/runs/w/v/seed1/repeat1/run.json").name
    'run.imports.jsonl'
    """
    return Path(result).with_suffix(".imports.jsonl")


@contextmanager
def kept(result: str | Path, planned: str, *, goes_on: bool = False) -> Iterator[dict[str, str]]:
    """Keep the log of a job during the body; give the variable that has its processes write it.

    Args:
        result: what the job makes.
        planned: the state that it was planned with.
        goes_on: whether an earlier attempt is resumed, whose imports count too.
    """
    log = log_of(result)
    if not (goes_on and log.is_file() and _read(log)[0].planned == planned):
        notes_of(log).unlink(missing_ok=True)
        _write(log, _Begun(planned), [])
    try:
        yield {LOG: str(log.absolute())}
    finally:
        # Code that the job itself has made and removed is none that anybody could change.
        begun, entries = _read(log)
        entries = [entry for entry in entries if Path(entry.file).is_file()]
        found, made = told_apart(held(log))
        named = named_alone(log)
        read = with_sources(found, named)
        left = {*made}  # in the end all that was made is noted once more
        for part in parts_noted(log):
            if of := left & part:  # most jobs make nothing
                of_part = {file: mark for file, mark in found.items() if file in part}
                # A part that has read nothing has it from memory: another one had read it.
                sources = with_sources(of_part or found, named)
                remember({file: made[file] for file in of}, sources)
                left -= part
        beside, read = _found_beside(begun.beside, entries), {**begun.read, **read}
        _write(log, _Begun(planned, beside, read, {**begun.made, **made}), entries)
        notes_of(log).unlink(missing_ok=True)


def _found_beside(
    before: Mapping[str, Sequence[str]], entries: Sequence["_Entry"]
) -> dict[str, list[str]]:
    """Name the modules beside what a job has imported, without those that came too late for it.

    Args:
        before: of an earlier attempt.
        entries: what it has imported.
    """
    known = {folder: {*names} for folder, names in before.items()}
    own: dict[str, set[str]] = {}
    for entry in entries:
        path = Path(entry.file)
        folders = folders_of(entry.name, path)
        for folder, module in zip(folders, (path, *path.parents), strict=False):
            own.setdefault(folder, set()).add(module.name)  # the job may have written it
        for folder, names in zip(folders, entry.beside, strict=False):
            known[folder] = known.get(folder, {*names}) & {*names}
    found: dict[str, list[str]] = {}
    for folder, modules in sorted(own.items()):
        names = modules_in(folder)
        is_known = modules | known.get(folder, {*names})
        found[folder] = [name for name in names if name in is_known]
    return found


def logged(result: str | Path) -> Imported:
    """Return what the job that made a result has imported; {} where it kept no log.

    A file that was executed in two versions is there with each of them.
    """
    found: Imported = {}
    for entry in _read(log_of(result))[1]:
        found[f"{entry.name} ({entry.file}, {entry.sha256[:12]})"] = {
            "file": entry.file,
            "sha256": entry.sha256,
        }
    return found


def lay_beside(result: str | Path) -> dict[str, list[str]]:
    """Return the modules that lay beside those that a job has imported, by folder."""
    return _read(log_of(result))[0].beside


def read_by(result: str | Path) -> dict[str, str]:
    """Return what the files held that a job has read, by path: see `read_files.held`."""
    return _read(log_of(result))[0].read


def changed_by_others(result: str | Path, folder: Path = Path()) -> dict[str, str]:
    """Return what files hold that a job has made and somebody has changed since, by path.

    Args:
        result: what the job made.
        folder: the working directory.
    """
    return read_files.changed_by_others(_read(log_of(result))[0].made, folder)


def state_of(result: str | Path, search_path: Sequence[str]) -> str:
    """Return what a job that is planned now is told of the imports of the one before.

    Args:
        result: what the job makes.
        search_path: folders with the user's own modules, which may have been moved since.
    """
    begun, entries = _read(log := log_of(result))
    # Of a job that was killed there are notes alone.
    noted, _ = told_apart(as_noted(log))
    read = {**noted, **begun.read}
    found = {*changed(read).items(), *changed_by_others(result).items()}
    for entry in entries:
        file = _file_now(entry.name, entry.file, tuple(search_path))
        if (now := _hash_now(file)) != entry.sha256:
            found.add((entry.file, now))
        folders = zip(
            folders_of(entry.name, entry.file), folders_of(entry.name, file), strict=False
        )
        for folder, folder_now in folders:
            names = _modules_now(folder_now)
            if begun.beside.get(folder, names) != names:
                found.add((folder, json.dumps(names)))
    if not found:
        return begun.planned
    return hashlib.sha256(json.dumps([begun.planned, sorted(found)]).encode()).hexdigest()


class _Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of the log."""

    name: str
    """Of the module."""
    file: str
    """Its path from the working directory."""
    sha256: str
    """As of an `ImportedFile`."""
    beside: tuple[tuple[str, ...], ...] = ()
    """What lay in each of `folders_of` when its process first looked; none after the job's end."""


class _Begun(msgspec.Struct):
    """The first line."""

    planned: str
    """The state that the job was planned with."""
    beside: dict[str, list[str]] = {}
    """The modules in each folder beside what it imported; none before its end."""
    read: dict[str, str] = {}
    """As of `read_files.held`; none before its end."""
    made: dict[str, str] = {}
    """What it has made ahead of its steps, and others may find; none before its end."""


def _write(log: Path, begun: _Begun, entries: Sequence[_Entry]) -> None:
    files = dict.fromkeys(_Entry(each.name, each.file, each.sha256) for each in entries)
    lines = [msgspec.json.encode(line) for line in (begun, *files)]
    artifacts.write_text(log, "".join(f"{line.decode()}\n" for line in lines))


def _read(log: Path) -> tuple[_Begun, list[_Entry]]:
    """Read what a job began with, and each file once."""
    try:
        first, *lines = log.read_bytes().splitlines()
        begun = msgspec.json.decode(first, type=_Begun)
        # Of workers that were killed the last line may lack its end; they are trained again.
        entries = [msgspec.json.decode(line, type=_Entry) for line in lines if line.endswith(b"}")]
    except (OSError, ValueError, msgspec.MsgspecError):  # none, or not as it was written
        return _Begun(""), []
    return begun, list(dict.fromkeys(entries))


# All are asked for by each of thousands of runs; a plan takes seconds.


@functools.cache
def _file_now(name: str, file: str, search_path: tuple[str, ...]) -> Path:
    """Return a file where it was, or where its module is found since it was moved."""
    path = Path(file)
    if not path.is_file() and search_path:
        path = find_source(name, search_path, installed=False) or path
    return path


@functools.cache
def _hash_now(path: Path) -> str:
    return hash_of_source(path, path.read_bytes()) if path.is_file() else GONE


_modules_now = functools.cache(modules_in)
