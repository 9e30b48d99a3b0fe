"""What the files were made of that one training, or the rehearsal, has made and others find.

A cache of a table is read by all, and the table by who has made the cache alone: what that had read
counts for each that finds the cache as it was made.
"""

import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypedDict

from twinrun import artifacts
from twinrun.errors import TwinrunError
from twinrun.process.opened_entries import FOLDER

_MADE = FOLDER / "made"  # a file for each


class MadeFile(TypedDict):
    """One of them."""

    mark: str
    """What it held when its maker had ended."""
    of: dict[str, str]
    """What its maker had read that others had made: as of `read_files.held`."""


def remember(made: Mapping[str, str], read: Mapping[str, str]) -> None:
    """Remember what files were made of.

    Args:
        made: marks of what a job has made ahead of its steps, and read, by path.
        read: of what it has read beside that.
    """
    with suppress(OSError, TwinrunError):  # a folder that cannot be written: jobs say so themselves
        for file, mark in made.items():
            artifacts.write_record(_path(file), MadeFile(mark=mark, of=dict(read)), MadeFile)


def with_sources(read: Mapping[str, str]) -> dict[str, str]:
    """Add to what a job has read what that was made of."""
    sources = dict[str, str]()
    for file, mark in read.items():
        with suppress(OSError, TwinrunError):  # most have no maker
            made = artifacts.read_record(_path(file), MadeFile)
            sources |= made["of"] if made["mark"] == mark else {}
    return {**sources, **read}


def _path(file: str) -> Path:
    name = os.path.abspath(file).encode(errors="surrogateescape")  # noqa: PTH100
    return _MADE / f"{hashlib.sha256(name).hexdigest()[:32]}.json"
