"""Whether all workers have the same samples, so that an index means one sample.

Looked at is what datasets hold in attributes: to ask one for a sample may draw from a generator of
its own, and so change the training.
"""

from collections.abc import Iterator, Sized
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
import xxhash
from torch.utils._pytree import tree_leaves
from torch.utils.data import Dataset

from twinrun.containers import attributes_of
from twinrun.errors import TwinrunError
from twinrun.parallel.workers import Workers
from twinrun.trace.fingerprints import described

LISTS = (list, tuple, range)
SPREAD = 16
"""At least so many entries of a list or array are looked at, spread evenly over it."""
DEEPEST = 8
"""Datasets and lists in one another are walked so far: one may hold itself."""


def check_same_data(workers: Workers, name: str, loaders: object) -> None:
    """Make sure that loaders have the same samples at all workers, who all must ask.

    Args:
        workers: this worker and the others.
        name: of the hook that made the loaders, for the message.
        loaders: one, or a container of several; None for none.

    Raises:
        TwinrunError: at every worker, if they have not.
    """
    own = dict(_held(tree_leaves(loaders)))
    first, *others = workers.everyones(own)
    for number, other in enumerate(others, 2):
        differing = [key for key in {**first, **other} if first.get(key) != other.get(key)]
        if differing:
            raise TwinrunError(
                f"devices: worker {number} has other data than worker 1 ({name}: {differing[0]}), "
                f"so that they would not train as one process; draw what chooses or makes samples "
                f"by Python's, NumPy's or torch's global generators or from a fixed seed, whatever "
                f"the rank, or train with devices: 1"
            )


def _held(loaders: list[Any]) -> Iterator[tuple[str, str]]:
    """Describe by name what the datasets of loaders hold."""
    for index, loader in enumerate(loaders):
        dataset = getattr(loader, "dataset", None)
        path = f"dataset of loader {index}" if len(loaders) > 1 else "dataset"
        try:
            length = len(cast(Sized, dataset))
        except Exception:  # a user's own may raise anything
            length = None
        yield f"length of {path}", str(length)
        yield from _attributes(dataset, path, 0)


def _attributes(dataset: object, path: str, depth: int) -> Iterator[tuple[str, str]]:
    if not isinstance(dataset, Dataset) or depth > DEEPEST:
        return
    held: dict[str, Any] = attributes_of(dataset)
    for name, value in held.items():
        where = f"{path}.{name}"
        yield from _attributes(value, where, depth + 1)
        if type(value) in LISTS:
            for index, each in enumerate(value[:DEEPEST]):
                yield from _attributes(each, f"{where}[{index}]", depth + 1)
        if type(value) in LISTS or isinstance(value, torch.Tensor | np.ndarray):
            yield where, xxhash.xxh3_64_hexdigest(_described(value, depth).encode())


def _described(value: Any, depth: int) -> str:
    """Write an entry so that another one is other words, as far as it is the same in processes."""
    if isinstance(value, torch.Tensor | np.ndarray):
        try:
            part = value[:: _step(value)] if value.ndim else value
            # The bytes of objects are addresses.
            if isinstance(part, np.ndarray) and part.dtype.kind in "OSUV":
                return f"{value.shape} {_described(part.tolist(), depth)}"
            return f"{tuple(value.shape)} {described(part)}"
        except Exception:  # sparse and nested tensors have no slices; a class of a user's may raise
            return type(value).__name__
    if type(value) in LISTS and depth <= DEEPEST:
        entries = [_described(each, depth + 1) for each in value[:: _step(value)]]
        return f"{len(value)} {entries}"
    if isinstance(value, str | Path):  # the folder of a file may be a worker's own
        return Path(value).name
    return repr(value) if isinstance(value, int | float | bool) else type(value).__name__


def _step(values: Sized) -> int:
    return max(1, len(values) // SPREAD)
