"""Which files the processes of a job read, and what these hold: data that its code finds by itself.

A data module opens what it likes. So each process of a training notes a file, once, as it opens it
to read, and a folder as it lists what lies there, in `run.imports.jsonl.read` beside `run.json`. Of
what a library opens by itself Python hears nothing: noted is what is held open, or mapped, as steps
begin and as the process ends.
What trainings write is left out (see `opened_log`), and so is what has changed by the end of the
job: nobody knows what it held. The rest is known by its bytes; the largest part of very large data
by sizes and times alone.
"""

import functools
import json
import os
import stat
import sys
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

from twinrun import artifacts
from twinrun.process.import_record import LOG, relative
from twinrun.process.listed_names import (
    NAMES,
    all_names,
    are_unlike,
    is_of_results,
    is_of_trainings,
    kind_of,
    names_again,
    of_data,
)
from twinrun.process.opened_entries import changed_at

MOST_FILES = 10_000  # and folders, of a job
MOST_BYTES = 1 << 28  # that are hashed of a job; it takes a part of a second
_MOST_LOGGED = 1 << 22  # bytes of the file of notes: processes that know little note again
_STATE, _MADE, _NEWER = " bytes written at ", "made ", "newer than "
GONE, _MEANWHILE = "gone", "changed while it was used"
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
        self._known = set[str]()
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
        is_early: bool = False,
    ) -> None:
        """Note a file that is read, or a folder that is listed.

        Args:
            file: its absolute path.
            began: when (ns) the job did: what has changed since, it may have written itself.
            written: of a folder that is listed, the names there of what trainings write.
            is_made: this training has made it, ahead of its steps, and another one may find it.
            is_early: it takes no steps yet: what has changed since may have been made likewise.
        """
        if self.knows(file) or len(self._known) >= MOST_FILES:
            return
        is_own = is_of_results(os.path.relpath(file, self._folder), self._folder)
        if is_own or file.startswith(self._left_out):
            return
        if self._process != os.getpid():  # it is forked, and others of its kind were before
            self._process = os.getpid()
            self._known |= _noted(os.pread(self._descriptor, _MOST_LOGGED, 0)).keys()
            if file in self._known:
                return
        with suppress(OSError, ValueError):  # what is not there, as the code will see
            self._known.add(file)  # to look at it is heard too
            changed = changed_at(file)
            # A folder that has changed since has so by what lies in it now.
            is_new = written is None and changed is not None and changed >= began
            is_made = is_made or (is_new and is_early)
            if changed is None or (is_new and not is_made):
                return
            made = f"{_MADE * is_made}{_state(file)}" if written is None else None
            mark = made or all_names(file, written or ())
            line = json.dumps([file, mark])
            if file.isprintable() and os.fstat(self._descriptor).st_size < _MOST_LOGGED:
                os.write(self._descriptor, f"{line}\n".encode())


def _noted(lines: bytes) -> dict[str, str]:
    """Return what notes say of each path; of one of which they say two things that it changed."""
    found = dict[str, str]()
    for line in lines.splitlines():
        with suppress(ValueError):  # the last one may lack its end
            file, mark = json.loads(line)
            if found.setdefault(file, mark) != mark:
                found[file] = _MEANWHILE
    return found


def as_noted(log: Path) -> dict[str, str]:
    """Return the states of what the processes of a job have noted, by their paths from here.

    Args:
        log: of the imports of the job.
    """
    try:
        noted = _noted(notes_of(log).read_bytes())
    except OSError:  # nothing was
        return {}
    kinds = dict[str, set[str]]()  # of what is read in a folder, by the ends of names
    for file, mark in noted.items():
        path = Path(file)
        for inside in (path, *path.parents) if not mark.startswith(NAMES) else ():
            kinds.setdefault(str(inside.parent), set()).add(kind_of(inside.name))
    found = dict[str, str]()
    for file, mark in sorted(noted.items()):
        if not mark.startswith(NAMES):
            found[relative(file)] = mark
        # What a folder holds of which nothing is read says nothing.
        elif said := of_data(mark, file, kinds.get(file, ())):
            found[relative(file)] = said
    return found


def held(log: Path) -> dict[str, str]:
    """Return what the files hold that the processes of a job have noted, by their paths from here.

    Args:
        log: of the imports of the job.

    Returns:
        For each its SHA-256, or its size and time, or a hash of the names in a folder, behind
        `made` of what the job itself has made; of what has changed since it was noted that.
    """
    found, left = dict[str, str](), MOST_BYTES
    for file, mark in as_noted(log).items():
        if is_made(mark) and not Path(file).exists():  # a temporary one, wherever it lay
            continue
        if (now := mark_now(file, mark)) != mark or is_changed_meanwhile(mark):
            is_left_out = is_made(mark) or now == GONE or is_of_trainings(file)
            found |= {} if is_left_out else {file: _MEANWHILE}
            continue
        found[file] = mark
        size = 0 if mark.startswith(NAMES) else int(mark.removeprefix(_MADE).partition(_STATE)[0])
        if not mark.startswith(NAMES) and size <= left:
            with suppress(OSError):
                found[file] = f"{_MADE * is_made(mark)}{artifacts.sha256(file)}"
                left -= size
    return found


def newer(cache: str, mark: str) -> str:
    """Return the mark of a file of which a cache was made that held something else then."""
    return f"{_NEWER}{cache}\t{mark}"


def cache_and_mark(mark: str) -> tuple[str | None, str]:
    """Return the cache that `newer` has named, None if there is none, and what a file holds.

    >>> cache_and_mark(newer("all.pt", "f00")), cache_and_mark("f00")
    (('all.pt', 'f00'), (None, 'f00'))
    """
    cache, _, rest = mark.removeprefix(_NEWER).partition("\t")
    return (cache, rest) if mark.startswith(_NEWER) else (None, mark)


def is_made(mark: str) -> bool:
    """Say whether a job had made what it read: another one then makes it again, or finds it."""
    return mark.startswith(_MADE)


def told_apart(read: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return what a job has found, and what it has made itself: the marks of both, by path."""
    made = {file: mark.removeprefix(_MADE) for file, mark in read.items() if is_made(mark)}
    return {file: mark for file, mark in read.items() if file not in made}, made


def is_changed_meanwhile(mark: str) -> bool:
    """Say whether a file has changed behind the moment at which a job had begun to use it."""
    return mark == _MEANWHILE


def mark_now(file: str, mark: str, folder: Path = Path()) -> str:
    """Return what is to be said of a file now, in the form of what was; or `GONE`.

    What lies outside of the working directory and is not there, another machine may have.

    Args:
        file: its path from the working directory, or an absolute one.
        mark: what was said of it.
        folder: the working directory.
    """
    path = folder / file
    try:
        if mark.startswith(_NEWER):
            cache, _, of = mark.removeprefix(_NEWER).partition("\t")
            return newer(cache, mark_now(file, of, folder))
        if mark.startswith(NAMES):
            return names_again(mark, path, folder)
        if is_changed_meanwhile(mark):
            return f"another: {path.stat().st_mtime_ns}"
        if is_made(mark):
            return f"{_MADE}{mark_now(file, mark.removeprefix(_MADE), folder)}"
        return _state(path) if _STATE in mark else artifacts.sha256(path)
    except (OSError, ValueError):
        return mark if file.startswith((os.sep, os.pardir)) else GONE


_now_once = functools.cache(
    mark_now
)  # asked for by each of thousands of runs; a plan takes seconds


def changed(read: Mapping[str, str], folder: Path = Path()) -> dict[str, str]:
    """Return what is to be said now of those files of `held` that have changed; each asked once.

    Args:
        read: what was said of them.
        folder: the working directory.
    """
    found = {file: _now_once(file, mark, folder) for file, mark in read.items()}
    return {file: mark for file, mark in found.items() if mark != read[file]}


def other_file(first: Mapping[str, str], second: Mapping[str, str]) -> str | None:
    """Name a file, or a folder, that two jobs read and that held something else; None if none.

    What each has made itself is its own.

    >>> at = " bytes written at "
    >>> other_file({"a": "8" + at + "1", "b": "f00"}, {"a": "8" + at + "2", "b": "f00", "c": "1"})
    >>> other_file({"a": "8" + at + "1", "b": "f00"}, {"a": "9" + at + "1", "b": "f00"})
    'a'
    """
    for file in sorted(first.keys() & second.keys()):
        marks = cache_and_mark(first[file])[1], cache_and_mark(second[file])[1]
        if all(mark.startswith(NAMES) for mark in marks):
            if are_unlike(file, *marks):
                return file
            continue
        pair = [mark.removeprefix(_MADE) for mark in marks]
        is_state = [_STATE in mark for mark in pair]
        if all(is_state):  # a copy has a time of its own
            pair = [mark.partition(_STATE)[0] for mark in pair]
        if pair[0] != pair[1] and is_state[0] == is_state[1] and not all(map(is_made, marks)):
            return file
    return None


def _state(file: str | Path) -> str:
    """Return the size of a file (bytes) and when it was written (ns); ValueError of another."""
    found = os.stat(file)  # noqa: PTH116
    if not stat.S_ISREG(found.st_mode):
        raise ValueError(file)
    return f"{found.st_size}{_STATE}{found.st_mtime_ns}"
