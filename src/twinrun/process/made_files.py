"""What the files were made of that one training, or the rehearsal, has made and others find.

A cache of a table is read by all, and the table by who has made the cache alone: what that had read
counts for each that finds the cache as it was made.
"""

import hashlib
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypedDict

from twinrun import artifacts
from twinrun.errors import TwinrunError
from twinrun.process.opened_entries import FOLDER

_MADE = FOLDER / "made"  # a file for each, and for each list of sources


class MadeFile(TypedDict):
    """One of them."""

    state: str
    """Its size and when it was written, as its maker had ended."""
    sources: str
    """The name of the file that says what its maker had read."""


def remember(made: Iterable[str], read: Mapping[str, str]) -> None:
    """Remember what files were made of.

    Args:
        made: what a job has made ahead of its steps.
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
            record = MadeFile(state=state, sources=name)
            artifacts.write_record(_path(file), record, MadeFile)


def sources_of(read: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return what files were made of that are as their makers left them, by these files.

    Of several that one job has made of the same the first has it.

    Args:
        read: paths; most of them have no maker.
    """
    found, known = dict[str, dict[str, str]](), set[str]()
    for file in read if _MADE.is_dir() else ():
        with suppress(OSError, TwinrunError):
            made = artifacts.read_record(_path(file), MadeFile)
            if made["state"] == _state(file) and made["sources"] not in known:
                known.add(made["sources"])
                of = _MADE / f"{made['sources']}.json"
                found[file] = artifacts.read_record(of, dict[str, str])
    return found


def _state(file: str) -> str:
    found = Path(file).stat()
    return f"{found.st_size} {found.st_mtime_ns}"


def _path(file: str) -> Path:
    name = os.path.abspath(file).encode(errors="surrogateescape")  # noqa: PTH100
    return _MADE / f"of-{hashlib.sha256(name).hexdigest()[:32]}.json"
