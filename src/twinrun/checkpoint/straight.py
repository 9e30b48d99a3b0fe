"""Write a checkpoint straight to its file.

Lightning makes all of its bytes in memory first: a network that fills it, with the states of its
optimizer and its gradients, would need as much again.
"""

from pathlib import Path
from typing import IO, cast

import torch


def save_straight(value: object, path: Path) -> None:
    """Write what torch can load again; of tensors on the CPU no copy is made.

    Args:
        value: to be written.
        path: of the file.

    Raises:
        OSError: if the file cannot be written, or the disk is full.
    """
    with path.open("wb") as file:
        writer = _Writer(file)
        try:
            torch.save(value, cast("IO[bytes]", writer))
        except RuntimeError:
            # Of a failure of the file torch raises what nobody could tell from a fault.
            if writer.failed is None:
                raise
        if writer.failed is not None:
            raise writer.failed


class _Writer:
    """A file that remembers why it could not be written."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.failed: OSError | None = None

    def write(self, data: bytes) -> int:
        """Write, unless that has failed before: torch would hide the reason behind its own."""
        if self.failed is None:
            try:
                self._file.write(data)
            except OSError as error:
                self.failed = error
        return memoryview(data).nbytes

    def flush(self) -> None:
        """Have it be as the files that torch takes."""
