"""Files that a process holds: open, to be read, or mapped into its memory (Linux)."""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path


def mapped_files(process: int | str = "self") -> set[str]:
    """Return the paths of those that are mapped into memory; none, where nobody can say."""
    with suppress(OSError):
        lines = os.fsdecode(Path(f"/proc/{process}/maps").read_bytes()).splitlines()
        # Five fields before the path, which may have blanks in it.
        return {parts[5] for line in lines if len(parts := line.split(maxsplit=5)) > 5}
    return set()


def held_of(files: Iterable[str], process: int | str = "self") -> set[str]:
    """Return those that a process has open, or mapped; none, where nobody can say.

    Without psutil: this is asked as a file is opened, where nothing can be imported.
    """
    wanted = {os.path.realpath(file): file for file in files}
    found = mapped_files(process) | {*_open_to_be_read(process)}
    return {wanted[path] for path in found & wanted.keys()}


def _open_to_be_read(process: int | str) -> Iterator[str]:
    with suppress(OSError):
        for number in os.listdir(f"/proc/{process}/fd"):  # noqa: PTH208
            with suppress(OSError, StopIteration, ValueError):
                # https://docs.kernel.org/filesystems/proc.html (3.8), octal
                lines = Path(f"/proc/{process}/fdinfo/{number}").read_bytes().splitlines()
                flags = next(line for line in lines if line.startswith(b"flags:"))
                if int(flags.split()[1], 8) & os.O_ACCMODE != os.O_WRONLY:
                    yield os.readlink(f"/proc/{process}/fd/{number}")  # noqa: PTH115
