"""Files that a rehearsal makes or changes in the working directory, and that the runs then find.

A data module that keeps a cache on the disk may read it in all runs where a rehearsal has written
it, and compute something else than a first training of one's own.
"""

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import psutil

from twinrun.wording import some

MOST_FILES = 50_000  # a listing of more would take longer than what it may find is worth
NOT_THE_MODULES = {"__pycache__"}  # Python writes there
# Other jobs of the workflow write there.
OF_RESULTS = {
    *(
        "benchmarks",
        "checkpoints",
        "comparisons",
        "contests",
        "data",
        "figures",
        "locations",
        "logs",
    ),
    *("matrix", "noise", "resumes", "runs", "scaling", "sweeps", "timings", "verdicts"),
}

Listing = Mapping[str, tuple[int, int]]
"""Size and time (ns) of each file, by its path."""


def listing(folder: Path) -> Listing | None:
    """List the files below a folder, without hidden folders; None if they are too many.

    The logs of this process are left out: a shell's `> run.log` grows while a rehearsal speaks.
    """
    found: dict[str, tuple[int, int]] = {}
    logs = set(_logs())
    for parent, folders, files in os.walk(folder):
        others = NOT_THE_MODULES | (OF_RESULTS if Path(parent) == folder / "results" else set())
        folders[:] = [f for f in folders if f not in others and not f.startswith(".")]
        for name in files:
            path = Path(parent, name)
            try:
                state = path.stat()
            except OSError:  # gone already, or a link to nothing
                continue
            if _file_of(state) not in logs:
                found[str(path.relative_to(folder))] = (state.st_size, state.st_mtime_ns)
        if len(found) > MOST_FILES:
            return None
    return found


def _logs() -> Iterator[tuple[int, int]]:
    """Yield device and inode of this process's own output, and of what those around it hold open.

    That is who started it, and what they started beside it: `tee` of a pipe writes its output.
    """
    for number in (1, 2):
        with contextlib.suppress(OSError):  # closed
            yield _file_of(os.fstat(number))
    own = psutil.Process()
    around: set[psutil.Process] = set()
    for parent in own.parents():
        with contextlib.suppress(psutil.Error):  # gone by now
            around |= {parent, *parent.children()}
    for each in around - {own}:
        with contextlib.suppress(psutil.Error):  # gone, or another user's
            for file in each.open_files():
                with contextlib.suppress(OSError):
                    yield _file_of(Path(file.path).stat())


def _file_of(state: os.stat_result) -> tuple[int, int]:
    return state.st_dev, state.st_ino


def left_behind(rehearsed: str, before: Listing | None, after: Listing | None) -> list[str]:
    """Name files that are new, or changed, in a sentence; nothing where nobody could look.

    Args:
        rehearsed: what was, for readers.
        before: the files that there were.
        after: those that there are.
    """
    if before is None or after is None:
        return []
    names: Sequence[str] = sorted(name for name in after if after[name] != before.get(name))
    if not names:
        return []
    return [
        f"in the rehearsal of {rehearsed}, {some(names)} changed in the working directory, and "
        f"every run finds that; a module that reads what an earlier process wrote may train "
        f"otherwise than at first"
    ]
