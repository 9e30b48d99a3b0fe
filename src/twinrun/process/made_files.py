"""What the files were made of that one training, or the rehearsal, has made and others find.

A cache of a table is read by all, and the table by who has made the cache alone: what that had read
counts for each that finds the cache as it was made.
"""

import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NotRequired, TypedDict

from twinrun import artifacts
from twinrun.errors import TwinrunError
from twinrun.process.opened_entries import FOLDER

_MADE = FOLDER / "made"  # a file for each, and for each list of sources


class MadeFile(TypedDict):
    """One of them."""

    state: str
    """Its size and when it was written, as its maker had ended."""
    mark: NotRequired[str]
    """What was said of it then, as `read_files.held` does; absent in records of before."""
    sources: str
    """The name of the file that says what its maker had read."""


def remember(made: Mapping[str, str], read: Mapping[str, str]) -> None:
    """Remember what files were made of.

    Args:
        made: what a job has made ahead of its steps, and what it holds.
        read: what files held that it has read beside that, as of `read_files.held`.
    """
    name = hashlib.sha256(repr(sorted(read.items())).encode(errors="replace")).hexdigest()
    states = dict[str, str]()
    for file in made if read else ():
        with suppress(OSError):  # one that is gone again, as a temporary file
            states[file] = _state(file)
    # A folder that cannot be written: jobs say so themselves.
    with suppress(OSError, TwinrunError):
        if states:
            artifacts.write_record(_MADE / f"{name}.json", dict(read), dict[str, str])
        for file, state in states.items():
            record = MadeFile(state=state, mark=made[file], sources=name)
            artifacts.write_record(_path(file), record, MadeFile)


def sources_of(read: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return what files were made of that are as their makers left them, by these files.

    Of several that one job has made of the same the first has it.

    Args:
        read: files, and what they hold; most of them have no maker.
    """
    found, known = dict[str, dict[str, str]](), set[str]()
    for file, mark in read.items() if _MADE.is_dir() else ():
        with suppress(OSError, TwinrunError):
            made = artifacts.read_record(_path(file), MadeFile)
            # One that was touched, or copied, holds the same.
            is_same = made["state"] == _state(file) or ("mark" in made and made["mark"] == mark)
            if is_same and made["sources"] not in known:
                known.add(made["sources"])
                of = _MADE / f"{made['sources']}.json"
                found[file] = artifacts.read_record(of, dict[str, str])
    return found


def _state(file: str) -> str:
    found = Path(file).stat()
    return f"{found.st_size} {found.st_mtime_ns}"


def _path(file: str) -> Path:
    name = os.path.relpath(file).encode(errors="surrogateescape")  # a project may be moved
    return _MADE / f"of-{hashlib.sha256(name).hexdigest()[:32]}.json"
