"""Files that a rehearsal makes or changes in the working directory, and that the runs then find.

A data module that keeps a cache on the disk may read it in all runs where a rehearsal has written
it, and compute something else than a first training of one's own.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from twinrun.wording import some

MOST_FILES = 50_000  # a listing of more would take longer than what it may find is worth
NOT_THE_MODULES = {"results", "__pycache__"}  # other jobs write there, and Python

Listing = Mapping[str, tuple[int, int]]
"""Size and time (ns) of each file, by its path."""


def listing(folder: Path) -> Listing | None:
    """List the files below a folder, without hidden folders; None if they are too many."""
    found: dict[str, tuple[int, int]] = {}
    for parent, folders, files in os.walk(folder):
        folders[:] = [f for f in folders if f not in NOT_THE_MODULES and not f.startswith(".")]
        for name in files:
            path = Path(parent, name)
            try:
                state = path.stat()
            except OSError:  # gone already, or a link to nothing
                continue
            found[str(path.relative_to(folder))] = (state.st_size, state.st_mtime_ns)
        if len(found) > MOST_FILES:
            return None
    return found


def left_behind(before: Listing | None, after: Listing | None) -> list[str]:
    """Name files that are new, or changed, in a sentence; nothing where nobody could look."""
    if before is None or after is None:
        return []
    names: Sequence[str] = sorted(name for name in after if after[name] != before.get(name))
    if not names:
        return []
    return [
        f"it wrote {some(names)} in the working directory, which every run now finds; a module "
        f"that reads what an earlier process wrote may train otherwise than in its first run"
    ]
