"""Tensors and arrays, as bytes that lie in memory as they did, and made of these again."""

import ctypes
from typing import Any

import numpy as np
import torch

NUMBERS = "biufcmMSU"  # kinds of an array's entries, in NumPy


class UnheldError(Exception):
    """No checkpoint can hold it, or it cannot be made again."""


def of_tensor(value: torch.Tensor, most: int) -> tuple[Any, ...]:
    """Return what `made_tensor` takes.

    Raises:
        UnheldError: if it is no plain one, of a CPU and without a gradient, or is larger.
    """
    is_plain = value.layout is torch.strided and value.is_cpu and not value.requires_grad
    if not is_plain or value.is_conj() or value.is_neg() or value.is_quantized or vars(value):
        raise UnheldError("it holds a tensor that is no plain one")
    size, stride, reach = tuple(value.shape), value.stride(), 0
    if value.numel():
        reach = 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if reach * value.element_size() > most:
        raise UnheldError("it holds a tensor that is too large")
    # As far as it reaches: of a row in a large tensor only that.
    flat = torch.as_strided(value, (reach,), (1,)) if reach else value.new_empty(0)
    raw = flat.contiguous().view(torch.uint8).numpy().tobytes()
    return raw, str(value.dtype).removeprefix("torch."), size, stride


def made_tensor(
    raw: bytes, name: str, size: tuple[int, ...], stride: tuple[int, ...]
) -> torch.Tensor:
    """Make a tensor of its bytes, its dtype's name, its shape and its strides."""
    dtype = made_dtype(name)
    if not raw:
        return torch.empty_strided(size, stride, dtype=dtype)
    flat = torch.frombuffer(bytearray(raw), dtype=torch.uint8).clone().view(dtype)
    return flat.new_empty(0).set_(flat.untyped_storage(), 0, size, stride)


def of_array(value: np.ndarray, most: int) -> tuple[Any, ...]:
    """Return what `made_array` takes.

    Raises:
        UnheldError: if it is one of objects, or is larger.
    """
    if value.dtype.kind not in NUMBERS:
        raise UnheldError("it holds an array that is not of numbers or texts")
    raw, first, size = b"", 0, value.itemsize
    if value.size:
        ends = [(n - 1) * step for n, step in zip(value.shape, value.strides, strict=True)]
        first = -sum(end for end in ends if end < 0)
        size += first + sum(end for end in ends if end > 0)
        if size > most:
            raise UnheldError("it holds an array that is too large")
        # As far as it reaches, forwards and backwards.
        raw = ctypes.string_at(value.ctypes.data - first, size)
    return raw, value.dtype.str, value.shape, value.strides, first, bool(value.flags.writeable)


def made_array(
    raw: bytes,
    dtype: str,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    first: int,
    is_writeable: bool,
) -> np.ndarray:
    """Make an array of its bytes, its dtype as a text, its shape, its strides and its flag.

    Args:
        raw: of all that it reaches.
        dtype: as a text.
        shape: of the array.
        strides: in bytes.
        first: the number of the byte at which its first entry begins.
        is_writeable: whether it is.
    """
    found = np.ndarray(shape, dtype, bytearray(raw), first, strides) if raw else None
    found = np.empty(shape, dtype) if found is None else found
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
