"""Where a variant's tensors are: device, and layout of a module and its batches.

layout: channels_last   images (N, C, H, W) with their channels innermost in memory
layout: features_first  points (N, F) with their points innermost
"""

import functools
from typing import TypeVar, cast

import numpy as np
import torch
from torch.utils._pytree import tree_map_only

from twinrun.config.definitions import Variant
from twinrun.errors import JobError

Batch = TypeVar("Batch")

POINTS_AT_LEAST = 1024
FEATURES_AT_MOST = 32  # with more a matrix library is faster
BLOCK_AT_LEAST, BLOCK_AT_MOST = 64, 400  # points; 20 features of 400 take 32 KB, an L1 cache


# The matrices that this process has compiled or traced into loops over points. Here and not where
# they are made: that module imports the whole compiler, which costs every process a second.
LOOPS_MADE: list[str] = []


def device_of(variant: Variant) -> torch.device:
    """Return the device of a variant's resolved accelerator.

    Raises:
        JobError: if torch sees no such device on this machine.
    """
    if variant.accelerator == "cpu":
        return torch.device("cpu")
    for kind, is_there in (("cuda", torch.cuda), ("mps", torch.backends.mps)):
        # ASSUME the first GPU that torch sees is the one to use.
        if is_there.is_available():
            return torch.device(kind, 0)
    raise JobError("no GPU: torch sees none on this machine")


def lay_out(module: torch.nn.Module, layout: str) -> None:
    """Store a module's weights in a layout; values and shapes stay."""
    if layout == "channels_last":
        module.to(memory_format=torch.channels_last)  # pyrefly: ignore[no-matching-overload]


def lay_out_batch(batch: Batch, layout: str) -> Batch:
    """Store a batch's tensors in a layout; values and shapes stay."""
    match layout:
        case "channels_last":
            return tree_map_only(torch.Tensor, _with_channels_last, batch)
        case "features_first":
            # The usual batch is a list of tensors, for which torch's walk takes as long as a copy.
            if type(batch) is list and all([type(held) is torch.Tensor for held in batch]):  # noqa: C419
                return cast(Batch, [_with_features_first(held) for held in batch])
            return tree_map_only(torch.Tensor, _with_features_first, batch)
    return batch


def is_tall(points: object, features: object) -> bool:
    """Tell whether a matrix holds so many points of so few features that loops beat a library.

    Sizes that are no numbers, but symbols that the compiler keeps open, are not.
    """
    return (
        isinstance(points, int)
        and isinstance(features, int)
        and points >= POINTS_AT_LEAST
        and features <= FEATURES_AT_MOST
        and block_of(points) >= BLOCK_AT_LEAST
    )


@functools.cache
def block_of(points: int) -> int:
    """Return the largest number of points that fits in a core's cache and divides them all."""
    # `_stored` reshapes into whole blocks, so that no rest may be left.
    return max(size for size in range(1, BLOCK_AT_MOST + 1) if points % size == 0)


def _with_channels_last(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor


def _with_features_first(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dim() == 2 and is_tall(*tensor.shape):
        # Only the strides change: the module sees the shape that it knows.
        return _transposed(tensor).t()
    return tensor


def _transposed(tensor: torch.Tensor) -> torch.Tensor:
    """Return the transpose of a matrix, contiguous."""
    transposed = tensor.t()
    is_numpys = type(tensor) is torch.Tensor and tensor.is_cpu and tensor.dtype in _NUMPYS
    if not is_numpys or tensor.requires_grad or tensor.is_neg() or transposed.is_contiguous():
        return transposed.contiguous()
    # torch's copy of 40,000 x 2 takes 1.1 ms, as long as a compiled step; NumPy's takes 0.1.
    copied = torch.empty(transposed.shape, dtype=tensor.dtype)
    np.copyto(copied.numpy(), transposed.numpy())
    return copied


_NUMPYS = (torch.float32, torch.float64)
