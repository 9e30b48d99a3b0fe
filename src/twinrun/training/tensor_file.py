"""A safetensors file, written a part at a time: the library's own writers need all of it at once.

The bytes are those that the library writes, which decides on the order of the tensors.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import torch
from safetensors.torch import save

from twinrun import artifacts
from twinrun.plain_tensors import bare, flat_bytes

LENGTH = 8  # bytes that hold the header's own length; the header is filled up to a multiple of it


@dataclass(frozen=True)
class Parts:
    """A tensor that is given in parts, in the order of its elements."""

    dtype: torch.dtype
    """Of the whole tensor."""
    shape: tuple[int, ...]
    """Likewise."""
    parts: Callable[[], Iterator[torch.Tensor]]
    """Give them, from the first one, as often as they are asked for."""

    @classmethod
    def of(cls, tensor: torch.Tensor) -> "Parts":
        """Return a tensor as one part, as it lies there."""
        return cls(tensor.dtype, tuple(tensor.shape), lambda: iter([bare(tensor.detach())]))

    @property
    def nbytes(self) -> int:
        """Bytes of all parts."""
        return torch.Size(self.shape).numel() * self.dtype.itemsize

    def whole(self) -> torch.Tensor:
        """Return all parts as one tensor."""
        return torch.cat([part.reshape(-1) for part in self.parts()]).reshape(self.shape)


def write_parts(path: str | Path, tensors: Mapping[str, Parts]) -> None:
    """Write tensors, of which one part is held at a time.

    Raises:
        ValueError: if the parts of a tensor are not as large as its shape says: an error of ours.
    """
    entries = _entries(tensors)
    header = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode()
    header += b" " * (-len(header) % LENGTH)
    with artifacts.atomic(path) as temporary, temporary.open("wb") as file:
        file.write(len(header).to_bytes(LENGTH, "little") + header)
        for name in entries:
            _write(file, name, tensors[name])


def _write(file: IO[bytes], name: str, tensor: Parts) -> None:
    written = sum(file.write(flat_bytes(part).data) for part in tensor.parts())
    if written != tensor.nbytes:
        raise ValueError(f"{name} has {written} bytes instead of {tensor.nbytes}")


def _entries(tensors: Mapping[str, Parts]) -> dict[str, dict[str, object]]:
    """Return what the header says of each tensor, in the order in which they lie in the file."""
    # Of empty ones the library orders the names as of any, and writes what it calls the types.
    empty = save({name: torch.empty(0, dtype=tensor.dtype) for name, tensor in tensors.items()})
    found: dict[str, dict[str, object]] = json.loads(empty[LENGTH:])
    end = 0
    for name, entry in found.items():
        start, end = end, end + tensors[name].nbytes
        entry |= {"shape": list(tensors[name].shape), "data_offsets": [start, end]}
    return found
