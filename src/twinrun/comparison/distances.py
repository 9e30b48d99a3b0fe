"""How far two tensors of one shape and dtype are apart.

Equal means equal bytes: -0.0 differs from 0.0, and a NaN equals a NaN of the same bits. Distances
are measured on values in float64, those of integers exactly, and by counting the numbers that lie
between two values (units in the last place, ULP). Elements of equal bytes are 0 apart, also where
they are no number; elements of other bytes of which one is infinite or NaN are infinitely far
apart. bfloat16 comes as its uint16 bits, which is why every function that reads values is told the
dtype. Without torch.
"""

import math
from collections.abc import Iterable
from typing import TypedDict

import numpy as np

from twinrun.artifacts import PART
from twinrun.comparison.ulps import bits_of, ulps

LEAST = 1e-290  # of a sum of squares in float64: below it digits are lost


class Distances(TypedDict):
    """How far two tensors are apart."""

    elements: int
    """How many elements each has."""
    elements_differing: int
    """Those of which a byte differs."""
    share: float
    """The share of elements that differ, 0 to 1."""
    max_abs: float
    """The largest |second - first|."""
    max_ulp: int
    """The largest distance in units in the last place."""
    relative_l2: float
    """|second - first| / |first|."""
    equal: bool
    """Whether all bytes are."""


def distances(first: np.ndarray, second: np.ndarray, dtype: str) -> Distances:
    """Measure how far two tensors are apart.

    Args:
        first: of any shape.
        second: of the same.
        dtype: torch's name of their type, such as float32.

    >>> distances(np.float32([1, 2]), np.float32([1, 2.0000002]), "float32")["max_ulp"]
    1
    >>> distances(np.float32([0.0]), np.float32([-0.0]), "float32")["equal"]
    False
    """
    found = Distance(dtype)
    for start in range(0, first.size, PART):
        part = slice(start, start + PART)
        found.add(first.reshape(-1)[part], second.reshape(-1)[part])
    return found.distances()


class Distance:
    """How far two tensors are apart that come in parts."""

    def __init__(self, dtype: str) -> None:
        """Begin with no elements.

        Args:
            dtype: torch's name of their type, such as float32.
        """
        self.squares = np.zeros(2)
        """As of `squares`, of all parts."""
        self.non_finite = [0, 0]
        """Elements of the first and of the second that are infinite or NaN."""
        self._dtype = dtype
        self._elements = self._differing = self._max_ulp = 0
        self._max_abs = 0.0

    def add(self, first: np.ndarray, second: np.ndarray) -> None:
        """Add a part of each, flat and of one length."""
        dtype, differing = self._dtype, int(differing_elements(first, second).sum())
        self._elements += first.size
        # Sums of parts: of tensors with several of them the last digits are not those of one sum.
        self.squares = self.squares + squares(first, second, dtype)
        own, other = (int((~np.isfinite(values(each, dtype))).sum()) for each in (first, second))
        self.non_finite = [self.non_finite[0] + own, self.non_finite[1] + other]
        if differing:
            self._differing += differing
            apart = float(differences(first, second, dtype).max())
            self._max_abs = max(self._max_abs, apart)
            self._max_ulp = max(self._max_ulp, int(ulps(first, second, dtype).max()))

    def distances(self) -> Distances:
        """Return what is known of all parts."""
        return {
            "elements": self._elements,
            "elements_differing": self._differing,
            "share": self._differing / self._elements if self._elements else 0.0,
            "max_abs": self._max_abs,
            "max_ulp": self._max_ulp,
            "relative_l2": float(np.sqrt(relative(*self.squares))),
            "equal": self._differing == 0,
        }


def differing_elements(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Mark the elements whose bytes differ; flat, bool.

    >>> differing_elements(np.float32([0.0, 1.0]), np.float32([-0.0, 1.0])).tolist()
    [True, False]
    """
    return bits_of(first) != bits_of(second)


def differences(first: np.ndarray, second: np.ndarray, dtype: str) -> np.ndarray:
    """Return |second - first|; flat, float64.

    >>> differences(np.float32([1.5, np.nan]), np.float32([1.0, 0.0]), "float32").tolist()
    [0.5, inf]
    """
    if dtype != "bfloat16" and first.dtype.kind in "iub":
        # float64 has not all of them; their difference is rounded, and nothing before it.
        return ulps(first, second, dtype).astype(np.float64)
    # Infinity minus infinity is NaN, and large float64 numbers overflow: both are meant to come
    # out infinite.
    with np.errstate(invalid="ignore", over="ignore"):
        apart = np.abs(values(second, dtype) - values(first, dtype))
    apart[np.isnan(apart)] = np.inf
    # Last, so that two NaNs of the same bits are 0 apart and not infinitely far.
    apart[~differing_elements(first, second)] = 0
    return apart


def squares(first: np.ndarray, second: np.ndarray, dtype: str) -> np.ndarray:
    """Return the squared L2 norms of the difference and of the first's finite elements; (2,).

    >>> squares(np.float64([3.0, 4.0]), np.float64([3.0, 2.0]), "float64").tolist()
    [4.0, 25.0]
    """
    apart, size = differences(first, second, dtype), values(first, dtype)
    # One infinite weight in the size would make every finite distance 0.
    size = size[np.isfinite(size)]
    # Squares, not norms: those of several tensors add up before the root is taken.
    return np.array([_square(apart), _square(size)])


def _square(vector: np.ndarray) -> np.floating | np.ndarray:
    """Return the sum of squares; where float64 is too narrow for it, with a wider exponent."""
    with np.errstate(over="ignore", under="ignore"):
        found = vector @ vector
    if LEAST < found < np.inf or not vector.any():
        return found
    wide = vector.astype(np.longdouble)
    return wide @ wide


def unit_of(values: Iterable[float]) -> float:
    """Return a power of two by which values become so small that a square of them is a number.

    Nothing of them is rounded by it.

    >>> unit_of([0.3, -5.0]), unit_of([0.0]), unit_of([1.7e308]) == 2.0**1023
    (4.0, 0.5, True)
    """
    return math.ldexp(1.0, math.frexp(max(map(abs, values)))[1] - 1)


def relative(distance: np.ndarray | float, size: np.ndarray | float) -> np.ndarray:
    """Divide distances by sizes: 0 for no distance, infinite where only the size is 0.

    >>> relative(np.array([0.0, 1.0, 1.0]), np.array([0.0, 0.0, 4.0])).tolist()
    [0.0, inf, 0.25]
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        # np.where computes both sides: 0 / 0 happens, and is thrown away.
        return np.where(np.equal(distance, 0), 0.0, np.divide(distance, size))


def values(array: np.ndarray, dtype: str) -> np.ndarray:
    """Return the elements; flat, float64.

    >>> values(np.uint16([0x3F80]), "bfloat16").tolist()
    [1.0]
    """
    flat = array.reshape(-1)
    if dtype == "bfloat16":  # the upper half of a float32
        flat = (flat.astype(np.uint32) << 16).view(np.float32)
    # Of integers beyond 2**53 the last digits are lost, which `differences` does without.
    return flat.astype(np.float64)
