"""A mini-batch put together of its shards, where that makes what one worker would have been given.

Each worker collates its own shard. A collate function may pad a shard to its longest sample, put
time first, or concatenate what belongs to the samples (points, nodes of graphs). How many samples a
shard holds is known of the sampler. So a tensor is joined along the dimension that has as many
entries in every shard, the first or the second; where the shards of anything do not fit together
so, the mini-batch is not put together.
"""

import copy
from collections import UserDict
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import torch

from twinrun.batches import PLAIN, attributes, leaves
from twinrun.copied_batches import with_tensors
from twinrun.trace.batch_lists import holds_samples
from twinrun.trace.fingerprints import described


class _Apart(Exception):
    """What the shards hold cannot be put together."""


def put_together(shards: Sequence[object], sizes: Sequence[int]) -> tuple[object, bool]:
    """Join the shards of a mini-batch.

    Args:
        shards: of the workers that have one, in their order.
        sizes: how many samples each holds.

    Returns:
        The mini-batch, and that it is the whole one; or else the shards as they are, and that they
        are not.
    """
    try:
        return _joined(shards, sizes, is_whole=True), True
    except _Apart:
        return [*shards], False


def counted_by_lightning(batch: object, sizes: Sequence[int], *, is_whole: bool) -> int:
    """Return what Lightning takes for the size of a mini-batch: the length of its first tensor.

    Args:
        batch: as `put_together` gave it.
        sizes: how many samples each shard holds.
        is_whole: whether it was put together.

    Returns:
        0 if it holds no tensor. Of shards what the whole one's first tensor would have: as many
        steps as the longest where time is first, else as many rows as all of them.
    """
    parts = [batch] if is_whole else cast(Sequence[object], batch)
    found = [
        next((leaf for _, leaf in leaves(part) if isinstance(leaf, torch.Tensor)), None)
        for part in parts
    ]
    tensors = [tensor for tensor in found if tensor is not None]
    if len(tensors) < len(parts):
        return 0
    lengths = [tensor.size(0) if tensor.ndim else 1 for tensor in tensors]
    seconds = [tensor.size(1) if tensor.ndim > 1 else 0 for tensor in tensors]
    # As in `_dimension`: of a matrix of fractions the second dimension is that of features.
    may_be_time = all(tensor.ndim > 2 or not _is_floating(tensor) for tensor in tensors)
    is_time_first = may_be_time and not is_whole and seconds == [*sizes] != lengths
    return max(lengths) if is_time_first else sum(lengths)


def _joined(parts: Sequence[Any], sizes: Sequence[int], *, is_whole: bool = False) -> object:
    first = parts[0]
    if len(parts) == 1:
        return first
    if any(type(part) is not type(first) for part in parts):
        raise _Apart
    if isinstance(first, torch.Tensor):
        return _joined_tensor(parts, sizes)
    if isinstance(first, np.ndarray):
        axis = _dimension(parts, sizes)
        return _same(parts, sizes) if axis is None else np.concatenate(parts, axis=axis)
    if isinstance(first, PLAIN):
        return _same(parts, sizes)
    if type(first) in (list, tuple):
        return _joined_list(parts, sizes, is_whole=is_whole)
    if any(map(attributes, parts)):
        return _joined_object(parts, sizes)
    if isinstance(first, dict | UserDict):
        if any([*part] != [*first] for part in parts):
            raise _Apart
        made = copy.copy(first)
        for key in first:
            made[key] = _joined([part[key] for part in parts], sizes)
        return made
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        make = cast(Callable[..., object], type(first))
        return make(*(_joined(of, sizes) for of in zip(*parts, strict=True)))
    return _joined_object(parts, sizes)


def _joined_tensor(parts: Sequence[torch.Tensor], sizes: Sequence[int]) -> torch.Tensor:
    layouts = {part.layout for part in parts}
    if any(part.is_nested or part.is_quantized or vars(part) for part in parts):
        raise _Apart
    if not layouts <= {torch.strided, torch.sparse_coo} or len({p.dtype for p in parts}) > 1:
        raise _Apart
    dimension = _dimension(parts, sizes)
    if dimension is not None:
        return torch.cat([*parts], dim=dimension)
    if layouts != {torch.strided}:
        raise _Apart
    return cast(torch.Tensor, _same(parts, sizes))


def _dimension(
    parts: Sequence[torch.Tensor] | Sequence[np.ndarray], sizes: Sequence[int]
) -> int | None:
    """Return along which dimension the samples lie; None for neither the first nor the second.

    Raises:
        _Apart: if it may be both.
    """
    shapes = [tuple(part.shape) for part in parts]
    found = [
        d
        for d in (0, 1)
        if all(shape[d : d + 1] == (size,) for shape, size in zip(shapes, sizes, strict=True))
        and len({shape[:d] + shape[d + 1 :] for shape in shapes}) == 1
    ]
    # ASSUME a matrix of fractions has a row for each sample: as many features are no rare thing.
    if len(found) == 2 and (len(shapes[0]) > 2 or not _is_floating(parts[0])):
        raise _Apart
    return found[0] if found else None


def _is_floating(part: torch.Tensor | np.ndarray) -> bool:
    return part.is_floating_point() if isinstance(part, torch.Tensor) else part.dtype.kind == "f"


def _same(parts: Sequence[Any], sizes: Sequence[int]) -> object:
    """Return what is the same in all shards, unless it may count what a shard holds."""
    if len({described(part) for part in parts}) > 1:
        raise _Apart
    first = parts[0]
    # A count of shards of unlike sizes would differ.
    if len({*sizes}) == 1 and not isinstance(first, bool | str | bytes | bytearray | type(None)):
        try:
            is_tensor = isinstance(first, torch.Tensor)
            values = np.asarray(first.detach().resolve_conj().resolve_neg() if is_tensor else first)
            with np.errstate(invalid="ignore"):  # NaN and infinity count nothing
                is_multiple = (values % sizes[0] == 0) & (values != 0)
            may_count = values.dtype.kind != "b" and is_multiple.any()
        except Exception:  # no number, or one that NumPy does not know
            may_count = isinstance(first, torch.Tensor | complex)
        if may_count:
            raise _Apart
    return first


def _joined_list(parts: Sequence[Sequence[Any]], sizes: Sequence[int], *, is_whole: bool) -> object:
    """Join lists or tuples: of samples one behind the other, of columns each by itself."""
    first = parts[0]
    make = tuple if isinstance(first, tuple) else list
    are_samples = [len(part) for part in parts] == [*sizes]
    items = [item for part in parts for item in part]
    if are_samples and (len({*sizes}) > 1 or all(isinstance(i, str | bytes) for i in items)):
        return make(items)
    if any(len(part) != len(first) for part in parts):
        raise _Apart
    may_be_samples = are_samples and holds_samples(items, is_whole=is_whole)
    try:
        columns = make(_joined(of, sizes) for of in zip(*parts, strict=True))
    except _Apart:
        if not may_be_samples:
            raise
        return make(items)
    # As many columns as samples: either may be meant.
    if may_be_samples:
        raise _Apart
    return columns


def _joined_object(parts: Sequence[object], sizes: Sequence[int]) -> object:
    """Join the tensors that objects of other classes hold (graphs, records)."""
    held = [[*leaves(part)] for part in parts]
    if len({tuple(path for path, _ in each) for each in held}) > 1:
        raise _Apart
    made: dict[int, torch.Tensor] = {}
    for of in zip(*held, strict=True):
        values = [leaf for _, leaf in of]
        whole = _joined(values, sizes) if isinstance(values[0], (torch.Tensor, *PLAIN)) else None
        if whole is None and values[0] is not None:  # an array, or what nobody can look into
            raise _Apart
        if isinstance(whole, torch.Tensor):
            # One tensor in several places must be one in all shards.
            known = made.setdefault(id(values[0]), whole)
            if known is not whole and not torch.equal(known, whole):
                raise _Apart
    whole = with_tensors(parts[0], lambda tensor: made.get(id(tensor), tensor))
    # A class may make anew what it holds each time that it is asked.
    if [leaf.shape for _, leaf in leaves(whole) if isinstance(leaf, torch.Tensor)] != [
        made[id(leaf)].shape for _, leaf in held[0] if isinstance(leaf, torch.Tensor)
    ]:
        raise _Apart
    return whole
