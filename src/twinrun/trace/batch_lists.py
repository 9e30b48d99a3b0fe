"""Whether a list in a batch holds samples, or the columns that a collate function makes of them.

`[["a", 1], ["b", 0]]` holds two samples and `[["a", "b"], [1, 0]]` two columns of as many. Samples
are alike; columns are as long as each other. Where a list may be either, it counts what is usual:
torch's own collate function makes tensors of numbers, and of texts a list of tuples; without one a
batch is a list.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from twinrun.batches import PLAIN, children
from twinrun.plain_tensors import bare

ARRAYS = (torch.Tensor, np.ndarray)
PAIR = 2  # inputs and targets


def holds_samples(items: Sequence[object], *, is_whole: bool) -> bool:
    """Say whether the items of a list or tuple are samples.

    Args:
        items: of the sequence.
        is_whole: whether it is the batch itself; a list of tensors inside of one may be both, which
            its caller finds out by what is beside it.
    """
    # A named tuple has a name for each column.
    if hasattr(items, "_fields"):
        return False
    known = [item for item in items if item is not None]  # such as a missing label
    if len({_kind(item) for item in known}) > 1:
        return False
    if not known:
        return True
    first, is_list = known[0], not isinstance(items, tuple)
    if isinstance(first, ARRAYS):
        return not is_whole or _are_arrays_samples(known, is_list=is_list)
    if isinstance(first, PLAIN):
        return True
    if isinstance(first, Sequence):
        rows = [item for item in known if isinstance(item, Sequence)]
        return _are_lists_samples(rows, is_list=is_list)
    return _are_records_samples(known, is_list=is_list)


def are_more_than_rows(length: int, rows: int) -> bool:
    """Say whether a list of tensors is so long that these are samples, and not columns of rows.

    Many images have three rows each, one for each colour; a few tensors of many rows are columns.
    """
    return length > max(rows, PAIR)


def num_rows(value: object) -> int | None:
    """Return the first dimension of a tensor or array; None for anything else."""
    if isinstance(value, torch.Tensor):
        value = bare(value)
    if not isinstance(value, ARRAYS) or not value.ndim:
        return None
    if isinstance(value, torch.Tensor):
        return None if value.is_quantized else value.size(0)
    return None if value.dtype.hasobject else len(value)


def _kind(value: object) -> str:
    """Name what samples have in common, and columns need not have."""
    if isinstance(value, torch.Tensor | np.ndarray):
        return f"array {value.dtype} {value.ndim}"
    if isinstance(value, bool | int | float | complex | np.number):
        return "number"
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _are_arrays_samples(arrays: Sequence[object], *, is_list: bool) -> bool:
    rows = {num_rows(array) for array in arrays}
    if len(rows) > 1:
        return True
    number = rows.pop()
    return number is None or (is_list and are_more_than_rows(len(arrays), number))


def _are_lists_samples(items: Sequence[Sequence[object]], *, is_list: bool) -> bool:
    """Say whether lists are samples, by what they hold: `[["a", 1], ["b", 0]]`."""
    if len({len(item) for item in items}) > 1:
        return True
    are_alike_within = all(map(_are_alike, items))
    are_alike_across = all(map(_are_alike, zip(*items, strict=True)))
    if are_alike_within != are_alike_across:
        return are_alike_across
    inner = next((value for item in items for value in item if value is not None), None)
    if not is_list:
        return False
    # Columns of numbers would be tensors, and columns of texts tuples.
    is_plain_list = isinstance(items[0], list) and not isinstance(inner, ARRAYS)
    return _kind(inner) == "number" or is_plain_list or len(items) > len(items[0])


def _are_alike(values: Sequence[object]) -> bool:
    return len({_kind(value) for value in values if value is not None}) <= 1


def _are_records_samples(items: Sequence[object], *, is_list: bool) -> bool:
    """Say whether mappings, dataclasses or other objects are samples."""
    keys = [_keys(item) for item in items]
    if is_list:
        # Of no key in common, each is a part of the batch.
        return len(items) == 1 or bool(set.intersection(*keys)) or not any(keys)
    if any(own != keys[0] for own in keys):
        return False
    inside = [value for item in items for _, value in children(item) or []]
    lengths = {
        len(value)
        if isinstance(value, Sequence) and not isinstance(value, PLAIN)
        else num_rows(value)
        for value in inside
    }
    columns = lengths.pop() if len(lengths) == 1 else None
    return columns is None or are_more_than_rows(len(items), columns)


def _keys(item: object) -> set[str]:
    if isinstance(item, Mapping):
        return {str(key) for key in item.keys()}  # noqa: SIM118
    return {name for name, _ in children(item) or []}
