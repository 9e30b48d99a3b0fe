"""What `predict_step` returned for a batch: as plain containers, and each leaf as a tensor."""

import dataclasses
import numbers
from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
import torch

from twinrun.batches import attributes
from twinrun.plain_tensors import bare
from twinrun.trace.fingerprints import is_plain
from twinrun.training.unsupported import DTYPES

# Types that torch has and few of its functions take: as the nearest one that holds every value.
WIDER = {torch.uint16: torch.int32, torch.uint32: torch.int64}

Form: TypeAlias = tuple[torch.dtype, tuple[int, ...]]
"""Type and shape of a tensor."""


def form_of(value: object) -> Form | None:
    """Return type and shape of `tensor_of`; None where there is none."""
    tensor = tensor_of(value)
    return None if tensor is None else (tensor.dtype, tuple(tensor.shape))


def tensor_of(value: object) -> torch.Tensor | None:
    """Return an output as a tensor that can be written; None for anything else."""
    if isinstance(value, np.ma.MaskedArray):
        return None  # its mask would be lost
    if isinstance(value, np.ndarray | np.generic | numbers.Number):
        try:
            value = torch.from_numpy(np.array(value))
        except (TypeError, ValueError, OverflowError):  # objects, texts, dates, large integers
            return None
    if not isinstance(value, torch.Tensor) or not is_plain(value):
        return None
    value = bare(value)
    value = value.to(WIDER.get(value.dtype, value.dtype))
    return value if value.dtype in DTYPES or value.is_complex() else None


def plain_tree(tree: object) -> object:
    """Make dictionaries of what torch's pytree would not see into.

    These are other mappings, dataclasses and named tuples, also those that hold such.
    """
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type) and not attributes(tree):
        tree = {f.name: getattr(tree, f.name, None) for f in dataclasses.fields(tree)}
    elif isinstance(tree, tuple) and hasattr(tree, "_asdict"):
        tree = tree._asdict()
    if isinstance(tree, Mapping):
        # 1 and "1" are two keys.
        return {
            f"{key} ({type(key).__name__})"
            if not isinstance(key, str) and str(key) in tree
            else str(key): plain_tree(value)
            for key, value in tree.items()
        }
    if type(tree) is list:
        return [plain_tree(value) for value in tree]
    return tuple(plain_tree(value) for value in tree) if type(tree) is tuple else tree
