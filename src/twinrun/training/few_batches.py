"""A training loader that gives a few batches, and is otherwise the loader that it was.

Modules ask the Trainer for its loader: how long its dataset is, which classes it has, what batch
size, whose epoch a sampler is at. So the loader keeps its class, its attributes and its length;
only what is iterated over changes.
"""

import copy
import types
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from itertools import cycle, islice

import pytorch_lightning as pl
import torch
from pytorch_lightning.utilities.combined_loader import CombinedLoader
from torch.utils.data import BatchSampler, DataLoader, IterableDataset
from torch.utils.data._utils.fetch import _MapDatasetFetcher

from twinrun.acceleration.compilation import shapes_of
from twinrun.errors import TwinrunError

BATCHES = 3
LOOKED_THROUGH = 32  # batches, for one of another shape
INDICES_AT_MOST = 100_000  # of batches, to find the last of


def shorten(data: pl.LightningDataModule) -> None:
    """Have the training loader give BATCHES batches, unless it is several loaders in one.

    The first ones, and one of another shape, if there is one.
    """
    original = data.train_dataloader

    def train_dataloader() -> object:
        loader = original()
        if isinstance(loader, CombinedLoader | Mapping | list | tuple):
            return loader
        return giving(few_of(loader), loader)

    data.train_dataloader = train_dataloader


def few_of(loader: Iterable[object]) -> list[object]:
    """Return the first batches and one of another shape; where there are too few, some twice.

    Raises:
        TwinrunError: if there is none.
    """
    iterator = iter(loader)
    found = list(islice(iterator, BATCHES - 1))
    if not found:
        raise TwinrunError("train_dataloader gives no batch")
    shapes = {shapes_of(batch) for batch in found}
    others = (batch for batch in islice(iterator, LOOKED_THROUGH) if shapes_of(batch) not in shapes)
    rest = list(islice(others, 1))
    if not rest and isinstance(loader, DataLoader):
        rest = _last_batch(loader)
    return list(islice(cycle([*found, *rest]), BATCHES))


def giving(batches: list[object], loader: Iterable[object]) -> object:
    """Return a loader that gives these batches and has all else of another one."""
    length, original = length_of(loader), type(loader)

    def every(self: object) -> Iterator[object]:
        return iter(batches)

    # No slots of its own: only then may an object change to this class.
    content: dict[str, object] = {
        "__slots__": (),
        "__module__": original.__module__,
        "__iter__": every,
    }
    if length is not None:
        # The true one, which schedules are made from; but an epoch is to have all the batches.
        content["__len__"] = lambda self: max(length, len(batches))
    try:
        kind = types.new_class(
            original.__name__, (original,), exec_body=lambda ns: ns.update(content)
        )
        kind.__qualname__ = original.__qualname__
        found = copy.copy(loader)
        object.__setattr__(found, "__class__", kind)
    except Exception:  # a class that cannot be derived from or copied, such as a generator's
        return DataLoader(
            batches,  # pyrefly: ignore[bad-argument-type]  a list is a dataset
            batch_size=None,
            collate_fn=_as_it_is,
            # Its own: iterating a loader without one draws from the global generator.
            generator=torch.Generator().manual_seed(0),
        )
    return found


def _last_batch(loader: DataLoader) -> list[object]:
    """Return the last batch of an epoch, without loading the others; [] where that is a guess."""
    sampler, seen = loader.batch_sampler, BATCHES - 1 + LOOKED_THROUGH
    if not isinstance(sampler, BatchSampler) or len(sampler) <= seen:
        return []
    indices = last_indices(loader)
    return [] if indices is None else [batch_of(loader, indices)]


def last_indices(loader: DataLoader) -> Sequence[int] | None:
    """Return those of the last batch of an epoch; None where that is a guess."""
    sampler = loader.batch_sampler
    if not isinstance(sampler, BatchSampler) or isinstance(loader.dataset, IterableDataset):
        return None
    return deque(sampler, maxlen=1).pop() if 0 < len(sampler) <= INDICES_AT_MOST else None


def batch_of(loader: DataLoader, indices: Sequence[int]) -> object:
    """Load a batch as the loader does: a dataset may give whole ones (`__getitems__`) only."""
    return _MapDatasetFetcher(loader.dataset, True, loader.collate_fn, False).fetch(indices)


def length_of(counted: object) -> int | None:
    """Return the length of a loader or of a dataset; None where it has none, as a stream's."""
    try:
        return len(counted) if isinstance(counted, Sized) else None
    except (TypeError, RuntimeError):  # Lightning's and torch's loaders ask their dataset
        return None


def _as_it_is(batch: object) -> object:
    return batch
