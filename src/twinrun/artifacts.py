"""Atomic writes and checked reads of everything that lands in results/.

A file that exists is whole: it is written under a temporary name in the same folder, flushed to
disk and renamed. Weights are safetensors, tables CSV, manifests JSON, arrays npz without pickle:
data, never code. Reading does without torch.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from twinrun.errors import TwinrunError

_ITEM_TYPES = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "BF16": np.uint16,  # NumPy has no bfloat16: its bits, to be widened by whoever needs values
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


@contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """Give a temporary path beside `path` that becomes `path` when the body ends well.

    Raises:
        OSError: if the folder cannot be written or the disk is full; nothing is left behind.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # The suffix stays the last one: savers choose the format, or append their own, by it.
    temporary = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    """Write UTF-8 text."""
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: str | Path, value: Any) -> None:
    """Write JSON, indented, keys in the order given."""
    write_text(path, json.dumps(value, indent=1, allow_nan=True) + "\n")


def read_json(path: str | Path) -> Any:
    """Read JSON.

    Raises:
        TwinrunError: if the file is no JSON.
    """
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise TwinrunError(
            f"{path} is corrupt ({error}): delete it and its run is made again"
        ) from None


def write_csv(path: str | Path, table: "Any") -> None:
    """Write a pandas DataFrame without its index, every float with all its digits."""
    with atomic(path) as temporary:
        table.to_csv(temporary, index=False, lineterminator="\n")


def write_arrays(path: str | Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write an .npz; the same arrays give the same bytes (zip dates are constant).

    Not compressed: fingerprints hardly are smaller then, and take seconds.
    """
    with atomic(path) as temporary:
        np.savez(temporary, **arrays)


def read_arrays(path: str | Path) -> dict[str, np.ndarray]:
    """Read an .npz.

    Raises:
        TwinrunError: if the file is no .npz or holds pickled objects.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            return dict(file)
    except FileNotFoundError:
        raise
    except Exception as error:  # zipfile, zlib and NumPy each raise their own kinds
        raise TwinrunError(f"{path} is corrupt ({error}): delete it and it is made again") from None


def write_tensors(path: str | Path, tensors: Mapping[str, Any]) -> None:
    """Write torch tensors as safetensors; each is copied, so shared memory does no harm."""
    from safetensors.torch import save

    copies = {name: t.detach().cpu().contiguous().clone() for name, t in tensors.items()}
    with atomic(path) as temporary:
        # save_file would make a file that only its owner can read, unlike all others here.
        temporary.write_bytes(save(copies))


def read_tensors(path: str | Path) -> dict[str, np.ndarray]:
    """Read safetensors into NumPy arrays without torch; bfloat16 comes as its uint16 bits.

    Raises:
        TwinrunError: if the file is truncated or no safetensors file.
    """
    from safetensors import SafetensorError, deserialize

    try:
        entries = deserialize(Path(path).read_bytes())
    except SafetensorError as error:
        raise TwinrunError(
            f"{path} is corrupt ({error}): delete it and its run is made again"
        ) from None
    arrays = {}
    for name, entry in entries:
        if entry["dtype"] not in _ITEM_TYPES:
            raise TwinrunError(f"{path}: tensor {name} has the unsupported type {entry['dtype']}")
        array = np.frombuffer(entry["data"], dtype=_ITEM_TYPES[entry["dtype"]])
        arrays[name] = array.reshape(entry["shape"])
    return arrays


def read_entries(path: str | Path) -> list[Any]:
    """Read the entries of a JSON list, or the one that the file is.

    Raises:
        TwinrunError: if the file is no JSON.
    """
    content = read_json(path)
    return content if isinstance(content, list) else [content]


def check_dataset(path: str | Path) -> None:
    """Hold a dataset that the workflow made against the hash in its manifest.

    A user's own file has no such manifest and passes; each run records its hash all the same.

    Raises:
        TwinrunError: if its bytes are not those that were written.
    """
    manifest = Path(path).with_suffix(".json")
    recorded = read_json(manifest) if manifest.exists() else None
    if not isinstance(recorded, dict) or not {"dataset", "sha256"} <= recorded.keys():
        return
    if sha256(path) != recorded["sha256"]:
        raise TwinrunError(
            f"{path} is corrupt (its sha256 is not the one in {manifest}): delete it and it is "
            f"made again"
        )


def sha256(path: str | Path) -> str:
    """Give the hexadecimal SHA-256 of a file's bytes."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
