"""A table that grows at its end, in a file: what a step leaves goes to disk as it comes."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, TypedDict, cast

import numpy as np
import numpy.typing as npt
import xxhash

from twinrun.errors import TwinrunError

PART = 16_384  # rows that are read at once
AT_ONCE = (
    256  # rows behind a checkpoint that are on the disk as they come, whatever ends the process
)


class SpoolState(TypedDict):
    """What a checkpoint keeps of a table whose rows are in a file."""

    bytes: int
    """Its length."""
    digest: str
    """The xxh3_64 of these bytes."""


class Spool:
    """Rows of one type, appended to a file; without a folder to a temporary one that has no name.

    The file is opened where the first row comes, and emptied then, unless `resume` was called.
    """

    def __init__(self, dtype: npt.DTypeLike, path: Path | None = None) -> None:
        self.dtype = np.dtype(dtype)
        self._path = path
        self._bytes = 0
        self._digest = xxhash.xxh3_64()
        self._file: BinaryIO | None = None
        self._at_once = 0  # bytes, up to which each row is written as it comes

    def __len__(self) -> int:
        return self._bytes // self.dtype.itemsize

    def append(self, rows: np.ndarray) -> None:
        """Append rows of the type."""
        raw = np.ascontiguousarray(rows, dtype=self.dtype).tobytes()
        self._opened().write(raw)
        self._digest.update(raw)
        self._bytes += len(raw)
        if self._bytes <= self._at_once:
            self._opened().flush()

    def read(self, start: int = 0, count: int | None = None) -> np.ndarray:
        """Return rows, from one on; all that follow if no number is given."""
        size = self.dtype.itemsize
        count = len(self) - start if count is None else min(count, len(self) - start)
        if count <= 0:
            return np.empty(0, dtype=self.dtype)
        file = self._opened()
        file.seek(start * size)
        raw = file.read(count * size)
        file.seek(0, os.SEEK_END)
        return np.frombuffer(raw, dtype=self.dtype)

    def parts(self) -> Iterator[np.ndarray]:
        """Yield all rows, PART at once."""
        for start in range(0, len(self), PART):
            yield self.read(start, PART)

    def state(self) -> SpoolState:
        """Return what tells the rows so far, which are on the disk then."""
        if self._bytes:
            file = self._opened()
            file.flush()
            os.fsync(file.fileno())
        self._at_once = self._bytes + AT_ONCE * self.dtype.itemsize
        return {"bytes": self._bytes, "digest": self._digest.hexdigest()}

    def later_than(self, state: SpoolState) -> np.ndarray:
        """Return rows that the file has behind those of `state`: PART of them at most."""
        path, size = cast(Path, self._path), self.dtype.itemsize
        if not path.is_file():
            return np.empty(0, dtype=self.dtype)
        with path.open("rb") as file:
            file.seek(state["bytes"])
            raw = file.read(PART * size)
        return np.frombuffer(raw[: len(raw) // size * size], dtype=self.dtype)

    def resume(self, state: SpoolState) -> None:
        """Go on after the rows of `state`; rows that came later are dropped.

        Raises:
            TwinrunError: if the file does not hold these rows.
        """
        path = cast(Path, self._path)
        digest, left = xxhash.xxh3_64(), state["bytes"]
        if left and path.is_file():
            with path.open("rb") as file:
                while left and (raw := file.read(min(left, 2**20))):
                    digest.update(raw)
                    left -= len(raw)
        if left or digest.hexdigest() != state["digest"]:
            raise TwinrunError(
                f"{path} is not the trace that belongs to the checkpoint beside it: delete the "
                f"folder {path.parents[1]} and the run is trained from its beginning"
            )
        self._bytes, self._digest = state["bytes"], digest
        self._at_once = self._bytes + AT_ONCE * self.dtype.itemsize
        if state["bytes"]:
            os.truncate(path, state["bytes"])
            self._file = path.open("r+b")
            self._file.seek(0, os.SEEK_END)

    def close(self) -> None:
        """Close the file; one without a name is gone then."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _opened(self) -> BinaryIO:
        if self._file is None:
            if self._path is None:
                # Closed by `close`, or with this object.
                self._file = cast(BinaryIO, tempfile.TemporaryFile(prefix="twinrun-"))  # noqa: SIM115
            else:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._file = self._path.open("w+b")
        return self._file
