"""Tables of fingerprints whose columns may grow while the training goes on.

A module may assign a buffer anew (`self.mean = 0.9 * self.mean + ...` makes another tensor), or
replace a layer or add one. So nothing but names is remembered from step to step.
"""

from collections.abc import Mapping, Sequence
from typing import TypeVar

import torch

from twinrun.trace.fingerprints import fingerprint

Found = TypeVar("Found")


def fingerprints_of(tensors: Mapping[str, torch.Tensor]) -> dict[str, int]:
    """Return the fingerprint of each tensor."""
    return {name: fingerprint(tensor) for name, tensor in tensors.items()}


class Columns:
    """The columns of a table, in the order in which their names were first seen."""

    def __init__(self) -> None:
        self._positions: dict[str, int] = {}

    def names(self) -> list[str]:
        """Return all names."""
        return list(self._positions)

    def row(self, values: Mapping[str, Found]) -> list[Found | int]:
        """Return values in the order of the columns, 0 for what is not there; add new columns."""
        for name in values:
            self._positions.setdefault(name, len(self._positions))
        return [values.get(name, 0) for name in self._positions]

    def padded(self, row: Sequence[int]) -> list[int]:
        """Return a row of an earlier step with 0 for what came later."""
        return [*row, *[0] * (len(self._positions) - len(row))]
