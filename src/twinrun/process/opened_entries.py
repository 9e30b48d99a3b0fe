"""What the log of opened files says: of one training, of all, and what of it is remembered.

Each line has the training and the attempt at it, what was done, when (ns since the epoch), and the
file. They are written by `opened_log`.
"""

import hashlib
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, cast, get_args

# Written as a whole, in the training's steps or before; or changed. Lost is what was begun anew.
# Left is what is as it was when the training began, which that entry has as its moment.
Write = Literal["written", "prepared", "extended"]
Entry = Literal[Write, "left", "lost", "joined", "begun", "disturbed", "stale", "found"]
WRITES_OF = frozenset(get_args(Write))
MADE = frozenset(("written", "prepared"))
AGAIN_NS = 10**9  # a file that is written again and again is written down once a second
TICK_NS = 20 * 10**6  # by which a file's time may be behind the clock
OF_ATTEMPTS = frozenset(("begun", "disturbed", "stale", "found"))
MOST_FILES, MOST_KNOWN = 50_000, 10_000  # of earlier trainings that are remembered
FOLDER = Path(".snakemake/twinrun")  # beside Snakemake's own memory of the folder
LOG_FILE = FOLDER / "opened.log"
REHEARSAL = "rehearsal"  # the label of what tries each workload before any training


def training_of(label: str) -> str:
    """Return the name in the log of what is trained under a label."""
    return hashlib.sha256(label.encode()).hexdigest()[:16]


_REHEARSAL = training_of(REHEARSAL)  # once: asked of each line


def changed_at(file: str) -> int | None:
    """Return when (ns) a file was changed, or put where it is; None if it is not there."""
    try:  # a Path would be made for each file that is opened
        several = [os.lstat(file), os.stat(file)]  # noqa: PTH116
    except OSError:
        return None
    return max(max(found.st_mtime_ns, found.st_ctime_ns) for found in several)


def is_changed_since(file: str, moment: int) -> bool:
    """Say whether a file has changed, or is gone, since a moment (ns)."""
    changed = changed_at(file)
    return changed is None or changed > moment


def same_training(who: str, other: str) -> bool:
    """Say whether two attempts are at one training."""
    return who.partition("/")[0] == other.partition("/")[0]


def entries_of(lines: bytes) -> list[tuple[str, Entry, int, str]]:
    """Return who, what, when (ns) and which file of each whole line."""
    split = [line.split("\t") for line in lines.decode(errors="surrogateescape").split("\n")]
    whole = [parts for parts in split if len(parts) == 4 and parts[2].isdigit()]
    return [(who, cast(Entry, entry), int(moment), file) for who, entry, moment, file in whole]


def files_of(path: Path, who: str, entry: Entry, since: int) -> list[str]:
    """Name the files of which a training has written something down, sorted.

    Args:
        path: the log.
        who: the training, a `/` and any attempt at it.
        entry: what.
        since: when (ns) its first attempt began: an earlier training is another one.

    Returns:
        Their paths from the working directory.
    """
    try:
        found = entries_of(path.read_bytes())
    except OSError:  # none could be written
        return []
    return sorted(
        {
            os.path.relpath(file)
            for name, kind, moment, file in found
            if kind == entry and moment >= since and same_training(name, who)
        }
    )


def is_beside_others(path: Path, who: str, since: int) -> bool:
    """Say whether another training has written something down since a moment (ns)."""
    try:
        found = entries_of(path.read_bytes())
    except OSError:
        return False
    return any(moment >= since and not same_training(other, who) for other, _, moment, _ in found)


class Writers:
    """The trainings that have opened each file to write it, but for those that have left it."""

    def __init__(self) -> None:
        """Know of none."""
        self._of = dict[str, dict[str, tuple[int, int, bool, bool]]]()

    def note(self, file: str, who: str, entry: Entry, moment: int) -> None:
        """Note one of `WRITES_OF`, or that a file was left."""
        training = who.partition("/")[0]
        several = self._of.setdefault(file, {})
        first, last, is_in_steps, is_made = several.get(training, (moment, 0, False, False))
        if entry != "left":
            is_in_steps, is_made = is_in_steps or is_of_steps(who, entry), is_made or entry in MADE
            several[training] = first, max(moment, last), is_in_steps, is_made
        elif first >= moment:
            several.pop(training, None)

    def first(self, file: str) -> int | None:
        """Return when (ns) the first of them opened it; None if none has."""
        return min((first for first, *_ in self._of.get(file, {}).values()), default=None)

    def last(self, file: str) -> int:
        """Return when (ns) one opened it last to write it; 0 if none has."""
        return max((last for _, last, *_ in self._of.get(file, {}).values()), default=0)

    def is_changed_by_others(self, file: str) -> bool:
        """Say whether somebody has changed a file behind the last of them.

        Who prepares one notes as it ends when it was changed last: of one that was killed, or goes
        on, nobody knows how long it wrote.
        """
        several = self._of.get(file, {}).values()
        last, first = max(((last, first) for first, last, *_ in several), default=(0, 0))
        return last > first and is_changed_since(file, last + AGAIN_NS + TICK_NS)

    def add(self, file: str) -> bool:
        """Say whether any of them has written it as a whole, or changed it: maybe it was new."""
        several = self._of.get(file, {}).values()
        return any(
            is_made or is_changed_since(file, first - TICK_NS) for first, *_, is_made in several
        )

    def files(self) -> list[str]:
        """Name the files that any of them has."""
        return [file for file, several in self._of.items() if several]

    def change(self, file: str) -> bool:
        """Say whether one has in its steps: each then finds what another has left."""
        return any(is_in_steps for *_, is_in_steps, _ in self._of.get(file, {}).values())


def is_of_steps(who: str, entry: Entry) -> bool:
    """Say whether this is the state of a training, and not what it makes for all."""
    return entry != "prepared" and not same_training(who, _REHEARSAL)


def changing(path: Path, files: Iterable[str], who: str, since: int) -> set[str]:
    """Return those of some files that trainings have written in their steps, or may have.

    Args:
        path: the log.
        files: their paths from the working directory.
        who: the training that has found them; what it writes itself then, others do too.
        since: when (ns) its first attempt began.
    """
    wanted, writers = {os.path.abspath(file): file for file in files}, Writers()  # noqa: PTH100
    own = set[str]()
    for name, entry, moment, file in entries_of(path.read_bytes()) if wanted else ():
        if file not in wanted:
            continue
        is_changed = entry in WRITES_OF and is_changed_since(file, moment - TICK_NS)
        if is_changed or entry == "left":
            writers.note(file, name, entry, moment)
        if is_changed and moment >= since and same_training(name, who):
            own.add(file)
    return {name for file, name in wanted.items() if file in own or writers.change(file)}


def forget_trainings(path: Path) -> None:
    """Keep of a log which files were written, and by whom; no process may have it open."""
    found = entries_of(path.read_bytes())
    written = dict[str, dict[str, list[tuple[str, Entry, int]]]]()
    for who, entry, when, file in found:
        if entry == "left" and (first := written.get(file, {}).get(who.partition("/")[0])):
            if first[0][2] >= when:
                del written[file][who.partition("/")[0]]
        elif entry in WRITES_OF:
            by = written.setdefault(file, {})
            several = by.pop(training := who.partition("/")[0], [])
            by[training] = [*several[:1], (who, entry, when)]  # its first and last, now in the end
    for file, of in written.items():
        # Nobody has a file open now: what was opened to be changed and was not was left.
        for training, several in [*of.items()]:
            is_added_to = {entry for _, entry, _ in several} == {"extended"}
            if is_added_to and not is_changed_since(file, several[0][2] - TICK_NS):
                del of[training]
    there = [file for file, of in written.items() if of and os.path.exists(file)][-MOST_FILES:]  # noqa: PTH110
    last = [(f, each) for f in there for of in [*written[f].values()][-2:] for each in of]
    kept = [(who, entry, str(when), file) for file, (who, entry, when) in last]
    # Who was disturbed and then killed is resumed behind that.
    known = [(w, entry, str(when), f) for w, entry, when, f in found if entry in OF_ATTEMPTS]
    kept += known[-MOST_KNOWN:]
    lines = "".join("\t".join(each) + "\n" for each in kept)
    path.write_bytes(lines.encode(errors="surrogateescape"))


def is_data_worker() -> bool:
    """Say whether this process is a data worker: they are there ahead of the first step."""
    # Not `get_worker_info`: nothing can be imported where a file is opened.
    worker = sys.modules.get("torch.utils.data._utils.worker")
    return getattr(worker, "_worker_info", None) is not None
