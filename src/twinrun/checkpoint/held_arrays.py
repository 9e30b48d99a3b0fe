"""Tensors and arrays, as bytes that lie in memory as they did, and made of these again."""

from typing import Any

import numpy as np
import torch

from twinrun.checkpoint.held_memory import Memories, Memory, UnheldError, all_bytes
from twinrun.containers import is_really

NUMBERS = "biufcmMSU"  # kinds of an array's entries, in NumPy


def of_tensor(value: torch.Tensor, memories: Memories) -> tuple[Any, ...]:
    """Return what `made_tensor` takes.

    Raises:
        UnheldError: if it is no plain one, of a CPU and without a gradient, or is too large.
    """
    is_plain = value.layout is torch.strided and value.is_cpu and not value.requires_grad
    if not is_plain or value.is_conj() or value.is_neg() or value.is_quantized or vars(value):
        raise UnheldError("it holds a tensor that is no plain one")
    holder, stretch = memories.holder(value)
    first = value.data_ptr() - stretch.first if value.untyped_storage().nbytes() else 0
    name = str(value.dtype).removeprefix("torch.")
    return holder, first, name, tuple(value.shape), value.stride()


def made_tensor(
    holder: Any, first: int, name: str, size: tuple[int, ...], stride: tuple[int, ...]
) -> torch.Tensor:
    """Make a tensor again.

    Args:
        holder: what has its memory.
        first: the number of the byte there at which its first entry begins.
        name: of its dtype.
        size: its shape.
        stride: its strides.

    Raises:
        UnheldError: if it would begin in the midst of an entry.
    """
    found = torch.empty(0, dtype=made_dtype(name))
    if is_really(holder, torch.Tensor):
        storage = holder.untyped_storage()
    elif isinstance(holder, Memory):
        storage = holder.tensor().untyped_storage()
    else:  # of an array from there on: a tensor's memory begins where that begins
        storage, first = torch.from_numpy(all_bytes(holder)[first:]).untyped_storage(), 0
    if first % found.itemsize:
        raise UnheldError("it begins in the midst of an entry")
    return found.set_(storage, first // found.itemsize, size, stride)


def of_array(value: np.ndarray, memories: Memories) -> tuple[Any, ...]:
    """Return what `made_array` takes.

    Raises:
        UnheldError: if it is one of objects, or is too large.
    """
    if value.dtype.kind not in NUMBERS or value.dtype.hasobject:
        raise UnheldError("it holds an array that is not of numbers or texts")
    holder, stretch = memories.holder(value)
    first = value.ctypes.data - stretch.first if value.size else 0
    is_writeable = bool(value.flags.writeable)
    return holder, first, value.dtype.str, value.shape, value.strides, is_writeable


def made_array(
    holder: Any,
    first: int,
    dtype: str,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    is_writeable: bool,
) -> np.ndarray:
    """Make an array of its dtype as a text, its shape, its strides and its flag.

    Args:
        holder: what has its memory.
        first: the number of the byte there at which its first entry begins.
        dtype: as a text.
        shape: of the array.
        strides: in bytes.
        is_writeable: whether it is.
    """
    if not np.prod(shape):
        found = np.empty(shape, dtype)
    else:
        found = np.ndarray(shape, dtype, all_bytes(holder), first, strides)
    found.setflags(write=is_writeable)
    return found


def made_number(dtype: str, raw: bytes) -> Any:
    """Make a number of NumPy's of its dtype as a text and its bytes."""
    return np.frombuffer(raw, dtype)[0]


def made_dtype(name: str) -> torch.dtype:
    """Return a dtype of torch's by its name.

    Raises:
        UnheldError: if torch has none of that name.
    """
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise UnheldError(f"torch has no {name}")
    return found
