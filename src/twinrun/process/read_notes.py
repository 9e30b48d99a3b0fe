"""The notes that the processes of a job take of what they read.

Each line has a path and a mark: what can be said of the file without reading it. They lie in
`run.imports.jsonl.read` beside `run.json` until the job ends.
"""

import json
import os
import stat
import sys
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from twinrun.process.import_record import LOG, relative
from twinrun.process.listed_names import all_names, is_of_results
from twinrun.process.opened_entries import changed_at

MOST_FILES = 10_000  # and folders, of a job
_MOST_LOGGED = 1 << 22  # bytes of the file of notes: processes that know little note again
STATE, MADE = " bytes written at ", "made "  # in a mark, and before one
GONE, MEANWHILE = "gone", "changed while it was used"
_PART = ""  # in the place of a file: another part begins, or a file was named alone
_OF_MACHINE = ("/etc/", "/usr/lib/", "/usr/lib64/", "/usr/share/", "/lib/", "/lib64/")


def notes_of(log: Path) -> Path:
    """Return where the processes of a job take notes, beside the log of its imports."""
    return log.with_name(f"{log.name}.read")


class ReadFiles:
    """What this process has noted, and what it is forked from."""

    def __init__(self, notes: Path | None, folder: str) -> None:
        """Begin, where a job has asked for it.

        Args:
            notes: the file; None to note nothing.
            folder: the working directory as the process began.
        """
        self._descriptor, self._process = -1, 0
        self._known, self._missing = set[str](), set[str]()
        self._folder, own = folder, (sys.prefix, sys.base_prefix)
        left_out = (*_OF_MACHINE, *(f"{each}{os.sep}" for each in own))
        self._left_out = tuple(
            each for each in left_out if not f"{folder}{os.sep}".startswith(each)
        )
        with suppress(OSError):  # a folder that cannot be written: the job says so itself
            if notes is not None:
                flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
                self._descriptor = os.open(notes, flags, 0o666)

    @classmethod
    def of_job(cls, folder: str) -> "ReadFiles":
        """Return those of the job that this process belongs to."""
        log = os.environ.get(LOG)
        return cls(notes_of(Path(log)) if log else None, folder)

    def knows(self, file: str) -> bool:
        """Say whether this process needs no note of a file or folder, or takes none."""
        return self._descriptor < 0 or file in self._known

    def note(
        self,
        file: str,
        *,
        began: int,
        written: Collection[str] | None = None,
        is_made: bool = False,
        is_named: bool = False,
    ) -> None:
        """Note a file that is read, or a folder that is listed.

        Args:
            file: its absolute path.
            began: when (ns) the job did: what has changed since, it may have written itself.
            written: of a folder that is listed, the names there of what trainings write.
            is_made: this training has made it, ahead of its steps, and another one may find it.
            is_named: its code names it, and nobody has seen that it was opened.
        """
        if self.knows(file) or len(self._known) >= MOST_FILES:
            return
        if self._is_left_out(file):
            return
        if self._process != os.getpid():  # it is forked, and others of its kind were before
            self._process = os.getpid()
            self._known |= noted_in(os.pread(self._descriptor, _MOST_LOGGED, 0)).keys()
            if file in self._known:
                return
        with suppress(OSError, ValueError):  # what is not there, as the code will see
            self._known.add(file)  # to look at it is heard too
            changed = changed_at(file)
            if changed is None:
                self._note_missing(file)
                return
            # A folder that has changed since has so by what lies in it now.
            is_made = is_made or (written is None and changed >= began)
            made = f"{MADE * is_made}{state_of(file)}" if written is None else None
            self._write(file, made or all_names(file, written or ()))
            if is_named:
                self._write(_PART, file)

    def note_changed(self, file: str) -> None:
        """Note that a file has changed since this process began to use what names it."""
        if self._descriptor >= 0 and not self._is_left_out(file):
            self._write(file, MEANWHILE)

    def begin_part(self) -> None:
        """Note that what is made from now on is made of what is read from now on."""
        if self._descriptor >= 0:
            self._known.clear()
            self._process = os.getpid()
            self._write(_PART, "")

    def _is_left_out(self, file: str) -> bool:
        is_own = is_of_results(os.path.relpath(file, self._folder), self._folder)
        return is_own or file.startswith(self._left_out)

    def _note_missing(self, file: str) -> None:
        """Note that a file is not there: it may be made under way, or given later."""
        self._known.discard(file)
        if file.startswith(f"{self._folder}{os.sep}") and file not in self._missing:
            self._missing.add(file)
            self._write(file, GONE)

    def _write(self, file: str, mark: str) -> None:
        line = json.dumps([file, mark])
        if file.isprintable() and os.fstat(self._descriptor).st_size < _MOST_LOGGED:
            os.write(self._descriptor, f"{line}\n".encode())


def _lines(lines: bytes) -> Iterator[tuple[str, str]]:
    for line in lines.splitlines():
        with suppress(ValueError):  # the last one may lack its end
            file, mark = json.loads(line)
            yield file, mark


def noted_in(lines: bytes) -> dict[str, str]:
    """Return what notes say of each path; of one of which they say two things that it changed.

    What the job has made it may make again.
    """
    found = dict[str, str]()
    for file, mark in _lines(lines):
        before = found.get(file, GONE)
        if before == GONE or (before.startswith(MADE) and mark.startswith(MADE)):
            found[file] = mark
        elif mark not in (GONE, found[file]):
            found[file] = MEANWHILE
    found.pop(_PART, None)
    return found


def parts_noted(log: Path) -> list[set[str]]:
    """Return which files the processes of a job have noted in each of its parts.

    Args:
        log: of the imports of the job.
    """
    found: list[set[str]] = [set()]
    with suppress(OSError):  # nothing was
        for file, mark in _lines(notes_of(log).read_bytes()):
            if file != _PART:
                found[-1].add(relative(file))
            elif not mark:
                found.append(set())
    return found


def named_alone(log: Path) -> set[str]:
    """Return which files the code of a job names, and no process was seen to open.

    Args:
        log: of the imports of the job.
    """
    try:
        lines = [*_lines(notes_of(log).read_bytes())]
    except OSError:  # nothing was noted
        return set()
    times = Counter(file for file, _ in lines)
    named = {mark for file, mark in lines if file == _PART and mark}
    return {relative(file) for file in named if times[file] == 1}


def state_of(file: str | Path) -> str:
    """Return the size of a file (bytes) and when it was written (ns); ValueError of another."""
    found = os.stat(file)  # noqa: PTH116
    if not stat.S_ISREG(found.st_mode):
        raise ValueError(file)
    return f"{found.st_size}{STATE}{found.st_mtime_ns}"
