"""Which modules lie beside imported ones: a new one may be imported too, or instead.

So a plugin is found that is looked for, what `try: import` misses, one that hides another.
"""

import contextlib
import itertools
import os
from importlib.machinery import all_suffixes
from pathlib import Path

MOST_LOOKED_AT = 10_000  # files of a folder, to see whether it holds modules: it may hold images


def folders_of(name: str, file: str | Path) -> list[str]:
    """Name the folders in which a module beside an imported one could be found, in order.

    Its own comes first, then of a package those of its parents, up to where Python looks for it.

    Args:
        name: of the imported module.
        file: its path.

    >>> folders_of("plugins.first", "mine/plugins/first.py")
    ['mine/plugins', 'mine']
    """
    path, dotted = Path(file), name.partition(" ")[0]
    depth = dotted.count(".") + 1 + (path.stem == "__init__")
    return [os.path.normpath(folder) for folder in list(path.parents)[:depth]]


def modules_in(folder: str | Path) -> list[str]:
    """Name the files and folders in a folder that an import would find there."""
    endings = tuple(all_suffixes())

    def holds_modules(path: str) -> bool:
        with contextlib.suppress(OSError), os.scandir(path) as entries:
            return any(e.name.endswith(endings) for e in itertools.islice(entries, MOST_LOOKED_AT))
        return False

    found: list[str] = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            is_package = entry.name.isidentifier() and entry.name != "__pycache__"
            if entry.name.endswith(endings) or (is_package and holds_modules(entry.path)):
                found.append(entry.name)
    return sorted(found)
