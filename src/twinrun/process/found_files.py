"""What trainings have read of each other's files, and what that means, in words."""

from collections.abc import Iterable, Sequence
from typing import NotRequired, TypedDict

from twinrun.wording import some


class FoundFiles(TypedDict):
    """What a training has read that it did not write."""

    changed: list[str]
    """Files that a training has written in its steps: each finds another's."""
    kept: list[str]
    """Files that a rehearsal has written, or one training ahead of its steps: all find the same."""
    disturbing: NotRequired[list[str]]
    """Files that another training has written or removed meanwhile; absent if none."""
    outdated: NotRequired[list[str]]
    """Of a pair, in words: caches that are older than what they were made of, and what was written
    in the course of each run, and was not the same."""


def disturbed_by(left: FoundFiles) -> str | None:
    """Say by which of these files a training was disturbed; None if by none."""
    return read_of_others(left["disturbing"]) if "disturbing" in left else None


def found_by(trainings: Iterable[FoundFiles]) -> FoundFiles:
    """Join what several trainings have found; what is changed for one is so for all."""
    several = [*trainings]
    changed = {file for each in several for file in each["changed"]}
    kept = {file for each in several for file in each["kept"]} - changed
    return {"changed": sorted(changed), "kept": sorted(kept)}


def read_of_earlier(files: Sequence[str]) -> list[str]:
    """Say what it means that a training has found files that trainings change, if it has.

    >>> read_of_earlier(["last.pt"])[0].partition(" (")[0]
    'the file last.pt was opened to be read as an earlier training'
    """
    if not files:
        return []
    what, was, left = ("file", "was", "it") if len(files) == 1 else ("files", "were", "them")
    return [
        f"the {what} {some(files)} {was} opened to be read as an earlier training (or the "
        f"rehearsal) left {left}: a first one finds none, or another"
    ]


def read_of_all(files: Sequence[str]) -> list[str]:
    """Say what it means that a training has found files that no training changes, if it has.

    >>> read_of_all(["data/x.npy", "data/y.npy"])
    ['the files data/x.npy, data/y.npy were made once, ahead of the steps, for all that find them']
    """
    if not files:
        return []
    what, was, them = ("file", "was", "it") if len(files) == 1 else ("files", "were", "them")
    find = f"{was} made once, ahead of the steps, for all that find {them}"
    return [f"the {what} {some(files)} {find}"]


def read_of_attempt(files: Sequence[str]) -> str:
    """Say what it means that a resumed training has read these files."""
    return (
        f"it was resumed, and has read {some(files)}, or begun that anew to be read: what the "
        f"attempt before wrote there is in no checkpoint"
    )


def read_of_others(files: Sequence[str]) -> str:
    """Say what it means that a training has read these files."""
    return (
        f"it has used {some(files)}, which another training wrote or removed meanwhile; what a "
        f"module writes belongs below self.trainer.default_root_dir, which each training has for "
        f"itself"
    )
