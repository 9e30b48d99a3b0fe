"""The log in which the trainings of a working directory write down which files they open.

Each process of a training appends lines to it: the training and the attempt, what was done, when,
and the file. Each reads on there before it says of a file that it reads whose it is: another
training's, an earlier attempt's at its own, an earlier training's, or its own.
"""

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, cast, get_args

AGAIN_NS = 10**9  # a file that is written again and again is written down once a second
# Written as a whole, in the training's steps or before; or changed. Lost is what was begun anew.
Write = Literal["written", "prepared", "extended"]
Entry = Literal[Write, "lost", "joined", "begun", "disturbed", "stale", "found"]
WRITES_OF = frozenset(get_args(Write))
TICK_NS = 20 * 10**6  # by which a file's time may be behind the clock
MOST_FILES, MOST_BEGUN = 50_000, 1000  # of earlier trainings that are remembered
MOST_WRITTEN, MOST_FOUND = 10_000, 100  # of one process, and of one training, that are written down


@dataclass
class OpenedLog:
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
    ours: dict[str, set[Entry]] = field(default_factory=dict)
    """Files that processes of this attempt have written, this one too, and how."""
    own: dict[tuple[str, Write], int] = field(default_factory=dict)
    """When (ns) a file was last written down as written by this process."""
    read: set[tuple[str, Entry]] = field(default_factory=set)
    """Files of others that were read, and are written down as that."""
    stepping: int | None = None
    """When (ns) the first attempt's first step began."""
    opened: int = field(default_factory=time.time_ns)
    """When (ns) this process, or which it was forked from, began to watch."""
    process: int = field(default_factory=os.getpid)
    """The one that began to watch; data workers are its forks."""
    is_under_way: bool = False
    """Whether it has begun to take steps."""

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
            if entry == "joined":
                self.own.clear()  # who joins now has begun behind what was written down until now
            elif entry == "begun":
                if _same_training(who, self.who) and moment >= self.began:
                    self.stepping = min(moment, self.stepping or moment)
            elif who == self.who:
                if entry in WRITES_OF or entry == "lost":
                    self.ours.setdefault(file, set()).add(entry)
                else:
                    self.read.add((file, entry))
            elif entry in WRITES_OF and moment < self.began:
                self.earlier.add(file)
            elif entry in WRITES_OF:
                self.others[file] = who

    def note_read(self, file: str) -> None:
        """Write down a file of another training, or attempt, that is read."""
        who, entry = self._last_other(file), None
        ours = self.ours.get(file, set())
        if who is not None and not _same_training(who, self.who):
            entry = "disturbed"
        elif who is not None:
            is_stale = "written" not in ours and ("lost" in ours or self._was_changed(file))
            entry = "stale" if is_stale else None
        elif file in self.earlier and ours.isdisjoint(("written", "prepared")):
            entry = "found" if len(self.read) < MOST_FOUND else None
        if entry is not None and (file, entry) not in self.read:
            self.read.add((file, entry))
            self.append(entry, file)

    def note_written(self, file: str, *, is_whole: bool) -> None:
        """Write down a file that is opened to be written."""
        self._note_missing(file)
        is_under_way = self.is_under_way or os.getpid() != self.process
        how: Write = "extended" if not is_whole else "written" if is_under_way else "prepared"
        who = self._last_other(file)
        is_of_attempt = who is not None and _same_training(who, self.who)
        if how != "written" and is_of_attempt and file not in self.ours and self._was_changed(file):
            self.append("lost", file)
        now = time.monotonic_ns()
        is_new = (file, how) not in self.own
        if now - self.own.get((file, how), -AGAIN_NS) >= AGAIN_NS and not (
            is_new and len(self.own) >= MOST_WRITTEN
        ):
            self.own[file, how] = now
            self.append(how, file)

    def _note_missing(self, file: str) -> None:
        """Write down a file whose folder another training has removed."""
        who = self._last_other(file)
        if who is not None and not _same_training(who, self.who):
            is_there = os.path.lexists(os.path.dirname(file))  # noqa: PTH120
            if not is_there and (file, "disturbed") not in self.read:
                self.append("disturbed", file)

    def _last_other(self, file: str) -> str | None:
        """Say who else has written a file since this began, or moved a folder in which it is."""
        if not self.others:
            return None
        parts = (file, *map(str, Path(file).parents))
        return next((self.others[part] for part in parts if part in self.others), None)

    def _was_changed(self, file: str) -> bool:
        """Say whether an earlier attempt has changed a file in its steps, or may have."""
        try:
            changed = os.stat(file).st_mtime_ns  # noqa: PTH116 - it may be a name in bytes
        except OSError:  # removed
            return True
        return (self.stepping or self.began) - TICK_NS < changed < self.opened


def _same_training(who: str, other: str) -> bool:
    return who.partition("/")[0] == other.partition("/")[0]


def _entries(lines: bytes) -> list[tuple[str, Entry, int, str]]:
    split = [line.split("\t") for line in lines.decode(errors="surrogateescape").split("\n")]
    whole = [parts for parts in split if len(parts) == 4 and parts[2].isdigit()]
    return [(who, cast(Entry, entry), int(moment), file) for who, entry, moment, file in whole]


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


def changing(path: Path, files: Iterable[str]) -> set[str]:
    """Return those of some files that more than one training has written.

    Args:
        path: the log.
        files: their paths from the working directory.
    """
    wanted, writers = {os.path.abspath(file): file for file in files}, dict[str, set[str]]()  # noqa: PTH100
    for who, entry, _, file in _entries(path.read_bytes()) if wanted else ():
        if entry in WRITES_OF and file in wanted:
            writers.setdefault(wanted[file], set()).add(who.partition("/")[0])
    return {file for file, several in writers.items() if len(several) > 1}


def forget_trainings(path: Path) -> None:
    """Keep of a log which files were written, and by whom; no process may have it open."""
    found = _entries(path.read_bytes())
    written = dict[str, dict[str, tuple[str, int]]]()
    for who, entry, when, file in found:
        if entry in WRITES_OF:
            by = written.setdefault(file, {})
            by.pop(training := who.partition("/")[0], None)  # to be the last
            by[training] = (who, when)
    there = [file for file in written if os.path.exists(file)][-MOST_FILES:]  # noqa: PTH110
    last = [(file, *each) for file in there for each in [*written[file].values()][-2:]]
    kept = [(who, "written", str(when), file) for file, who, when in last]
    begun = [(who, "begun", str(when), "") for who, entry, when, _ in found if entry == "begun"]
    kept += begun[-MOST_BEGUN:]
    lines = "".join("\t".join(each) + "\n" for each in kept)
    path.write_bytes(lines.encode(errors="surrogateescape"))
