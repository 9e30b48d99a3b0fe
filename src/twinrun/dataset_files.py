"""A dataset: one that the workflow made, with its manifest beside it, or the user's own.

The user's own is a file or a folder. A folder is what its tree holds: names and contents of all
files, also behind links, and names of folders.
"""

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TypedDict

from twinrun import artifacts
from twinrun.errors import JobError, TwinrunError

MADE_IN = ("results", "data")  # where the workflow writes datasets, and their manifests beside
WRITTEN = ("results", ".snakemake")  # folders of the working directory


class ArrayEntry(TypedDict):
    """An array of a dataset."""

    shape: list[int]
    """Its length along each axis."""
    dtype: str
    """NumPy's name of it."""


class DatasetManifest(TypedDict):
    """How a dataset was made."""

    dataset: str
    """Its name in the config."""
    make: str
    """Import path of the function that made it."""
    parameters: dict[str, object]
    """Its keyword arguments."""
    libraries: dict[str, str]
    """Versions of those that the bytes depend on."""
    arrays: dict[str, ArrayEntry]
    """By name."""
    sha256: str
    """SHA-256 of the bytes of the .npz."""


def manifest_of(arrays: str | Path) -> Path:
    """Return the path of the manifest of a dataset's .npz."""
    return Path(arrays).with_suffix(".json")


def write_manifest(path: str | Path, manifest: DatasetManifest) -> None:
    """Write a manifest."""
    artifacts.write_record(path, manifest, DatasetManifest)


def read_manifest(path: str | Path) -> DatasetManifest:
    """Read a manifest.

    Raises:
        JobError: if it is not what `write_manifest` writes.
    """
    return artifacts.read_record(path, DatasetManifest)


def check_dataset(path: str | Path) -> None:
    """Compare a dataset that the workflow made with the hash in its manifest.

    What lies elsewhere is a user's own and passes, whatever lies beside it; each run records its
    hash all the same.

    Raises:
        JobError: if its bytes are not those that were written.
    """
    manifest = manifest_of(path)
    if Path(path).absolute().parts[-3:-1] != MADE_IN or not manifest.exists():
        return
    if artifacts.sha256(path) != read_manifest(manifest)["sha256"]:
        raise JobError(
            f"{path} is corrupt (its sha256 is not the one in {manifest}): delete it and it is "
            f"made again"
        )


def sha256(path: str | Path) -> str:
    """Return the hexadecimal SHA-256 of a file's bytes, or of a folder's tree.

    Raises:
        TwinrunError: for a link in a folder that leads nowhere or back.
    """
    if not Path(path).is_dir():
        return artifacts.sha256(path)
    digest = hashlib.sha256()
    for name, file in _tree(Path(path)):
        content = artifacts.sha256(file) if file.is_file() else "folder"
        digest.update(f"{name!r}={content};".encode())
    return digest.hexdigest()


def state_of(path: str | Path) -> list[int]:
    """Return by what a file or folder is known again, without a look at its bytes.

    Of a file these are its size, its number, and when it was written and changed, in nanoseconds;
    of a folder one number, made of these and the names of all that it holds.

    Raises:
        TwinrunError: as `sha256`.
    """
    if not Path(path).is_dir():
        return _state(os.stat(path))  # noqa: PTH116
    digest = hashlib.sha256()
    for name, file in _tree(Path(path)):
        digest.update(f"{name!r}={_state(file.stat()) if file.is_file() else 0};".encode())
    return [int(digest.hexdigest()[:15], 16)]


def _state(found: os.stat_result) -> list[int]:
    return [found.st_size, found.st_ino, found.st_mtime_ns, found.st_ctime_ns]


def _tree(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield all files and folders inside, sorted, each by its path from there."""
    for parent, folders, files in os.walk(folder, followlinks=True):
        folders.sort()
        for name in folders:
            inner = Path(parent, name)
            if inner.is_symlink() and Path(parent).resolve().is_relative_to(inner.resolve()):
                raise TwinrunError(f"{inner} is a link to a folder that holds it; remove the link")
        for name in [*folders, *sorted(files)]:
            path = Path(parent, name)
            if not path.exists():
                raise TwinrunError(f"{path} is a link that leads nowhere; remove or mend it")
            yield path.relative_to(folder).as_posix(), path


def written_by_the_workflow(folder: str | Path) -> str | None:
    """Name what the workflow writes, if a folder or a link in it holds that or lies in it."""
    links = (Path(p, n) for p, names, _ in os.walk(folder) for n in names)
    for root in (Path(folder).resolve(), *(link.resolve() for link in links if link.is_symlink())):
        for name in WRITTEN:
            written = Path(name).resolve()  # which need not be there yet
            if written.is_relative_to(root) or root.is_relative_to(written):
                return f"{name}/"
    return None


class _Hashed(TypedDict):
    """A file or folder that was hashed."""

    state: list[int]
    """See `_state`."""
    sha256: str
    """The hash."""


def remembered_sha256(path: str | Path, memory: Path) -> str:
    """Return what `sha256` does, which takes minutes for large data: for the same data once.

    A file that is copied or moved over another one may be older than it, and as large. When it came
    there shows in the time of its change alone, which nobody can set.

    Args:
        path: of the file or folder.
        memory: a JSON file; where it cannot be written nothing is remembered.
    """
    state = state_of(path)
    remembered: dict[str, _Hashed] = {}
    with contextlib.suppress(OSError, TwinrunError):  # none yet, or a damaged one
        remembered = artifacts.read_record(memory, dict[str, _Hashed])
    known = remembered.get(str(path))
    if known is not None and known["state"] == state:
        return known["sha256"]
    hashed: _Hashed = {"state": state, "sha256": sha256(path)}
    with contextlib.suppress(OSError):
        artifacts.write_record(memory, {**remembered, str(path): hashed}, dict[str, _Hashed])
    return hashed["sha256"]
