"""Which files the processes of a job read, and what these hold: data that its code finds by itself.

A data module opens what it likes. So each process of a training notes a file, once, as it opens it
to read, and a folder as it lists what lies there (see `read_notes`). Of what a library opens by
itself Python hears nothing: noted is what is held open, or mapped, as steps begin and as the
process ends, and what the training names.
What trainings write is left out (see `opened_log`), and so is what has changed by the end of the
job: nobody knows what it held. The rest is known by its bytes; the largest part of very large data
by sizes and times alone.
"""

import functools
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from twinrun import artifacts
from twinrun.process.import_record import relative
from twinrun.process.listed_names import (
    NAMES,
    are_unlike,
    is_changed_by_others,
    is_of_trainings,
    kind_of,
    names_again,
    of_data,
)
from twinrun.process.opened_entries import TICK_NS
from twinrun.process.read_notes import GONE, MADE, MEANWHILE, STATE, noted_in, notes_of, state_of

MOST_BYTES = 1 << 28  # that are hashed of a job; it takes a part of a second
_NEWER = "newer than "  # before a mark


def as_noted(log: Path) -> dict[str, str]:
    """Return the states of what the processes of a job have noted, by their paths from here.

    Args:
        log: of the imports of the job.
    """
    try:
        noted = noted_in(notes_of(log).read_bytes())
    except OSError:  # nothing was
        return {}
    kinds = dict[str, set[str]]()  # of what is read in a folder, by the ends of names
    for file, mark in noted.items():
        path = Path(file)
        for inside in (path, *path.parents) if not mark.startswith((NAMES, GONE)) else ():
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
            is_left_out = is_made(mark) or GONE in (mark, now) or _is_written_since(file, mark)
            found |= {} if is_left_out else {file: MEANWHILE}
            continue
        found[file] = mark
        if mark.startswith((NAMES, GONE)):
            continue
        size = int(mark.removeprefix(MADE).partition(STATE)[0])
        if size <= left:
            with suppress(OSError):
                found[file] = f"{MADE * is_made(mark)}{artifacts.sha256(file)}"
                left -= size
    return found


def _is_written_since(file: str, mark: str) -> bool:
    """Say whether a training has written a file since it was as a mark says."""
    written = mark.rpartition(STATE)[2]
    # Who writes a file opens it before; and its time may be behind the clock.
    return is_of_trainings(file, int(written) + TICK_NS if written.isdigit() else 0)


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
    return mark.startswith(MADE)


def told_apart(read: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return what a job has found, and what it has made itself: the marks of both, by path."""
    made = {file: mark.removeprefix(MADE) for file, mark in read.items() if is_made(mark)}
    return {file: mark for file, mark in read.items() if file not in made}, made


def is_changed_meanwhile(mark: str) -> bool:
    """Say whether a file has changed behind the moment at which a job had begun to use it."""
    return mark == MEANWHILE


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
            return f"{MADE}{mark_now(file, mark.removeprefix(MADE), folder)}"
        return state_of(path) if STATE in mark else artifacts.sha256(path)
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
    found = {file: mark for file, mark in found.items() if mark != read[file]}
    # What was missing, and each training writes later, it misses again.
    return {
        f: mark for f, mark in found.items() if read[f] != GONE or not _is_made_later(f, folder)
    }


def _is_made_later(file: str, folder: Path) -> bool:
    return is_of_trainings(file, 0, folder) and not is_changed_by_others(file, folder)


def changed_by_others(made: Mapping[str, str], folder: Path = Path()) -> dict[str, str]:
    """Return what is to be said now of files that a job has made and somebody else has changed.

    What is gone it makes again, and so does each training that makes it anew, for itself.

    Args:
        made: what was said of them, as `told_apart` gives it.
        folder: the working directory.
    """
    found = changed(made, folder)
    return {
        file: mark
        for file, mark in found.items()
        if mark != GONE and is_changed_by_others(file, folder)
    }


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
        elif _hold_other(*marks) and not all(map(is_made, marks)):
            return file
    return None


def made_otherwise(first: Mapping[str, str], second: Mapping[str, str]) -> list[str]:
    """Name the files that had changed in the course of two jobs as each read them, unlike.

    >>> made_otherwise({"a": "made 1", "b": "made 1", "c": "2"}, {"a": "made 2", "b": "made 1"})
    ['a']
    """
    made = [told_apart(read)[1] for read in (first, second)]
    files = made[0].keys() & made[1].keys()
    return sorted(file for file in files if _hold_other(made[0][file], made[1][file]))


def _hold_other(*marks: str) -> bool:
    pair = [mark.removeprefix(MADE) for mark in marks]
    is_state = [STATE in mark for mark in pair]
    if all(is_state):  # a copy has a time of its own
        pair = [mark.partition(STATE)[0] for mark in pair]
    return pair[0] != pair[1] and is_state[0] == is_state[1]
