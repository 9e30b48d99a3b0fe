"""Count units in the last place (ULP): the numbers that lie between two values of one type.

Equal means equal bytes: every bit pattern has its rank, so that -0.0 and 0.0 are one step apart.
bfloat16 comes as its uint16 bits, which is why every function is told the dtype. Without torch.
"""

import numpy as np

MOST_ULP = 1_000_000  # that is said: beyond it a distance says nothing of rounding


def ulps(first: np.ndarray, second: np.ndarray, dtype: str) -> np.ndarray:
    """Count the steps from one value to the other through all numbers of the type; flat, uint64.

    Every bit pattern has its rank, so that only equal bytes are 0 apart: -0.0 and 0.0 are one
    step apart, infinity follows the largest finite number, and NaNs follow it in the order of their
    bits, on the side of their sign. For integers it is the absolute difference.

    >>> ulps(np.float32([-0.0]), np.float32([0.0]), "float32").tolist()
    [1]
    >>> ulps(np.float64([1.0]), np.nextafter([1.0], 2), "float64").tolist()
    [1]
    """
    left, right = (_ranks(array, dtype) for array in (first, second))
    # The smaller from the larger: unsigned numbers wrap below 0.
    return np.maximum(left, right) - np.minimum(left, right)


def bits_of(array: np.ndarray) -> np.ndarray:
    """Return the elements' bits; flat, unsigned."""
    # `view` needs the bytes of neighbours side by side.
    flat = np.ascontiguousarray(array).reshape(-1)
    return flat.view(f"u{flat.dtype.itemsize}")


def _ranks(array: np.ndarray, dtype: str) -> np.ndarray:
    """Number the values of a type in their order; flat, uint64."""
    if dtype == "bfloat16" or np.issubdtype(array.dtype, np.floating):
        bits, size = bits_of(array).astype(np.uint64), 8 * array.dtype.itemsize
        # `every` is as wide as the type: ~bits would set the upper bits of a uint64 too.
        sign, every = np.uint64(2 ** (size - 1)), np.uint64(2**size - 1)
        # The magnitude of a negative number grows with its bits, so these are turned around.
        return np.where(bits & sign, bits ^ every, bits | sign)
    if np.issubdtype(array.dtype, np.signedinteger):
        # In two's complement the flipped sign bit puts negative numbers before the others.
        return array.reshape(-1).astype(np.int64).view(np.uint64) ^ np.uint64(2**63)
    return array.reshape(-1).astype(np.uint64)
