"""What verdicts are drawn from: a record, and the file that it was read from."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypedDict, TypeVar

Record = TypeVar("Record")


@dataclass(frozen=True, kw_only=True)
class Evidence(Generic[Record]):
    """One record of a file; a file of several seeds holds a record for each."""

    path: str
    """Path of the file, in the results folder."""
    found: Record
    """What it says."""


class VariantNotRun(TypedDict):
    """A variant that could not run here."""

    workload: str
    """What it was to train."""
    variant: str
    """Its name."""
    reason: str
    """Why, in a clause."""


def read(
    paths: Iterable[str], reader: Callable[[str], list[Record]], *, results: Path
) -> list[Evidence[Record]]:
    """Read the records of files by the reader of their kind."""
    return [
        # Relative to the results folder, so that it holds wherever that is moved.
        Evidence(path=Path(path).relative_to(results).as_posix(), found=found)
        for path in paths
        for found in reader(path)
    ]
