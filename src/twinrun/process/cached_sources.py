"""What caches were made of that jobs find: a part of what these have read, and it may be newer."""

import os
from collections.abc import Container, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from twinrun import artifacts
from twinrun.process.import_record import LOG
from twinrun.process.listed_names import NAMES
from twinrun.process.made_files import sources_of
from twinrun.process.read_files import (
    cache_and_mark,
    held,
    is_changed_meanwhile,
    made_otherwise,
    mark_now,
    newer,
)
from twinrun.process.read_notes import GONE, STATE, named_alone
from twinrun.wording import some


def held_by_this_job() -> dict[str, str]:
    """Return what `read_files.held` does of the job of this process, with what that was made of."""
    log = Path(os.environ[LOG]) if LOG in os.environ else None
    return {} if log is None else with_sources(held(log), named_alone(log))


def with_sources(read: Mapping[str, str], named: Container[str] = ()) -> dict[str, str]:
    """Add to what a job has read what that was made of, as it is now; nothing of what is gone.

    Args:
        read: as of `read_files.held`.
        named: of that what it names alone, and may find in a cache that is older.
    """
    found = dict(read)
    for cache, sources in sources_of(read).items():
        for file, mark in sources.items():
            with suppress(OSError):
                if (file not in read or file in named) and (now := _now(file, mark)) != GONE:
                    is_newer = now != mark and cache_and_mark(mark)[0] is None
                    found[file] = newer(cache, now) if is_newer else now
    return found


def _now(file: str, mark: str) -> str:
    if is_changed_meanwhile(mark):  # nobody knows what it was then
        return artifacts.sha256(file)
    now = mark_now(file, mark)
    return GONE if cache_and_mark(now)[1] == GONE else now


def newer_than_caches(read: Mapping[str, str]) -> list[str]:
    """Say which caches were not made anew though what they were made of has changed since.

    Args:
        read: as of `held_by_this_job`.

    >>> newer_than_caches({"rows.csv": newer("all.pt", "f00"), "x": "f00"})[0].partition(":")[0]
    'the file all.pt was made of another rows.csv than there is now, and was not made anew'
    """
    caches = dict[str, list[str]]()
    for file, mark in sorted(read.items()):
        if (cache := cache_and_mark(mark)[0]) is not None:
            caches.setdefault(cache, []).append(file)
    return [
        f"the file {cache} was made of another {some(files)} than there is now, and was not made "
        f"anew: a training that does not find it may be another one"
        for cache, files in caches.items()
    ]


def doubts_of(read: Sequence[Mapping[str, str]], *, differ: bool) -> list[str]:
    """Say what is to be known of the files that several jobs have read.

    Args:
        read: by each, as of `held_by_this_job`.
        differ: whether they came to different results.

    >>> doubts_of([{"a": "made 1"}, {"a": "made 2"}], differ=True)[0].partition(":")[0]
    'the file a was written in the course of each of them, and held something else'
    """
    said = {each for files in read for each in newer_than_caches(files)}
    unlike = {file for other in read[1:] for file in made_otherwise(read[0], other)}
    if differ and unlike:
        what, was = ("file", "was") if len(unlike) == 1 else ("files", "were")
        said.add(
            f"the {what} {some(sorted(unlike))} {was} written in the course of each of them, and "
            f"held something else: by themselves or by others, and what they read of that may be "
            f"why they differ"
        )
    return sorted(said)


def files_known(read: Mapping[str, str]) -> set[str]:
    """Name the files of which `held` says what they held.

    No folder is one, nor what has changed, was missing, or is known by size and time alone.

    >>> large = "9 bytes written at 1"
    >>> sorted(files_known({"a.csv": "f00", ".": 'names [["", "1"]]', "b": "made 8", "c": large}))
    ['a.csv', 'b']
    """
    return {
        file
        for file, mark in read.items()
        if not (mark.startswith((NAMES, GONE)) or STATE in mark)
        and not (cache_and_mark(mark)[0] or is_changed_meanwhile(mark))
    }
