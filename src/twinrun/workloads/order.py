"""The order of training, from (seed, epoch) alone, and batches cut from memory by it.

Neither a validation loader nor the number of data workers nor a resumed run changes such an order,
which torch's own shuffling cannot say: it draws from the global generator.
"""

from collections.abc import Iterator

import numpy as np
import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, Sampler


class EpochOrder(Sampler[int]):
    """A random order from (seed, epoch); yields epoch * size + index, so that data know the epoch.

    Lightning calls `set_epoch` before each epoch.
    """

    def __init__(self, size: int, *, seed: int) -> None:
        """Begin at epoch 0."""
        self._size, self._seed, self._epoch = size, seed, 0

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch (from 0) the next iteration is."""
        self._epoch = epoch

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[int]:
        # The 0 tells this stream of random numbers from those that a dataset draws itself.
        order = np.random.default_rng([self._seed, 0, self._epoch]).permutation(self._size)
        return iter((order + self._epoch * self._size).tolist())


class ResidentTensors(Dataset):
    """Tensors in memory, from which a batch is cut as one slice, not collated row by row."""

    def __init__(self, *tensors: torch.Tensor) -> None:
        """Take tensors of equal length N."""
        self._tensors = tensors

    def __len__(self) -> int:
        return len(self._tensors[0])

    def __getitems__(self, indices: list[int]) -> tuple[torch.Tensor, ...]:
        """Give the rows of a batch; index epoch * size + row, as `EpochOrder` has it."""
        rows = torch.tensor(indices) % len(self)
        return tuple(tensor[rows] for tensor in self._tensors)


def loader(
    dataset: Dataset, order: Sampler[int] | range, *, batch_size: int, drop_last: bool, workers: int
) -> DataLoader:
    """Give a DataLoader whose dataset makes whole batches (`__getitems__`).

    Raises:
        ValueError: if there is not even one batch.
    """
    batches = BatchSampler(order, batch_size, drop_last=drop_last)
    if not len(batches):
        raise ValueError(
            f"batch_size: {batch_size} is more than the {len(order)} samples there are"
        )
    return DataLoader(
        dataset,
        batch_sampler=batches,
        collate_fn=_as_it_is,
        num_workers=workers,
        # Its own: iterating a loader without one draws from the global generator.
        generator=torch.Generator().manual_seed(0),
    )


def _as_it_is(batch: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    return batch
