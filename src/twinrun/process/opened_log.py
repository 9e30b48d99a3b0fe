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

from twinrun.process.held_files import held_of, held_to_be_read
from twinrun.process.opened_entries import (
    AGAIN_NS,
    MADE,
    MOST_FILES,
    TICK_NS,
    WRITES_OF,
    Entry,
    Write,
    changed_at,
    entries_of,
    is_changed_since,
    is_data_worker,
    same_training,
)
from twinrun.process.others_files import OthersFiles
from twinrun.process.read_notes import ReadFiles

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
    data: ReadFiles
    """What it reads that no training changes."""
    watched: str | None = None
    """A folder among these that is watched all the same."""
    seen: int = 0
    """Bytes of the log that have been read."""
    by: OthersFiles = field(init=False)
    """What others have written."""
    ours: dict[str, set[Entry]] = field(default_factory=dict)
    """Files that processes of this attempt have written, this one too, and how."""
    opened_at: dict[str, int] = field(default_factory=dict)
    """When (ns) this process last opened a file to read it."""
    held: set[str] = field(default_factory=set)
    """Files that it had open, or mapped into memory, when another training opened them to write."""
    shared: set[str] = field(default_factory=set)
    """Files that it opened to read, or made, behind another training that may write them later."""
    lost: set[str] = field(default_factory=set)
    """Files that it has begun anew, or added to, behind steps of an earlier attempt."""
    own: dict[tuple[str, Write], int] = field(default_factory=dict)
    """When (ns) a file was last written down as written by this process."""
    read: set[tuple[str, Entry]] = field(default_factory=set)
    """Files of others that were read, and are written down as that."""
    stepping: int | None = None
    """When (ns) the first attempt's first step began."""
    checkpoint: int | None = None
    """When (ns) the checkpoint was written with which this attempt goes on."""
    opened: int = field(default_factory=time.time_ns)
    """When (ns) this process, or which it was forked from, began to watch."""
    given: set[str] = field(default_factory=held_to_be_read)
    """Files that the process held as it began: what it was given, and Python's own."""
    is_under_way: bool = False
    """Whether it has begun to take steps."""

    def __post_init__(self) -> None:
        """Know of no others yet."""
        self.by = OthersFiles(self.who, self.began)

    def begin_anew(self) -> None:
        """Take all that was written before this process for an earlier training's."""
        self.began, self.seen, self.stepping = max(self.began, self.opened), 0, None
        self.by = OthersFiles(self.who, self.began)
        for known in (self.held, self.shared, self.lost):
            known.clear()

    def begin_steps(self) -> None:
        """Note that steps begin: what was begun anew, and is held to be read, they miss."""
        self.note_left(is_end=False)
        self.is_under_way = True
        self.append("begun", "")
        for file in held_of(self.lost) if self.lost else ():
            self.read.add((file, "stale"))
            self.append("stale", file)

    def append(self, entry: Entry, file: str, moment: int | None = None) -> None:
        """Write an entry: one system call, so that those of several processes do not mix."""
        moment = time.time_ns() if moment is None else moment
        line = f"{self.who}\t{entry}\t{moment}\t{file}\n"
        os.write(self.descriptor, line.encode(errors="surrogateescape"))

    def read_on(self) -> None:
        """Read what others have written since."""
        size = os.fstat(self.descriptor).st_size
        if size <= self.seen:
            return
        start = self.seen  # of several threads each may read the same, and none reads less
        new = os.pread(self.descriptor, size - start, start)
        whole = new[: new.rfind(b"\n") + 1]
        self.seen, rewritten = start + len(whole), list[str]()
        for who, entry, moment, file in entries_of(whole):
            if entry == "joined":
                self.own.clear()  # who joins now has begun behind what was written down until now
            elif entry == "begun":
                if same_training(who, self.who) and moment >= self.began:
                    self.stepping = min(moment, self.stepping or moment)
            elif who == self.who:
                if entry in WRITES_OF or entry == "lost":
                    self.ours.setdefault(file, set()).add(entry)
                elif entry != "left":
                    self.read.add((file, entry))
            elif entry in WRITES_OF or entry == "left":
                self.by.note(file, who, entry, moment)
                is_rewritten = file in self.by.others and file in self.opened_at
                rewritten += [file] * (is_rewritten and entry != "left")
        self.held |= held_of(rewritten) if rewritten else set()

    def note_left(self, *, is_end: bool = True) -> None:
        """Write down what was opened to be changed, and was not: neither at all nor by steps.

        Args:
            is_end: of the training; else what it holds open it may change later.
        """
        self.read_on()
        opened = {*self.ours, *self.by.attempts}
        if not is_end and (opened := {f for f, how in self.ours.items() if how == {"extended"}}):
            opened -= held_of(opened)
        for file in sorted(opened):
            if not is_changed_since(file, self.began - TICK_NS):
                self.append("left", file, self.began)
                self.ours.pop(file, None)  # who changes it now is another
                self.own = {key: when for key, when in self.own.items() if key[0] != file}
            elif self.ours.get(file) != {"prepared"}:
                continue
            elif self.stepping and is_changed_since(file, self.stepping + TICK_NS):  # held open
                self.append("extended", file)
            else:  # others may find it
                self.append("prepared", file, changed_at(file))  # it may have taken long
                self.data.note(file, began=self.began, is_made=True)

    def note_held(self, forks: Iterable[int] = ()) -> None:
        """Write down files that another training has changed while this process had them open.

        Args:
            forks: of it, that are still there: none of them can look by itself.
        """
        self.read_on()
        for file in [*self.held, *(held_of(self.shared) if self.shared else ())]:
            self._note_held(file, self.opened_at[file])
        for fork in forks if self.by.others else ():
            for file in held_of([*self.by.others], fork):  # threads may read on
                self._note_held(file, self.began)

    def _note_held(self, file: str, since: int) -> None:
        is_changed = is_changed_since(file, since + TICK_NS)
        if is_changed and (file, "disturbed") not in self.read:
            self.read.add((file, "disturbed"))
            self.append("disturbed", file)

    def note_read(self, file: str, *, is_moved: bool = False) -> None:
        """Write down a file of another training, or attempt, that is read.

        Args:
            file: its path.
            is_moved: it may be a folder, with all that lies in it.
        """
        entry, ours = None, self.ours.get(file, set())
        if self._is_of(self.by.others, file, is_moved=is_moved):
            entry = "disturbed"
        elif self._is_of(self.by.attempts, file, is_moved=is_moved):
            is_stale = "lost" in ours or self._was_changed(file, self.checkpoint or self._stepping)
            entry = "stale" if is_stale and "written" not in ours else None
        elif file in self.by.earlier and ours.isdisjoint(("written", "prepared")):
            changed = changed_at(file) or 0  # it is gone
            is_theirs = file in self.by.several or not self.by.writers.is_changed_by_others(file)
            if not ours and changed > self.began + TICK_NS:  # by who has it open since before
                entry = "disturbed"
            elif is_theirs and changed > self.by.earlier[file] - TICK_NS:
                entry = "found" if file in self.by.several or len(self.read) < MOST_FOUND else None
        self.note_opened(file)
        if entry != "disturbed" and not is_moved:
            self.note_shared(file)
            self.note_data(file)
        is_listed = not is_moved and os.path.isdir(file)  # noqa: PTH112
        if entry is not None and (file, entry) not in self.read and not is_listed:
            self.read.add((file, entry))
            self.append(entry, file)

    def note_data(self, file: str, *, is_named: bool = False) -> None:
        """Note a file that is read, or named, unless trainings write it."""
        is_made = self.ours.get(file) == {"prepared"}
        if is_made or not self.is_of_trainings(file):
            self.data.note(file, began=self.began, is_made=is_made, is_named=is_named)

    def note_listed(self, folder: str) -> None:
        """Note a folder whose files it lists; to what trainings write in it each adds."""
        if self.data.knows(folder):
            return
        self.read_on()
        inside, by = f"{folder}{os.sep}", self.by.writers
        files = {file for file in by.files() if file.startswith(inside) and by.add(file)}
        own = [(f, how & MADE) for f, how in self.ours.items() if f.startswith(inside)]
        files |= {f for f, is_made in own if is_made or is_changed_since(f, self.began - TICK_NS)}
        written = {file.removeprefix(inside).partition(os.sep)[0] for file in files}
        self.data.note(folder, began=self.began, written=written)

    def is_of_trainings(self, file: str) -> bool:
        """Say whether a training that has opened a file to write it may have changed it since."""
        is_written = any(file in known for known in (self.ours, self.by.others, self.by.attempts))
        since = self.by.earlier.get(file) if file in self.by.several else None
        if since is None and not is_written:
            return False
        # Who opens a data base, or maps an array, need not write to it.
        return is_changed_since(file, (since or self.began) - TICK_NS)

    def note_opened(self, file: str) -> None:
        """Remember when a file was opened that may be read as long as it is held."""
        if file not in self.held and len(self.opened_at) < MOST_FILES:
            self.opened_at[file] = time.time_ns()

    def note_shared(self, file: str) -> None:
        """Remember a file that another training may have open to write, and write later."""
        if file in self.by.others and file in self.opened_at:
            self.shared.add(file)

    def note_written(self, file: str, *, is_whole: bool, is_removed: bool = False) -> None:
        """Write down a file that is opened to be written, or removed.

        Args:
            file: its path.
            is_whole: nothing of what it holds is left then.
            is_removed: and it is to be there.
        """
        self._note_missing(file, is_removed=is_removed)
        is_under_way = self.is_under_way or is_data_worker()
        how: Write = "written" if is_under_way else "prepared"
        # What this attempt has made itself ahead of its steps, it may add to: lines, or shards.
        is_own = self.ours.get(file) == {"prepared"} or not os.path.lexists(file)
        how = how if is_whole or (is_own and not is_under_way) else "extended"
        if how != "written" and file not in self.ours and self._is_of(self.by.attempts, file):
            # Begun anew it lacks what steps wrote before the checkpoint; added to it lacks nothing.
            since = (self.checkpoint if how == "extended" else None) or self._stepping
            if self._was_changed(file, since):
                self.lost.add(file)
                self.append("lost", file)
        now = time.monotonic_ns()
        is_new = (file, how) not in self.own
        if now - self.own.get((file, how), -AGAIN_NS) >= AGAIN_NS and not (
            is_new and len(self.own) >= MOST_WRITTEN
        ):
            self.own[file, how] = now
            self.append(how, file)

    def _note_missing(self, file: str, *, is_removed: bool) -> None:
        """Write down a file that another training has removed, or its folder."""
        if is_removed and file not in self.ours:
            return  # alone it would find none either (`unlink(missing_ok=True)`)
        if self._is_of(self.by.others, file):
            is_there = os.path.lexists(file if is_removed else os.path.dirname(file))  # noqa: PTH120
            if not is_there and (file, "disturbed") not in self.read:
                self.append("disturbed", file)

    def _is_of(self, written: set[str], file: str, *, is_moved: bool = False) -> bool:
        """Say whether one of these is it, or a folder it is in, or lies in what is moved."""
        if not written:
            return False
        # Who opens a data base, or maps an array, need not write to it.
        if file in written and is_changed_since(file, self.began - TICK_NS):
            return True
        if not written.isdisjoint(map(str, Path(file).parents)):
            return True
        return is_moved and any(path.startswith(f"{file}{os.sep}") for path in written)

    @property
    def _stepping(self) -> int:
        """When (ns) the first attempt's first step began, as far as a file's time can say it."""
        return (self.stepping or self.began) - TICK_NS

    def _was_changed(self, file: str, since: int) -> bool:
        """Say whether an earlier attempt has changed a file since a moment (ns), or may have."""
        changed = changed_at(file)
        return changed is None or since <= changed < self.opened
