"""Files that trainings beside each other write and read: who reads another's is not trained alone.

Trainings of one workflow run side by side in one working directory. A module that keeps its best
weights in `best.pt`, and reads them again to test them, is then given those of another run. Only as
it opens a file is it known that it does. So each process of a training writes down the files that
it opens to write, in one log for the whole directory, and looks there each time that it opens one
to read: it is disturbed where another training has written that since it began itself. What was
written before it began it has found: a first training would not have.

Seen is what Python opens and what `torch.save` writes, data workers' files too. Not seen is what
other libraries open by themselves: HDF5, OpenCV, safetensors. Left out are hidden folders and
`__pycache__` (caches), installed packages, and the results of the training itself, which are in
folders of its own.
"""

import os
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from twinrun.wording import some

LOG = "TWINRUN_OPENED_FILES"  # the variable that names the log
# The training and the attempt at it, all of whose processes are one; and when it began, in ns: of
# a training that is resumed its first attempt.
WHO, BEGAN = "TWINRUN_OPENED_BY", "TWINRUN_OPENED_SINCE"
AGAIN_NS = 10**9  # a file that is written again and again is written down once a second
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

Entry = Literal["written", "disturbed", "stale", "found"]
MOST_FILES = 50_000  # of earlier trainings that are remembered
MOST_WRITTEN, MOST_FOUND = 10_000, 100  # of one process, and of one training, that are written down


@dataclass
class _Log:
    """The log, as one process sees it."""

    path: Path
    """Of the file."""
    descriptor: int
    """To append to it."""
    who: str
    """The training that this process belongs to, a `/` and the attempt."""
    began: int
    """When that began (ns since the epoch), or if it was resumed its first attempt."""
    folder: str
    """The working directory as the process began."""
    left_out: tuple[str, ...]
    """What paths begin with that are no user's files."""
    watched: str | None = None
    """A folder among these that is watched all the same."""
    seen: int = 0
    """Bytes of the log that have been read."""
    earlier: set[str] = field(default_factory=set)
    """Files that others had written before this training began."""
    others: dict[str, str] = field(default_factory=dict)
    """Files that others have written since, and who; an earlier attempt at it is another one."""
    ours: set[str] = field(default_factory=set)
    """Files that processes of this training have written, this one too."""
    own: dict[str, int] = field(default_factory=dict)
    """When (ns) a file was last written down as written by this process."""
    read: set[str] = field(default_factory=set)
    """Files of others that were read, and are written down as that."""

    def append(self, entry: Entry, file: str) -> None:
        """Write an entry: one system call, so that those of several processes do not mix."""
        line = f"{self.who}\t{entry}\t{time.time_ns()}\t{file}\n"
        os.write(self.descriptor, line.encode(errors="surrogateescape"))

    def read_on(self) -> None:
        """Read what others have written since."""
        size = os.fstat(self.descriptor).st_size
        if size <= self.seen:
            return
        new = os.pread(self.descriptor, size - self.seen, self.seen)
        whole = new[: new.rfind(b"\n") + 1]
        self.seen += len(whole)
        for who, entry, moment, file in _entries(whole):
            if who == self.who:
                (self.ours if entry == "written" else self.read).add(file)
            elif entry == "written" and moment < self.began:
                self.earlier.add(file)
            elif entry == "written":
                self.others[file] = who

    def note_read(self, file: str) -> None:
        """Write down a file of another training, or attempt, that is read."""
        # A folder may have been moved or removed as a whole.
        parts = [file, *(str(parent) for parent in Path(file).parents)] if self.others else []
        who = next((self.others[part] for part in parts if part in self.others), None)
        is_of_attempt = who is not None and who.partition("/")[0] == self.who.partition("/")[0]
        entry: Entry | None = None
        if who is not None and not (is_of_attempt and file in self.ours):
            entry = "stale" if is_of_attempt else "disturbed"
        elif who is None and file in self.earlier and file not in self.ours:
            entry = "found" if len(self.read) < MOST_FOUND else None
        if entry is not None:
            self.read.add(file)
            self.append(entry, file)


def _entries(lines: bytes) -> list[tuple[str, str, int, str]]:
    split = [line.split("\t") for line in lines.decode(errors="surrogateescape").split("\n")]
    whole = [parts for parts in split if len(parts) == 4 and parts[2].isdigit()]
    return [(who, entry, int(moment), file) for who, entry, moment, file in whole]


_log: _Log | None = None


def watch() -> None:
    """Watch the files that this process and its forks open, where a job has asked for it."""
    global _log
    path, who = os.environ.get(LOG), os.environ.get(WHO)
    if path is None or who is None or _log is not None:
        return
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
    except OSError:  # a folder that cannot be written: the job says so itself
        return
    folder = str(Path.cwd())
    # All of it now: to ask for a temporary folder may open a file.
    began = int(os.environ.get(BEGAN) or time.time_ns())
    _log = _Log(Path(path), descriptor, who, began, folder, _left_out())
    sys.addaudithook(_heard)


def watch_torch() -> None:
    """Watch `torch.save` too, which opens its file in C++, where this process has imported it."""
    if _log is None or "torch" not in sys.modules:
        return
    from torch import serialization

    class Watched(serialization._open_zipfile_writer_file):
        def __init__(self, name: str) -> None:
            with suppress(Exception):
                if _log is not None:
                    _opened(_log, name, is_written=True)
            super().__init__(name)

    serialization._open_zipfile_writer_file = Watched


NO_FOLDER = -1  # in the place of its descriptor
_EVENTS = {
    *("open", "sqlite3.connect", "os.rename", "os.link", "os.symlink", "os.remove", "os.rmdir"),
    "shutil.rmtree",
}


def _heard(event: str, arguments: tuple[object, ...]) -> None:
    """Take what Python tells of itself (https://docs.python.org/3/library/audit_events.html)."""
    if event not in _EVENTS or _log is None:
        return
    # What is raised here would reach the code that opens the file.
    with suppress(Exception):
        if event == "open":
            path, mode, flags = arguments
            is_written = bool(isinstance(flags, int) and flags & WRITES) or (
                isinstance(mode, str) and bool({*"wax+"} & {*mode})
            )
            is_read = not is_written or ("+" in str(mode) and "w" not in str(mode))
            _opened(_log, path, is_written=is_written, is_read=is_read)
        elif event.startswith("os.") and arguments[-1] != NO_FOLDER:
            return  # as `shutil.rmtree` removes what lies inside, by names from an open folder
        elif event in ("os.rename", "os.link", "os.symlink"):
            _opened(_log, arguments[1], is_written=True)
        else:
            _opened(_log, arguments[0], is_written=True, is_read=event == "sqlite3.connect")


def _opened(log: _Log, path: object, *, is_written: bool, is_read: bool = False) -> None:
    if not isinstance(path, str | bytes):  # a descriptor
        return
    file = os.path.abspath(os.fsdecode(path))  # noqa: PTH100 - a Path would resolve links
    if not _is_theirs(file, log):
        return
    log.read_on()
    if is_read and file not in log.read:
        log.note_read(file)
    if is_written:
        now = time.monotonic_ns()
        is_new = file not in log.own
        if now - log.own.get(file, -AGAIN_NS) >= AGAIN_NS and not (
            is_new and len(log.own) >= MOST_WRITTEN
        ):
            log.own[file] = now
            log.append("written", file)


def _is_theirs(file: str, log: _Log) -> bool:
    """Say whether a file may be one of a user's code."""
    if file.endswith((".py", ".pyc")) or "\n" in file or "\t" in file:
        return False
    if f"{os.sep}__pycache__{os.sep}" in file:  # what is compiled of code, as by Numba
        return False
    if file.startswith(log.left_out):
        return log.watched is not None and file.startswith(log.watched)
    return f"{os.sep}." not in file.removeprefix(log.folder)


def _left_out() -> tuple[str, ...]:
    installed = [f"{prefix}{os.sep}" for prefix in (sys.prefix, sys.base_prefix)]
    # Of this package's own, and what torch's compiler keeps for all processes of a user.
    made = [f"{tempfile.gettempdir()}{os.sep}{name}" for name in ("twinrun-", "torchinductor_")]
    return ("/proc/", "/dev/", "/sys/", *installed, *made)


def leave_out(folders: Sequence[str], *, but: str) -> None:
    """Leave out the folders of this training's own results, an earlier attempt's files too.

    Args:
        folders: their absolute paths.
        but: one inside of them in which a user's code writes.
    """
    if _log is not None:
        _log.left_out += tuple(f"{folder}{os.sep}" for folder in folders)
        _log.watched = f"{but}{os.sep}"


def files_of(path: Path, who: str, entry: Entry) -> list[str]:
    """Name the files of which a training has written something down, sorted.

    Args:
        path: the log.
        who: the training.
        entry: what.

    Returns:
        Their paths from the working directory.
    """
    try:
        found = _entries(path.read_bytes())
    except OSError:  # none could be written
        return []
    return sorted(
        {os.path.relpath(f) for name, kind, _, f in found if (name, kind) == (who, entry)}
    )


def forget_trainings(path: Path) -> None:
    """Keep of a log which files were written; no process may have it open."""
    found = _entries(path.read_bytes())
    written = {file: (who, when) for who, entry, when, file in found if entry == "written"}
    there = [file for file in written if os.path.exists(file)][-MOST_FILES:]  # noqa: PTH110
    kept = [(written[file][0], "written", str(written[file][1]), file) for file in there]
    lines = "".join("\t".join(each) + "\n" for each in kept)
    path.write_bytes(lines.encode(errors="surrogateescape"))


def disturbed() -> str | None:
    """Say by which files the training of this process was disturbed; None if by none."""
    if _log is None:
        return None
    files = files_of(_log.path, _log.who, "disturbed")
    return read_of_others(files) if files else None


def found() -> list[str]:
    """Name the files of earlier trainings that the training of this process has read, sorted."""
    return [] if _log is None else files_of(_log.path, _log.who, "found")


def read_of_earlier(files: Sequence[str]) -> list[str]:
    """Say what it means that a training has found these files, if there are any.

    >>> read_of_earlier(["last.pt"])
    ['last.pt was read as an earlier training (or the rehearsal) left it: a first one finds none']
    """
    if not files:
        return []
    was, left = ("was", "it") if len(files) == 1 else ("were", "them")
    return [
        f"{some(files)} {was} read as an earlier training (or the rehearsal) left {left}: a first "
        "one finds none"
    ]


def read_of_attempt(files: Sequence[str]) -> str:
    """Say what it means that a resumed training has read these files."""
    return (
        f"it was resumed, and has read {some(files)} as the attempt before left it, which no "
        f"checkpoint holds"
    )


def read_of_others(files: Sequence[str]) -> str:
    """Say what it means that a training has read these files."""
    return (
        f"it has read {some(files)}, which another training wrote meanwhile; what a module writes "
        f"belongs below self.trainer.default_root_dir, which each training has for itself"
    )
