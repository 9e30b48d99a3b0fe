"""The order of the training samples, from (seed, epoch) alone, and batches in that order.

A validation loader, the number of data workers and a resumed run do not change this order. They may
change that of `DataLoader(shuffle=True)`, whose sampler draws its seed from the global generator:
https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.RandomSampler
"""

from collections.abc import Iterator

import numpy as np
import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, Sampler


class EpochOrder(Sampler[int]):
    """A random order from (seed, epoch); yields epoch * size + index, which tells the epoch too.

    Lightning calls `set_epoch` of a sampler before each epoch.
    """

    is_drawn_at_once = True  # nothing that happens in the epoch has a say in it

    def __init__(self, size: int, *, seed: int) -> None:
        """Start at epoch 0."""
        self._size, self._seed, self._epoch = size, seed, 0

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch (from 0) of the next iteration."""
        self._epoch = epoch

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[int]:
        # The 0 separates these random numbers from those that a dataset draws from the same seed.
        order = np.random.default_rng([self._seed, 0, self._epoch]).permutation(self._size)
        # An index is all that a data worker hears of the order, so it has to tell the epoch too.
        return iter((order + self._epoch * self._size).tolist())


class ResidentTensors(Dataset):
    """Tensors in memory. A batch is gathered in one operation, instead of being collated by rows.

    Collating 40,000 rows one by one takes a hundred times as long as the step itself.
    """

    def __init__(self, *tensors: torch.Tensor) -> None:
        """Keep tensors of equal length N."""
        self._tensors = tensors

    def __len__(self) -> int:
        return len(self._tensors[0])

    def __getitems__(self, indices: list[int]) -> tuple[torch.Tensor, ...]:
        """Return the rows of a batch; an index is epoch * size + row, as in `EpochOrder`."""
        # The modulo drops the epoch, which these tensors do not need. (B,) int64.
        rows = torch.tensor(indices) % len(self)
        return tuple(tensor[rows] for tensor in self._tensors)


def loader(
    dataset: Dataset, order: EpochOrder | range, *, batch_size: int, drop_last: bool, workers: int
) -> DataLoader:
    """Return a DataLoader whose dataset makes whole batches (`__getitems__`).

    Args:
        dataset: has `__getitems__`, which takes the indices of a batch.
        order: yields the indices of an epoch.
        batch_size: samples in a batch.
        drop_last: leave out the last batch where it is smaller.
        workers: processes that prepare batches.

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
        # A function of the module, not a lambda: a spawned data worker has to unpickle it.
        collate_fn=_as_it_is,
        num_workers=workers,
        # A generator of its own: without one, each iteration draws a base seed for the workers from
        # the global generator (torch.utils.data.dataloader._BaseDataLoaderIter).
        generator=torch.Generator().manual_seed(0),
    )


def _as_it_is(batch: object) -> object:
    return batch
