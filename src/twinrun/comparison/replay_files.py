"""The files by which a process that replays a step is compared with another one.

A folder for each repeat: its operations, the fingerprints of what the step leaves, and a sample of
what each operation gave, by which a distance is measured. A step may have any number of operations,
and its network any size: the samples together have a bound.
"""

import json
from pathlib import Path

import numpy as np
import torch
import xxhash

from twinrun import artifacts
from twinrun.trace.op_rows import KEY, OpRow

MOST_ELEMENTS = 2**18  # of an operation's output: 1 MiB of float32
# Bytes of all samples of the first repeat, and of those that others have otherwise.
OF_FIRST, OF_FURTHER = 2**30, 2**28
SHARE = 256  # of the room that is left, a sample takes one part of so many at most
BLOCK = 4096  # bytes of a disk that the smallest file takes


class Samples:
    """Writes samples of tensors; the less room there is left, the smaller ones."""

    def __init__(self, room: int) -> None:
        """Keep at most `room` bytes."""
        self._room = room

    def write(self, folder: Path, row: OpRow, position: int, tensor: torch.Tensor) -> None:
        """Keep what an operation gave, as far as there is room."""
        size = self._room // SHARE
        if self._room < BLOCK or size < tensor.element_size():
            return
        sample = sample_of(tensor, min(MOST_ELEMENTS, size // tensor.element_size()))
        self._room -= max(sample.nbytes, BLOCK)
        np.save(_sample_file(folder, row, position, tensor), sample)


def read_sample(folder: Path, row: OpRow, position: int, like: torch.Tensor) -> np.ndarray | None:
    """Return the sample of what an operation gave in the record; None if it has none.

    Args:
        folder: of the repeat.
        row: of the operation.
        position: of the tensor among those that the operation gave.
        like: what it gave here; of a tensor with another number of elements there is no sample.
    """
    file = _sample_file(folder, row, position, like)
    return np.load(file) if file.exists() else None


def sample_of(tensor: torch.Tensor, most: int = MOST_ELEMENTS) -> np.ndarray:
    """Return at most `most` evenly spaced elements, flat; of bfloat16 the bits as uint16.

    Asked for as many as a sample has, it gives the same ones.
    """
    flat = _values(tensor).detach().reshape(-1)
    # Conjugate and negative views are resolved: NumPy knows neither.
    flat = flat[:: max(1, -(-flat.numel() // max(most, 1)))].cpu().resolve_conj().resolve_neg()
    return (flat.view(torch.uint16) if flat.dtype == torch.bfloat16 else flat).numpy()


def write_operations(record: Path, rows: list[OpRow]) -> None:
    """Write the operations of a repeat, in their order."""
    artifacts.write_record(record / "ops.json", rows, list[OpRow])


def has_operations(record: Path) -> bool:
    """Say whether a repeat has operations of its own; else they are those of the first one."""
    return (record / "ops.json").exists()


def read_operations(record: Path) -> list[OpRow]:
    """Read what `write_operations` wrote."""
    return artifacts.read_record(record / "ops.json", list[OpRow])


def write_marks(record: Path, contents: dict[str, str]) -> None:
    """Write the fingerprint of each quantity that the step leaves, by its identity."""
    artifacts.write_record(record / "marks.json", contents, dict[str, str])


def read_marks(record: Path) -> dict[str, str]:
    """Read what `write_marks` wrote."""
    return artifacts.read_record(record / "marks.json", dict[str, str])


def key_of(row: OpRow) -> str:
    """Return by what an operation is known in another process."""
    return json.dumps([row[part] for part in KEY])


def repeat_of(record: Path, number: int) -> Path:
    """Return the folder of a repeat."""
    folder = record / str(number)
    folder.mkdir(exist_ok=True)
    return folder


def _values(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.layout is torch.strided else tensor.coalesce().values()


def _sample_file(folder: Path, row: OpRow, position: int, tensor: torch.Tensor) -> Path:
    key = xxhash.xxh3_64_hexdigest(key_of(row).encode())
    return folder / f"{key}.{position}.{_values(tensor).numel()}.npy"
