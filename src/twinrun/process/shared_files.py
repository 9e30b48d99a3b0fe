"""Files that trainings beside each other write and read: who reads another's is not trained alone.

Trainings of one workflow run side by side in one working directory. A module that keeps its best
weights in `best.pt`, and reads them again to test them, is then given those of another run. Only as
it opens a file is it known that it does. So each process of a training writes down the files that
it opens to write, in one log for the whole directory, and looks there each time that it opens one
to read: it is disturbed where another training has written that since it began itself. What was
written before it began it has found: a first training would not have.

A training that is resumed finds what its earlier attempt wrote behind the checkpoint. Who reads
that, or begins it anew, before steps of its own have written the whole of it, reads what is stale.

Seen is what Python opens and what `torch.save` writes, data workers' files too; of other libraries
(HDF5, Arrow) only data that are held open, or named (`named_data`). Left out are hidden folders and
`__pycache__`, installed packages, and the results of the training itself.
"""

import multiprocessing
import os
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from multiprocessing.util import Finalize, register_after_fork
from pathlib import Path

from twinrun.process.data_base_files import file_of
from twinrun.process.found_files import FoundFiles
from twinrun.process.held_files import held_to_be_read
from twinrun.process.opened_entries import changed_at, changing, files_of
from twinrun.process.opened_log import OpenedLog
from twinrun.process.read_notes import ReadFiles
from twinrun.process.users_files import is_theirs, left_out

LOG = "TWINRUN_OPENED_FILES"  # the variable that names the log
# The training and the attempt at it, all of whose processes are one; and when it began, in ns: of
# a training that is resumed its first attempt.
WHO, BEGAN = "TWINRUN_OPENED_BY", "TWINRUN_OPENED_SINCE"
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

_log: OpenedLog | None = None
_named = dict[str, int | None]()  # data, and when (ns) it was changed last


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
    read = ReadFiles.of_job(folder)
    _log = OpenedLog(Path(path), descriptor, who, began, folder, left_out(folder), read)
    with suppress(OSError):
        _log.append("joined", "")
    sys.addaudithook(_heard)
    register_after_fork(_log, _look_at_end)


def under_way() -> bool:
    """Note that the training of this process begins to take steps; say whether it had not yet."""
    if _log is None or _log.is_under_way:
        return False
    with suppress(OSError):
        _log.begin_steps()
    look_at_data()  # which a data module holds open by now
    return True


def begins_part() -> None:
    """Note that this process begins with another workload: what that reads makes its own caches.

    And ahead of it what those before have made, in this process or in one that has ended.
    """
    if _log is not None:
        with suppress(OSError):
            _log.note_left()
            _log.data.begin_part()


def goes_on_from(checkpoint: Path) -> None:
    """Note from which checkpoint the training of this process goes on."""
    if _log is not None:
        _log.checkpoint = checkpoint.stat().st_mtime_ns


def begins_anew() -> None:
    """Note that the training of this process is not resumed, though there was a checkpoint."""
    if _log is not None:
        _log.begin_anew()


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
    *("shutil.rmtree", "os.listdir", "os.scandir"),
}
# Modules of Python's that list a folder for others.
_LISTING = ("os", "pathlib", "pathlib._local", "pathlib._os", "glob", "shutil")
_OURS = ("importlib.", "_frozen_importlib", "twinrun.")


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
            is_read = not is_written or "+" in str(mode)
            # `os.open` says nothing of a mode.
            is_whole = bool(isinstance(flags, int) and flags & os.O_TRUNC) or (
                isinstance(mode, str) and bool({*"wx"} & {*mode})
            )
            # A folder is where `tempfile` makes a file.
            if not (is_written and os.path.isdir(str(path))):  # noqa: PTH112
                _opened(_log, path, is_written=is_written, is_read=is_read, is_whole=is_whole)
        elif event in ("os.listdir", "os.scandir"):
            if isinstance(arguments[0], str | os.PathLike):
                folder = os.path.abspath(arguments[0])  # noqa: PTH100
                if is_theirs(folder, _log) and not _asks_for_code():
                    _log.note_listed(folder)
        elif event.startswith("os.") and arguments[-1] != NO_FOLDER:
            return  # as `shutil.rmtree` removes what lies inside, by names from an open folder
        elif event in ("os.rename", "os.link", "os.symlink"):
            if event != "os.symlink":  # what is moved may be read where it is then
                _opened(_log, arguments[0], is_written=event == "os.rename", is_moved=True)
            _opened(_log, arguments[1], is_written=True)
        elif event == "sqlite3.connect":
            if (of_it := file_of(arguments[0])) is not None:
                _opened(_log, of_it[0], is_written=of_it[1], is_read=True, is_whole=False)
        else:
            _opened(_log, arguments[0], is_written=True, is_removed=event == "os.remove")


def _asks_for_code() -> bool:
    """Say whether a folder is listed by an import, or by Twinrun, which looks what lies there."""
    frame = sys._getframe(2)
    while frame.f_back and frame.f_globals.get("__name__") in _LISTING:
        frame = frame.f_back
    return str(frame.f_globals.get("__name__")).startswith(_OURS)


def _opened(
    log: OpenedLog,
    path: object,
    *,
    is_written: bool,
    is_read: bool = False,
    is_whole: bool = True,
    is_moved: bool = False,
    is_removed: bool = False,
) -> None:
    if not isinstance(path, str | bytes | os.PathLike):  # a descriptor
        return
    file = os.path.abspath(os.fsdecode(path))  # noqa: PTH100 - a Path would resolve links
    if not is_theirs(file, log):
        return
    log.read_on()
    is_made = is_read and is_written and is_whole
    if (is_read or is_moved) and not is_made:
        log.note_read(file, is_moved=is_moved)
    if is_written:
        log.note_written(file, is_whole=is_whole, is_removed=is_removed)
    if is_made:  # an array that is mapped, say: it may be read as long as it is held
        log.note_opened(file)
        log.note_shared(file)


def leave_out(folders: Sequence[str], *, but: str | None = None) -> None:
    """Leave out the folders of this job's own results, an earlier attempt's files too.

    Args:
        folders: their absolute paths.
        but: one inside of them in which a user's code writes, if there is one.
    """
    if _log is not None:
        _log.left_out += tuple(f"{folder}{os.sep}" for folder in folders)
        _log.watched = None if but is None else f"{but}{os.sep}"


def look_at_held() -> None:
    """Write down what others have changed while this process, or a fork of it, had it open."""
    if _log is None:
        return
    with suppress(OSError):
        _log.note_held(each.pid for each in multiprocessing.active_children() if each.pid)


def ends() -> None:
    """Note which files the training of this process has opened to change, and left as they were."""
    if _log is not None:
        with suppress(OSError):
            _log.note_left()


def look_at_data() -> None:
    """Note the data that this process holds open, or mapped: a library may open it by itself."""
    if _log is None:
        return
    with suppress(OSError):
        _log.read_on()
        for file in sorted(held_to_be_read() - _log.given):
            if file.startswith(os.sep) and is_theirs(file, _log):
                _log.note_data(file)


def names(files: Iterable[str]) -> None:
    """Note which data the training of this process names, where its steps begin.

    Args:
        files: absolute paths of such as are there.
    """
    if _log is not None:
        _named.update({file: changed_at(file) for file in files if is_theirs(file, _log)})


def _look_at_named() -> None:
    """Note the data that was named, and stayed as it was: others a library may have written."""
    if _log is not None:
        _log.read_on()
        for file, changed in _named.items():
            if changed_at(file) == changed:
                _log.note_data(file, is_named=True)
            elif file in _log.opened_at and not _log.is_of_trainings(file):
                _log.data.note_changed(file)  # it was read behind the first step


def _look_at_end(_: OpenedLog) -> None:
    # A data worker's: as it ends, nobody else can look any more.
    for look in (look_at_held, look_at_data):
        Finalize(None, look, exitpriority=0)


def found() -> FoundFiles:
    """Name the files of other trainings that the training of this process has read, sorted."""
    if _log is None:
        return {"changed": [], "kept": []}
    look_at_held()
    with suppress(OSError):
        _look_at_named()
    files = files_of(_log.path, _log.who, "found", _log.began)
    changed = changing(_log.path, files, _log.who, _log.began) if files else set[str]()
    left: FoundFiles = {
        "changed": sorted(changed),
        "kept": [file for file in files if file not in changed],
    }
    if disturbing := files_of(_log.path, _log.who, "disturbed", _log.began):
        left["disturbing"] = disturbing
    return left
