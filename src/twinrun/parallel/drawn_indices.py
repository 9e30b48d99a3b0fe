"""The mini-batches that a batch sampler draws: indices of samples, before they are cut."""

from collections.abc import Iterator, Sequence
from typing import Protocol, TypeAlias

import numpy as np
import torch

from twinrun.errors import TwinrunError

Indices: TypeAlias = list[object] | torch.Tensor | np.ndarray
"""A mini-batch as samplers draw it: indices of samples, or keys of any type."""


class Batches(Protocol):
    """Draws the mini-batches of an epoch: a batch sampler, torch's or the user's own."""

    def __iter__(self) -> Iterator[object]:
        """Draw each mini-batch."""
        ...

    def __len__(self) -> int:
        """Return how many they are."""
        ...


def checked(batch: object) -> Indices:
    """Return a mini-batch that can be cut.

    Raises:
        TwinrunError: if it is none.
    """
    if isinstance(batch, list | torch.Tensor | np.ndarray) and np.ndim(batch) == 1:
        return batch
    if isinstance(batch, tuple):
        return list(batch)
    raise not_sharded(
        f"draws values of type {type(batch).__name__}, where lists or tensors of indices are needed"
    )


def joined(batches: Sequence[Indices]) -> Indices:
    """Make one mini-batch of several."""
    tensors = [batch for batch in batches if isinstance(batch, torch.Tensor)]
    if len(tensors) == len(batches):
        return torch.cat(tensors)
    arrays = [batch for batch in batches if isinstance(batch, np.ndarray)]
    if len(arrays) == len(batches):
        return np.concatenate(arrays)
    return [index for batch in batches for index in batch]


def not_sharded(why: str) -> TwinrunError:
    """Return the error that says why a loader cannot be sharded."""
    return TwinrunError(f"devices: train_dataloader {why}; train with devices: 1")
