"""Files that a process holds: open, to be read, or mapped into its memory (Linux)."""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path


def mapped_files(process: int | str = "self") -> set[str]:
    """Return the paths of those that are mapped into memory; none, where nobody can say."""
    return {path for _, path in _mapped(process)}


def _mapped(process: int | str) -> list[tuple[str, str]]:
    """Return rights, such as `r--s`, and path of each mapped part of a file."""
    with suppress(OSError):
        lines = os.fsdecode(Path(f"/proc/{process}/maps").read_bytes()).splitlines()
        # Five fields before the path, which may have blanks in it.
        fields = [line.split(maxsplit=5) for line in lines]
        return [(parts[1], parts[5]) for parts in fields if len(parts) > 5]
    return []


def held_to_be_read() -> set[str]:
    """Return the paths of those that this process holds, and can only read; but for its code."""
    how = dict[str, set[str]]()
    for rights, path in _mapped("self"):
        how.setdefault(path, set()).add(rights)
    for rights, path in _open("self"):
        how.setdefault(path, set()).add("r" if rights == os.O_RDONLY else "ws")
    # A private part may be written, but not to the file.
    written = {path for path, several in how.items() if any({*"ws"} <= {*each} for each in several)}
    return {path for path in how.keys() - written if not any("x" in each for each in how[path])}


def held_of(files: Iterable[str], process: int | str = "self") -> set[str]:
    """Return those that a process has open, or mapped; none, where nobody can say.

    Without psutil: this is asked as a file is opened, where nothing can be imported.
    """
    wanted = {os.path.realpath(file): file for file in files}
    opened = {path for rights, path in _open(process) if rights != os.O_WRONLY}
    found = mapped_files(process) | opened
    return {wanted[path] for path in found & wanted.keys()}


def _open(process: int | str) -> Iterator[tuple[int, str]]:
    """Yield how a file is open (O_RDONLY, O_WRONLY, O_RDWR), and its path."""
    with suppress(OSError):
        for number in os.listdir(f"/proc/{process}/fd"):  # noqa: PTH208
            with suppress(OSError, StopIteration, ValueError):
                # https://docs.kernel.org/filesystems/proc.html (3.8), octal
                lines = Path(f"/proc/{process}/fdinfo/{number}").read_bytes().splitlines()
                flags = next(line for line in lines if line.startswith(b"flags:"))
                rights = int(flags.split()[1], 8) & os.O_ACCMODE
                yield rights, os.readlink(f"/proc/{process}/fd/{number}")  # noqa: PTH115
