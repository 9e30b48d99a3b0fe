"""Trainings side by side in one working directory, or one of them alone in it.

Side by side they may disturb each other by files (see `shared_files`). Who was disturbed is trained
again, alone; and so is all of its workload from then on. The locks end with the process that holds
them, even if it is killed. Where a file system has none, nobody waits.
"""

import errno
import fcntl
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from twinrun.process.found_files import read_of_attempt, read_of_others
from twinrun.process.job import say
from twinrun.process.opened_entries import (
    FOLDER,
    LOG_FILE,
    files_of,
    forget_trainings,
    is_beside_others,
    training_of,
)
from twinrun.process.shared_files import BEGAN, LOG, WHO

MOMENT_SECONDS = 1.0


@dataclass(frozen=True)
class Neighbours:
    """What a training has to do with those beside it."""

    log: Path
    """What the trainings of the working directory have opened."""
    who: str
    """This training there."""
    since: int
    """When its first attempt began, in ns since the epoch."""

    def of_others(self, error: Exception | None = None) -> str | None:
        """Say how other trainings have disturbed it, in any attempt; None if they have not.

        Args:
            error: by which it failed, if it did. One of a file or folder that was there, was not,
                was locked, or was shortened, or of a port, may be due to those beside it.
        """
        if files := files_of(self.log, self.who, "disturbed", self.since):
            return read_of_others(files)
        numbers = (errno.ENOENT, errno.EEXIST, errno.ENOTEMPTY, errno.EADDRINUSE, errno.EAGAIN)
        words = (*map(os.strerror, numbers), "database is locked")
        is_of_file = any(each in str(error) for each in words)
        is_of_file |= is_of_a_shortened_file(error)
        if is_of_file and is_beside_others(self.log, self.who, self.since):
            return f"it failed beside another training ({error})"
        return None

    def of_attempt(self) -> str | None:
        """Say which files of an earlier attempt at it it has read; None if none."""
        stale = files_of(self.log, self.who, "stale", self.since)
        return read_of_attempt(stale) if stale else None


def is_of_a_shortened_file(error: Exception | None) -> bool:
    """Say whether a process was ended as one is whose mapped file was shortened: by SIGBUS."""
    return any(words in str(error) for words in ("SIGBUS", "Bus error"))


@contextmanager
def side_by_side(label: str, *, alone: bool, began: int | None = None) -> Iterator[Neighbours]:
    """Let the processes that are started in the body train beside others, or alone.

    Args:
        label: of what is trained, for who waits.
        alone: wait until nothing else trains in this working directory, and let nothing begin.
        began: when the first attempt did, in ns since the epoch; None if this is that.
    """
    who = f"{training_of(label)}/{uuid.uuid4().hex}"
    log = LOG_FILE.absolute()
    before = {name: os.environ.get(name) for name in (LOG, WHO, BEGAN)}
    with ExitStack() as held:
        _locked(held, log, label, alone=alone)
        # Now: what others wrote while this waited was there when it began.
        since = time.time_ns() if began is None else began
        os.environ.update({LOG: str(log), WHO: who, BEGAN: str(since)})
        try:
            yield Neighbours(log, who, since)
        finally:
            for name, value in before.items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value


def _locked(held: ExitStack, log: Path, label: str, *, alone: bool) -> None:
    try:
        FOLDER.mkdir(parents=True, exist_ok=True)
        lock = held.enter_context((FOLDER / "trainings.lock").open("w"))
        # Who is alone may shorten the log, which else would grow for good.
        if _try(lock.fileno(), fcntl.LOCK_EX):
            if log.exists():
                forget_trainings(log)
            if not alone:
                fcntl.flock(lock, fcntl.LOCK_SH)
            return
        # In a queue: else those who would be alone might wait as long as others begin.
        with (FOLDER / "queue.lock").open("w") as queue:
            ahead = "a training that is, or is to be, alone in this working directory"
            _wait(queue, fcntl.LOCK_EX, f"{label}: waiting for {ahead}")
            if alone:
                beside = "waiting for the trainings beside it to end, to be trained alone"
                _wait(lock, fcntl.LOCK_EX, f"{label}: {beside}")
            else:
                _wait(lock, fcntl.LOCK_SH, f"{label}: waiting for {ahead}")
    except OSError:  # a file system without locks, or a folder that cannot be written
        return


def _wait(file: IO[str], kind: int, said: str) -> None:
    """Lock a file; say so if that takes more than a moment."""
    until = time.monotonic() + MOMENT_SECONDS
    while not _try(file.fileno(), kind):
        if time.monotonic() > until:
            say(said)
            fcntl.flock(file, kind)
            return
        time.sleep(MOMENT_SECONDS / 10)


def _try(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_alone(name: str) -> bool:
    """Say whether a workload is one to be trained alone."""
    try:
        return name in (FOLDER / "alone").read_text(encoding="utf-8").splitlines()
    except OSError:  # none is
        return False


def keep_alone(name: str) -> None:
    """Have a workload trained alone from now on."""
    # A folder that cannot be written: who comes later is disturbed first, too.
    if not is_alone(name):
        with suppress(OSError), (FOLDER / "alone").open("a", encoding="utf-8") as file:
            file.write(f"{name}\n")
