"""The names in a folder of data: another file that comes to lie there may be read next time.

Of the working directory, and of those above, count the names with the endings of what was read
there: `*.csv`. Those that trainings write count nowhere: each would have another list.
"""

import functools
import hashlib
import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path

from twinrun.process.opened_entries import LOG_FILE, WRITES_OF, Writers, entries_of

NAMES = "names "  # before what is said of a folder
# Beside the code of a project lie its configs, logs and folders too.
_OF_PROJECT = {"", *(".py", ".ipynb", ".sh", ".md", ".yaml", ".yml", ".toml", ".cfg", ".ini")}
_OF_PROJECT |= {".log", ".out", ".err", ".html", ".lock", ".smk"}
# What Twinrun writes below `results`; beside that another workflow may have its own.
_OWN = {"benchmarks", "checkpoints", "comparisons", "contests", "figures", "gate", "locations"}
_OWN |= {"logs", "matrix", "noise", "resumes", "runs", "scaling", "sweeps", "timings", "verdicts"}


def is_of_results(path: str, working: str = "") -> bool:
    """Say whether Twinrun itself writes a file or folder.

    Args:
        path: from the working directory.
        working: that, which code may have left.

    >>> is_of_results("results/runs/a.json"), is_of_results("results/prep/a.csv")
    (True, False)
    """
    first, *inside = Path(path).parts or ("",)
    if first != "results":
        return False
    if not inside or inside[0] in _OWN:
        return True
    if inside[0] != "data" or len(inside) != 2:
        return False
    # Beside each dataset that is made lies the log of its imports.
    name = f"{inside[1].partition('.')[0]}.imports.jsonl"
    return Path(working, first, "data", name).is_file()


def all_names(folder: str | Path, written: Collection[str]) -> str:
    """Return a mark of the names in a folder, by their endings.

    Args:
        folder: it.
        written: names there of what trainings write, which are left out.

    Raises:
        OSError: if there is no such folder.
    """
    names = sorted({*os.listdir(folder)} - {*written})  # noqa: PTH208
    kinds = dict[str, list[str]]()
    for name in names:
        if name[0] != ".":
            kinds.setdefault(kind_of(name), []).append(name)
    return NAMES + json.dumps([[kind, _hash(found)] for kind, found in kinds.items()])


def kind_of(name: str) -> str:
    """Return by what a name ends: `.csv`, or nothing of a folder, or of a part of many.

    >>> kind_of("a.JPG"), kind_of("part.3"), kind_of("train")
    ('.jpg', '', '')
    """
    kind = Path(name).suffix.lower()
    return "" if kind[1:].isdigit() else kind


def of_kinds(mark: str, kinds: Collection[str]) -> str:
    """Return of a mark of names what it says of names with these endings."""
    found = _kinds_in(mark)
    return NAMES + json.dumps([[kind, found[kind]] for kind in sorted(kinds) if kind in found])


def are_unlike(folder: str, first: str, second: str) -> bool:
    """Say whether two marks of one folder say other things.

    Args:
        folder: its path from the working directory: of that, and of one above, two jobs may have
            read files with other endings.
        first: a mark of `of_data`.
        second: another one.
    """
    found, others = _kinds_in(first), _kinds_in(second)
    kinds = found.keys() & others.keys()
    if {*Path(folder).parts} - {os.pardir}:
        kinds = (found.keys() | others.keys()) - ({""} - kinds)
    return any(found.get(kind) != others.get(kind) for kind in kinds)


def _kinds_in(mark: str) -> dict[str, str]:
    return dict(json.loads(mark.removeprefix(NAMES)))


def names_again(mark: str, folder: Path, working: Path) -> str:
    """Return what is to be said now of a folder, in the form of a mark of `of_kinds`.

    Args:
        mark: of the folder.
        folder: its path.
        working: the working directory.

    Raises:
        OSError: if there is no such folder.
    """
    made = _made_by_folder(*_log(working)).get(os.path.abspath(folder), ())  # noqa: PTH100
    now, kinds = all_names(folder, made), {*_kinds_in(mark)}
    if not _is_of_project(folder, working):
        kinds |= _kinds_in(now).keys() - {""}
    return of_kinds(now, kinds)


def is_of_trainings(file: str, since: int, working: Path = Path()) -> bool:
    """Say whether trainings of a working directory have written a file since a moment (ns)."""
    return _writers(*_log(working)).last(os.path.abspath(working / file)) > since  # noqa: PTH100


def is_changed_by_others(file: str, working: Path) -> bool:
    """Say whether somebody has changed a file since the last training that has written it.

    Args:
        file: its path from the working directory.
        working: that.
    """
    path = os.path.abspath(working / file)  # noqa: PTH100
    return _writers(*_log(working)).is_changed_by_others(path)


def _log(working: Path) -> tuple[Path, int]:
    """Return the log of a working directory, and its size."""
    log = working / LOG_FILE
    return log, log.stat().st_size if log.is_file() else 0


def of_data(mark: str, folder: str, kinds: Collection[str]) -> str | None:
    """Return of a mark of names what says something of data; None if nothing does.

    Args:
        mark: of `all_names`.
        folder: that was listed.
        kinds: the endings of what was read in it, itself or below.
    """
    if _is_of_project(Path(folder), Path()):
        left = {*kinds} - _OF_PROJECT
    else:  # a folder beside a table says nothing of it, and labels do of pictures
        left = {*kinds} | (_kinds_in(mark).keys() - {""}) if kinds else set()
    return of_kinds(mark, left) if left else None


def _is_of_project(folder: Path, working: Path) -> bool:
    """Say whether it is the working directory, or one above."""
    return f"{working.absolute()}{os.sep}".startswith(f"{os.path.abspath(folder)}{os.sep}")  # noqa: PTH100


@functools.lru_cache(maxsize=1)  # asked for by each of thousands of runs, as the next one
def _writers(log: Path, size: int) -> Writers:
    found = Writers()
    for who, entry, moment, file in entries_of(log.read_bytes()) if size else ():
        if entry == "left" or entry in WRITES_OF:
            found.note(file, who, entry, moment)
    return found


@functools.lru_cache(maxsize=1)
def _made_by_folder(log: Path, size: int) -> Mapping[str, set[str]]:
    """Return what trainings have made in each folder, themselves or below."""
    writers, found = _writers(log, size), dict[str, set[str]]()
    for file in filter(writers.add, writers.files()):
        inside = Path(file)
        for folder in inside.parents:
            found.setdefault(str(folder), set()).add(inside.name)
            inside = folder
    return found


def _hash(names: Collection[str]) -> str:
    return hashlib.sha256(json.dumps([*names]).encode()).hexdigest()[:16]
