"""A dataset that the workflow made, and the manifest beside it: a reader and a writer each."""

from pathlib import Path
from typing import TypedDict

from twinrun import artifacts
from twinrun.errors import JobError

OURS = {"dataset", "sha256"}  # keys by which a manifest is told from a user's own JSON


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

    A user's own file has no such manifest and passes; each run records its hash all the same.

    Raises:
        JobError: if its bytes are not those that were written.
    """
    manifest = manifest_of(path)
    found = artifacts.read_json(manifest) if manifest.exists() else None
    if not isinstance(found, dict) or not found.keys() >= OURS:
        return
    if artifacts.sha256(path) != read_manifest(manifest)["sha256"]:
        raise JobError(
            f"{path} is corrupt (its sha256 is not the one in {manifest}): delete it and it is "
            f"made again"
        )
