"""Atomic writes and checked reads of everything that lands in results/.

A file that exists is whole: it is written under a temporary name in the same folder, flushed to
disk and renamed. Weights are safetensors, tables CSV, records JSON, arrays npz without pickle:
data, never code. A record is a TypedDict; what is written or read is checked against it. Reading
does without torch.
"""

import hashlib
import json
import os
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import numpy as np

from twinrun.errors import JobError

if TYPE_CHECKING:  # importing them costs 0.4 s and 1.3 s, which most readers need not pay
    import pandas as pd

Record = TypeVar("Record")

_ITEM_TYPES = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "BF16": np.uint16,  # NumPy has no bfloat16: its bits, which a reader widens to values
    "U64": np.uint64,
    "U32": np.uint32,
    "U16": np.uint16,
    "I64": np.int64,
    "I32": np.int32,
    "I16": np.int16,
    "I8": np.int8,
    "U8": np.uint8,
    "BOOL": np.bool_,
}
PART = 2**20  # elements of a tensor that are read at once: 8 MiB of float64


@contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path` that becomes `path` when the body ends well.

    Raises:
        OSError: if the folder cannot be written or the disk is full, with the name of `path`;
            nothing is left behind.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # The suffix stays the last one: savers choose the format, or append their own, by it.
    temporary = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        yield temporary
        with temporary.open("rb") as file:
            # A rename may reach the disk before the bytes do: after a power cut, a whole name
            # with half a file.
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        # A write that fails names no file, and nobody knows the temporary one.
        if error.errno and error.filename in (None, str(temporary)):
            error.filename = str(path)
        raise
    finally:
        remove(temporary)


def remove(path: str | Path) -> None:
    """Remove a file, if it is there."""
    # Linux answers that a file system is read only before it says that there is no such file.
    if os.path.lexists(path):
        Path(path).unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    """Write UTF-8 text."""
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: str | Path, value: object) -> None:
    """Write JSON, indented, keys in the order given."""
    # NaN and infinities are no JSON, but a diverged training has them, and Python reads them.
    write_text(path, json.dumps(value, indent=1, allow_nan=True) + "\n")


def read_json(path: str | Path) -> object:
    """Read JSON.

    Raises:
        JobError: if the file is no JSON.
    """
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise _corrupt(path, str(error)) from None


def read_record(path: str | Path, kind: type[Record]) -> Record:
    """Read JSON and check it against a type; keys that the type does not name are left out.

    Args:
        path: of the JSON.
        kind: a TypedDict, a dataclass, or a list of them.

    Raises:
        JobError: if the file is no JSON, or a key is missing or of another type.
    """
    try:
        # Not msgspec's own reader: it refuses NaN, which a diverged training leaves.
        return msgspec.convert(read_json(path), kind)
    except msgspec.ValidationError as error:
        raise _corrupt(path, str(error)) from None


def write_record(path: str | Path, record: Record, kind: type[Record]) -> None:
    """Write JSON that has been checked against a type; keys it does not name are not written.

    Args:
        path: of the JSON.
        record: the values; NumPy's numbers become Python's.
        kind: as for `read_record`.

    Raises:
        msgspec.ValidationError: if a key is missing or of another type: an error of ours.
    """
    plain = msgspec.to_builtins(record, enc_hook=np.generic.item)
    write_json(path, msgspec.to_builtins(msgspec.convert(plain, kind)))


def write_csv(path: str | Path, table: "pd.DataFrame") -> None:
    """Write a pandas DataFrame without its index, every float with all its digits."""
    write_csv_parts(path, [table])


def write_csv_parts(path: str | Path, parts: "Iterable[pd.DataFrame]") -> None:
    """Write the rows of several DataFrames of the same columns, of which one is held at a time."""
    with atomic(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        for number, part in enumerate(parts):
            part.to_csv(file, index=False, header=not number, lineterminator="\n")


def to_the_bit() -> "dict[str, Any]":
    """Return what has `pandas.read_csv` read the numbers that were written, to their last bit."""
    import pandas as pd

    major, minor, *_ = pd.__version__.split(".")
    # Older ones miss the last bit of a third of all numbers; newer ones warn of being told.
    return {"float_precision": "round_trip"} if (int(major), int(minor)) < (3, 1) else {}


def read_csv(
    path: str | Path,
    columns: Iterable[str] = (),
    *,
    types: "type[str] | Mapping[Hashable, str] | None" = None,
    rows: int | None = None,
) -> "pd.DataFrame":
    """Read CSV into a pandas DataFrame.

    Args:
        path: of the CSV.
        columns: those that the caller reads.
        types: pandas' types by column; `str` for text alone, in which an empty cell stays empty.
        rows: how many of the first; None for all.

    Raises:
        JobError: if the file is empty or no table, is no UTF-8, or lacks a column.
    """
    import pandas as pd

    try:
        table = pd.read_csv(
            path, dtype=types, nrows=rows, keep_default_na=types is not str, **to_the_bit()
        )
    # pandas' own errors (empty, cells that are no numbers, a line too long) are of this class, as
    # is that of bytes that are no UTF-8.
    except ValueError as error:
        raise _corrupt(path, str(error).strip()) from None
    missing = [name for name in columns if name not in table]
    if missing:
        raise _corrupt(path, f"it has no column {', '.join(missing)}")
    return table


def _corrupt(path: str | Path, what: str) -> JobError:
    return JobError(f"{path} is corrupt ({what}): delete it and it is made again")


def write_arrays(path: str | Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write an .npz; the same arrays give the same bytes (zip dates are constant).

    Not compressed: fingerprints hardly are smaller then, and take seconds.
    """
    with atomic(path) as temporary:
        # The stub takes every further keyword for `allow_pickle: bool`.
        np.savez(temporary, **arrays)  # pyrefly: ignore[bad-argument-type]


def read_arrays(path: str | Path, names: Iterable[str] | None = None) -> dict[str, np.ndarray]:
    """Read an .npz.

    Args:
        path: of the file.
        names: of the arrays to read, as far as they are there; None for all.

    Raises:
        JobError: if the file is no .npz or holds pickled objects, which could run any code.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            return dict(file) if names is None else {n: file[n] for n in names if n in file}
    except FileNotFoundError:
        raise
    except Exception as error:  # zipfile, zlib and NumPy each raise their own kinds
        raise _corrupt(path, str(error)) from None


class StoredTensors:
    """The tensors of a safetensors file, read without torch and in parts; bfloat16 as uint16 bits.

    The library reads slices too, but none of types that NumPy lacks.
    """

    def __init__(self, path: str | Path) -> None:
        """Look at the file's header.

        Raises:
            JobError: if the file is truncated or no safetensors file, or holds another type.
        """
        from safetensors import SafetensorError, safe_open

        self._path = Path(path)
        try:
            with safe_open(path, framework="numpy"):
                pass  # it has looked at every length and position
        except SafetensorError as error:
            raise JobError(
                f"{path} is corrupt ({error}): delete it and its run is made again"
            ) from None
        with self._path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(size))
        header.pop("__metadata__", None)
        self._start, self._entries = 8 + size, header
        for name, entry in header.items():
            if entry["dtype"] not in _ITEM_TYPES:
                raise JobError(f"{path}: tensor {name} has the unsupported type {entry['dtype']}")

    def names(self) -> list[str]:
        """Return the names of all tensors."""
        return list(self._entries)

    def form(self, name: str) -> tuple[tuple[int, ...], np.dtype] | None:
        """Return shape and NumPy's type of a tensor, None if there is none of this name."""
        entry = self._entries.get(name)
        return entry and (tuple(entry["shape"]), np.dtype(_ITEM_TYPES[entry["dtype"]]))

    def read(self, name: str) -> np.ndarray:
        """Return a tensor."""
        entry = self._entries[name]
        # One part: NumPy takes an empty shape's product for 1, as it is.
        size = max(int(np.prod(entry["shape"], dtype=np.int64)), 1)
        parts = [*self.parts(name, size), np.empty(0, dtype=_ITEM_TYPES[entry["dtype"]])]
        return parts[0].reshape(entry["shape"])

    def parts(self, name: str, size: int = PART) -> Iterator[np.ndarray]:
        """Yield the elements of a tensor, flat, so many at once; none of one without elements."""
        entry = self._entries[name]
        start, end = entry["data_offsets"]
        dtype = np.dtype(_ITEM_TYPES[entry["dtype"]])
        with self._path.open("rb") as file:
            file.seek(self._start + start)
            for left in range((end - start) // dtype.itemsize, 0, -size):
                # Not by a memory map: all that is read by it would count as memory.
                yield np.fromfile(file, dtype=dtype, count=min(left, size))


def read_tensors(path: str | Path) -> dict[str, np.ndarray]:
    """Read safetensors into NumPy arrays without torch; bfloat16 comes as its uint16 bits.

    Raises:
        JobError: as of `StoredTensors`.
    """
    stored = StoredTensors(path)
    return {name: stored.read(name) for name in stored.names()}


def sha256(path: str | Path) -> str:
    """Return the hexadecimal SHA-256 of a file's bytes."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
