"""The memory of tensors and arrays: what several have is written once, and made one again.

A row of a tensor that data hold anyway is a row of it again; a copy would not follow it.
"""

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from twinrun.containers import is_really


class UnheldError(Exception):
    """No checkpoint can hold it, or it cannot be made again."""


class Stretch(NamedTuple):
    """Bytes in memory, and a tensor or an array that has all of them."""

    first: int
    """The address of the first."""
    end: int
    """That behind the last."""
    owner: Any
    """What has them."""

    def has(self, other: "Stretch") -> bool:
        """Say whether another one lies in it."""
        return self.first <= other.first and other.end <= self.end


class Known(NamedTuple):
    """What a resumed training has without a checkpoint."""

    names: Mapping[int, str]
    """Of objects, by identity."""
    memory: Sequence[Stretch]
    """Of tensors and arrays among them."""


NOTHING_KNOWN = Known({}, ())


class Memory:
    """Bytes that a resumed training does not have without a checkpoint."""

    def __init__(self, raw: bytes) -> None:
        """Keep them.

        Args:
            raw: them.
        """
        self.raw = raw
        self._made: torch.Tensor | None = None

    def __reduce__(self) -> tuple[type["Memory"], tuple[bytes]]:
        return Memory, (self.raw,)

    def tensor(self) -> torch.Tensor:
        """Return the one tensor of all of them (uint8)."""
        if self._made is None:
            self._made = torch.frombuffer(bytearray(self.raw or b"\0"), dtype=torch.uint8).clone()
        return self._made


def stretch_of(value: Any) -> Stretch | None:
    """Return the memory that a tensor or an array has; None for what is no plain one."""
    if is_really(value, torch.Tensor):
        if value.layout is not torch.strided or not value.is_cpu:
            return None
        storage = value.untyped_storage()
        return Stretch(storage.data_ptr(), storage.data_ptr() + storage.nbytes(), value)
    if not is_really(value, np.ndarray):
        return None
    while is_really(value.base, np.ndarray):
        value = value.base
    if is_really(value.base, torch.Tensor):
        return stretch_of(value.base)
    if not (value.flags.c_contiguous or value.flags.f_contiguous):
        return None
    return Stretch(value.ctypes.data, value.ctypes.data + value.nbytes, value)


def known_stretch(value: Any) -> Stretch | None:
    """Return the memory of which a tensor or an array has all; None if there is no such."""
    if is_really(value, torch.Tensor):
        return stretch_of(value)
    is_plain = type(value) is np.ndarray and (value.flags.c_contiguous or value.flags.f_contiguous)
    return Stretch(value.ctypes.data, value.ctypes.data + value.nbytes, value) if is_plain else None


class Memories:
    """What a checkpoint writes of them."""

    def __init__(self, known: Sequence[Stretch], most: int) -> None:
        """Have written nothing yet.

        Args:
            known: of what a resumed training has without it.
            most: bytes of one.
        """
        self._known, self._most = known, most
        self._written: dict[tuple[int, int], Memory] = {}

    def holder(self, value: Any) -> tuple[object, Stretch]:
        """Return what has the memory of a tensor or an array: what is known, or its bytes.

        Raises:
            UnheldError: if they are too many, or do not lie side by side.
        """
        if (stretch := stretch_of(value)) is None:
            raise UnheldError("it holds an array that lies in memory by halves")
        for known in self._known:
            if known.has(stretch) and stretch.first < stretch.end:
                return known.owner, known
        first, end, _ = stretch
        if end - first > self._most:
            raise UnheldError(f"it holds more than {self._most >> 20} MiB")
        key = first, end
        if key not in self._written:
            self._written[key] = Memory(ctypes.string_at(first, end - first))
        return self._written[key], stretch


def all_bytes(holder: Any) -> np.ndarray:
    """Return an array (uint8) of all the memory that a tensor, an array or a `Memory` has.

    Raises:
        UnheldError: if it does not lie side by side by now.
    """
    if isinstance(holder, Memory):
        return holder.tensor().numpy()
    if is_really(holder, torch.Tensor):
        return torch.empty(0, dtype=torch.uint8).set_(holder.untyped_storage()).numpy()
    if not (holder.flags.c_contiguous or holder.flags.f_contiguous):
        raise UnheldError("an array lies in memory by halves")
    return np.ndarray(holder.nbytes, np.uint8, holder if holder.flags.c_contiguous else holder.T)
