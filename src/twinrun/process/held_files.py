"""Files that this process holds: open, or mapped into its memory (Linux)."""

import os
from contextlib import suppress
from pathlib import Path


def is_held(file: str) -> bool:
    """Say whether this process has a file open, or mapped into memory; no, where nobody can say."""
    wanted = os.fsencode(os.path.realpath(file))
    with suppress(OSError):
        if any(line.endswith(wanted) for line in Path("/proc/self/maps").read_bytes().splitlines()):
            return True
        folder = "/proc/self/fd"
        for number in os.listdir(folder):  # noqa: PTH208
            with suppress(OSError):
                if os.fsencode(os.readlink(f"{folder}/{number}")) == wanted:  # noqa: PTH115
                    return True
    return False
