"""What of an array's bytes are its values: memory between them holds what lay there before."""

from collections.abc import Iterator

import numpy as np

EXTENDED = 10  # bytes of an x86 long double, which takes 16; of others all are meant
HAS_EXTENDED = np.finfo(np.longdouble).nmant == 63


def value_parts(array: np.ndarray) -> Iterator[np.ndarray]:
    """Yield arrays without such memory, each of the array's shape or more: one for each field.

    >>> pairs = np.zeros(3, np.dtype([("a", "i1"), ("b", "f8")], align=True))
    >>> [part.dtype.name for part in value_parts(pairs)], pairs.itemsize
    (['int8', 'float64'], 16)
    """
    if array.dtype.names is not None:
        for name in array.dtype.names:
            yield from value_parts(array[name])
    elif HAS_EXTENDED and array.dtype.char in "gG" and array.dtype.isnative:
        size = np.dtype(np.longdouble).itemsize
        raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        # A complex one is two of them.
        numbers = array.itemsize // size
        yield raw.reshape(*array.shape, numbers, size)[..., :EXTENDED]
    else:
        yield array


def rows_of(array: np.ndarray) -> np.ndarray:
    """Return the bytes of the values in (N, ...) as (N, B) uint8, a row for each of the first."""
    if not len(array):
        return np.empty((0, 0), np.uint8)
    raw = (np.frombuffer(np.ascontiguousarray(p).tobytes(), np.uint8) for p in value_parts(array))
    rows = [part.reshape(len(array), -1) for part in raw]
    return rows[0] if len(rows) == 1 else np.concatenate(rows, axis=1)
