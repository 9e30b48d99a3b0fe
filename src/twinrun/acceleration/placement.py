"""Where a variant's tensors are: device, precision and layout of a module and its batches.

layout: channels_last   images (N, C, H, W) with their channels innermost in memory
layout: features_first  points (N, F) with their points innermost
"""

from collections.abc import Callable
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.plugins.precision import (
    DoublePrecision,
    HalfPrecision,
    MixedPrecision,
    Precision,
)
from torch.utils._pytree import tree_map_only

from twinrun.config.definitions import Variant
from twinrun.errors import JobError, TwinrunError

POINTS_AT_LEAST = 1024
FEATURES_AT_MOST = 32  # with more a matrix library is faster
BLOCK_AT_LEAST, BLOCK_AT_MOST = 64, 400  # points; 20 features of 400 take 32 KB, an L1 cache


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


def lay_out_batch(batch: Any, layout: str) -> Any:
    """Store a batch's tensors in a layout; values and shapes stay."""
    match layout:
        case "channels_last":
            return tree_map_only(torch.Tensor, _with_channels_last, batch)
        case "features_first":
            return tree_map_only(torch.Tensor, _with_features_first, batch)
    return batch


def is_tall(points: Any, features: Any) -> bool:
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


def block_of(points: int) -> int:
    """Return the largest number of points that fits in a core's cache and divides them all."""
    # `_stored` reshapes into whole blocks, so that no rest may be left.
    return max(size for size in range(1, BLOCK_AT_MOST + 1) if points % size == 0)


class Place:
    """Puts modules and batches where a variant wants them, without the Trainer."""

    def __init__(self, variant: Variant) -> None:
        """Find the place.

        Raises:
            TwinrunError: if this machine or a loop without the Trainer has no such place.
        """
        self.device = device_of(variant)
        self._layout = variant.layout
        self._precision = _precision(variant.precision, self.device)

    def module(self, module: pl.LightningModule) -> pl.LightningModule:
        """Move a module."""
        lay_out(self._precision.convert_module(module.to(self.device)), self._layout)
        return module  # all of them change it in place

    def batch(self, batch: Any) -> Any:
        """Convert a batch that is on the device already."""
        return lay_out_batch(self._precision.convert_input(batch), self._layout)

    def around(self, step: Callable[[Any, int], Any]) -> Callable[[Any, int], Any]:
        """Return a `training_step` or `predict_step` what the precision puts around it.

        That is nothing where parameters, inputs and arithmetic have one precision: Lightning's
        empty context would only cost time.
        """
        if type(self._precision) is Precision:
            return step

        def within(batch: Any, index: int) -> Any:
            with self._precision.forward_context():
                return step(batch, index)

        return within


def _precision(name: str, device: torch.device) -> Precision:
    match name:
        case "32-true":
            return Precision()
        case "64-true":
            return DoublePrecision()
        case "bf16-true":
            return HalfPrecision("bf16-true")
        case "bf16-mixed":
            return MixedPrecision("bf16-mixed", device.type)
    raise TwinrunError(f"precision {name} scales its gradients, which needs the Trainer")


def _with_channels_last(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor


def _with_features_first(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dim() == 2 and is_tall(*tensor.shape):
        # Only the strides change: the module sees the shape that it knows.
        return tensor.t().contiguous().t()
    return tensor
