"""A training loader whose mini-batches are cut into micro-batches.

A sample is a row of every tensor. What cannot be cut so is refused by name.
"""

import itertools
from collections.abc import Iterator
from contextlib import suppress

import torch
from torch.utils.data import DataLoader

from twinrun.batches import leaves, tensors
from twinrun.copied_batches import with_tensors
from twinrun.errors import TwinrunError
from twinrun.parallel.batch_sharding import shards
from twinrun.parallel.drawn_in_steps import DrawnInSteps


class MicroBatches:
    """Stands in for a training loader: yields each of its mini-batches in micro-batches."""

    def __init__(self, loader: DataLoader, number: int, drawn: DrawnInSteps) -> None:
        self.whole: object = None
        """The mini-batch under way."""
        self.size = self.shard = 1
        """Samples of it, and of the micro-batch under way."""
        self.part = 0
        """Which micro-batch of it is under way, from 0."""
        self.is_computed = False
        """Whether a training step has computed the micro-batch under way."""
        self.loss: torch.Tensor | None = None
        """Sum of the losses of the mini-batch's micro-batches so far, as they are weighted."""
        # Where Lightning looks for `set_epoch`.
        self.sampler, self.batch_sampler = loader.sampler, loader.batch_sampler
        self.is_to_be_checked = False
        """Whether Lightning is about to ask for an iterator only to see that there is one."""
        self._loader, self._number, self._drawn = loader, number, drawn

    @property
    def number(self) -> int:
        """The micro-batches of a mini-batch."""
        return self._number

    @property
    def factor(self) -> float:
        """By how much the micro-batch counts more than an equal one: m_j / M x their number."""
        # Lightning divides each loss by accumulate_grad_batches; what is left is m_j / M.
        return self._number * self.shard / self.size

    @property
    def is_last(self) -> bool:
        """Whether the micro-batch under way is the last one of its mini-batch."""
        return self.part == self._number - 1

    def __len__(self) -> int:
        # Lightning takes the batches of an epoch from it (`num_training_batches`).
        return len(self._loader) * self._number

    def __iter__(self) -> Iterator[object]:
        if self.is_to_be_checked:
            self.is_to_be_checked = False
            return iter(())
        # Begun now, since a loader draws where its iterator is made.
        with self._drawn.data(data_workers=self._loader.num_workers):
            batches = iter(self._loader)
        return self._parts(batches)

    def _parts(self, batches: Iterator[object]) -> Iterator[object]:
        for number in itertools.count():
            with self._drawn.data(number=number):
                whole = next(batches, self)
            if whole is self:  # which no loader gives
                return
            self.whole, self.size, self.loss = whole, _size(whole), None
            # A micro-batch of no samples has no mean.
            if self.size < self._number:
                raise not_cut(
                    f"a mini-batch of {self.size} is not enough for {self._number} micro-batches"
                )
            start = 0
            for part, shard in enumerate(shards(self.size, self._number)):
                self.part, self.shard, self.is_computed = part, shard, False
                yield _cut(whole, start, start + shard)
                start += shard


def _size(batch: object) -> int:
    """Return the samples of a mini-batch: the length that all its tensors share."""
    found = [leaf for _, leaf in leaves(batch)]
    others = [type(leaf).__name__ for leaf in found if not isinstance(leaf, torch.Tensor)]
    if others:
        raise not_cut(f"a mini-batch holds a {others[0]}, where tensors are needed")
    # ASSUME a sample is one row of every tensor.
    lengths = {len(tensor) if tensor.ndim else 0 for tensor in tensors(batch)}
    if len(lengths) != 1:
        raise not_cut(f"a mini-batch holds tensors of {len(lengths)} lengths")
    return lengths.pop()


def _cut(batch: object, start: int, end: int) -> object:
    return with_tensors(batch, lambda tensor: tensor[start:end])


def without_length(loader: object) -> str | None:
    """Say that a training loader has no length, so that mini-batches cannot be cut."""
    with suppress(Exception):  # of whatever class: it may be a user's
        if isinstance(loader, DataLoader) and hasattr(loader.dataset, "__len__"):
            len(loader)  # of its sampler
            return None
    kind = type(loader).__name__
    return f"train_dataloader gives a {kind}, where a torch DataLoader with a length is needed"


def not_cut(why: str) -> TwinrunError:
    """Return the error that says why mini-batches cannot be cut."""
    return TwinrunError(f"accumulate: {why}; say accumulate: 1")


def computed_again(optimizer: torch.optim.Optimizer) -> TwinrunError:
    """Return the error that refuses an optimizer which calls its closure several times."""
    return TwinrunError(
        f"accumulate: {type(optimizer).__name__} computes the gradients of a step several times, "
        f"which would be those of the last micro-batch alone; say accumulate: 1, or take an "
        f"optimizer that computes them once"
    )
