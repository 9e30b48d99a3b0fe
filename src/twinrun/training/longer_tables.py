"""Tables that are as long as the longest batch so far, of which each call takes what it needs.

Positions, rotary angles, causal masks. Behind another first batch such a table may be longer in one
of two trainings, and the number beside it that says how long: what both have is the same.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch

from twinrun.trace.fingerprints import fingerprint


def longer_tables(
    one: Mapping[str, object], other: Mapping[str, object], names: Iterable[str]
) -> set[str]:
    """Return which of these are such tables, or say how long one is.

    Args:
        one: what a training holds, by name.
        other: what another one holds.
        names: of values that are not the same in both.
    """
    both = {name: (one[name], other[name]) for name in names if name in one and name in other}
    found: set[str] = set()
    lengths: dict[str, set[tuple[object, object]]] = {}
    for name, (its, others) in both.items():
        if _is_longer(its, others):
            found.add(name)
            sizes = zip(_shape(its), _shape(others), strict=True)
            lengths.setdefault(_holder(name), set()).update(sizes)
    return found | {
        name
        for name, pair in both.items()
        if {type(value) for value in pair} == {int} and pair in lengths.get(_holder(name), ())
    }


def unlike_tables(
    one: Mapping[str, object], other: Mapping[str, object], names: Iterable[str]
) -> set[str]:
    """Return which of these have another shape, and other values as far as both go."""
    return {
        name
        for name in names
        if (name in one and name in other)
        and _is_array(one[name])
        and _is_array(other[name])
        and _shape(one[name]) != _shape(other[name])
        and not _is_longer(one[name], other[name])
    }


def _is_array(value: object) -> bool:
    return isinstance(value, torch.Tensor | np.ndarray)


def _shape(table: Any) -> tuple[int, ...]:
    return tuple(table.shape)


def _holder(name: str) -> str:
    return name.rpartition(".")[0]


def _is_longer(one: object, other: object) -> bool:
    """Say whether one is longer than the other, and both are the same as far as both go."""
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        if one.dtype.hasobject or other.dtype.hasobject or one.dtype != other.dtype:
            return False
        one, other = torch.from_numpy(one), torch.from_numpy(other)
    if not (isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)):
        return False
    is_alike = one.dtype == other.dtype and one.device == other.device and one.ndim == other.ndim
    if not is_alike or one.shape == other.shape or one.is_sparse or other.is_sparse:
        return False
    both = tuple(slice(min(sizes)) for sizes in zip(one.shape, other.shape, strict=True))
    return one[both].numel() > 0 and _bytes(one[both]) == _bytes(other[both])


def _bytes(values: torch.Tensor) -> int:
    return fingerprint(values.detach().contiguous())
