"""What the processes of a job import of a user's code, remembered beside its result.

Importing a user's modules tells what they import (see `planned_code`), and not what a training
imports under way, by a name that only it knows. So each process of a job, and what it forks,
appends what its loaders execute to one file, `run.imports.jsonl` beside `run.json`. The next plan
looks at it: `state_of` is a parameter of the rule.

The file begins with the state that its job was planned with. As long as nothing has changed since,
that is the state now, whatever was imported; after a change it is another one for good, also when
the job was done again.
"""

import functools
import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from twinrun import artifacts
from twinrun.process.import_record import LOG, hash_of_source
from twinrun.process.imported_code import Imported
from twinrun.process.source_hash import find_source

GONE = "gone"


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
    if not (goes_on and log.is_file() and _read(log)[0] == planned):
        _write(log, planned, [])
    try:
        yield {LOG: str(log.absolute())}
    finally:
        # Code that the job itself has made and removed is none that anybody could change.
        _write(log, planned, [entry for entry in _read(log)[1] if Path(entry.file).is_file()])


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


def state_of(result: str | Path, search_path: Sequence[str]) -> str:
    """Return what a job that is planned now is told of the imports of the one before.

    Args:
        result: what the job makes.
        search_path: folders with the user's own modules, which may have been moved since.
    """
    planned, entries = _read(log_of(result))
    changed = sorted(
        (entry.file, now)
        for entry in entries
        if (now := _hash_now(entry.name, entry.file, tuple(search_path))) != entry.sha256
    )
    if not changed:
        return planned
    return hashlib.sha256(json.dumps([planned, changed]).encode()).hexdigest()


class _Entry(msgspec.Struct, frozen=True):
    """A line of the log."""

    name: str
    """Of the module."""
    file: str
    """Its path from the working directory."""
    sha256: str
    """As of an `ImportedFile`."""


class _Begun(msgspec.Struct):
    """The first line."""

    planned: str
    """The state that the job was planned with."""


def _write(log: Path, planned: str, entries: Sequence[_Entry]) -> None:
    lines = [msgspec.json.encode(line) for line in (_Begun(planned), *entries)]
    artifacts.write_text(log, "".join(f"{line.decode()}\n" for line in lines))


def _read(log: Path) -> tuple[str, list[_Entry]]:
    """Read the state that a job was planned with, and each file once."""
    try:
        first, *lines = log.read_bytes().splitlines()
        planned = msgspec.json.decode(first, type=_Begun).planned
        # Of workers that were killed the last line may lack its end; they are trained again.
        entries = [msgspec.json.decode(line, type=_Entry) for line in lines if line.endswith(b"}")]
    except (OSError, ValueError, msgspec.MsgspecError):  # none, or not as it was written
        return "", []
    return planned, list(dict.fromkeys(entries))


@functools.cache  # asked for by each of thousands of runs; a plan takes seconds
def _hash_now(name: str, file: str, search_path: tuple[str, ...]) -> str:
    """Hash a file as it is now, where it was or where its module is found since it was moved."""
    path = Path(file)
    if not path.is_file() and search_path:
        path = find_source(name, search_path, installed=False) or path
    return hash_of_source(path, path.read_bytes()) if path.is_file() else GONE
