"""Files that this process holds: open, or mapped into its memory (Linux)."""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


def mapped_files() -> set[str]:
    """Return the paths of those that are mapped into memory; none, where nobody can say."""
    with suppress(OSError):
        lines = os.fsdecode(Path("/proc/self/maps").read_bytes()).splitlines()
        # Five fields before the path, which may have blanks in it.
        return {parts[5] for line in lines if len(parts := line.split(maxsplit=5)) > 5}
    return set()


def held_of(files: Iterable[str]) -> set[str]:
    """Return those that this process has open, or mapped; none, where nobody can say.

    Without psutil: this is asked as a file is opened, where nothing can be imported.
    """
    wanted = {os.path.realpath(file): file for file in files}
    found, folder = mapped_files(), "/proc/self/fd"
    with suppress(OSError):
        for number in os.listdir(folder):  # noqa: PTH208
            with suppress(OSError):
                found.add(os.readlink(f"{folder}/{number}"))  # noqa: PTH115
    return {wanted[path] for path in found & wanted.keys()}
