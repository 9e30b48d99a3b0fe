"""Files that this process holds: open, or mapped into its memory (Linux)."""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


def held_of(files: Iterable[str]) -> set[str]:
    """Return those that this process has open, or mapped; none, where nobody can say."""
    wanted = {os.fsencode(os.path.realpath(file)): file for file in files}
    found = set[bytes]()
    with suppress(OSError):
        lines = Path("/proc/self/maps").read_bytes().splitlines()
        # Five fields before the path, which may have blanks in it.
        found |= {parts[5] for line in lines if len(parts := line.split(maxsplit=5)) > 5}
        folder = "/proc/self/fd"
        for number in os.listdir(folder):  # noqa: PTH208
            with suppress(OSError):
                found.add(os.fsencode(os.readlink(f"{folder}/{number}")))  # noqa: PTH115
    return {wanted[path] for path in found & wanted.keys()}
