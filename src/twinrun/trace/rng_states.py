"""The states of Python's and NumPy's global random generators, as bytes.

The official calls build a tuple of 625 numbers, and an array number by number: at each step of a
training twice, 0.5 ms in all, which is a tenth of a small step. The generators have the same
numbers in their memory. Where these lie is no promise of anybody's, so that each way to read them
is tried first, once a process, on generators of its own; if it does not give what the official
calls give, these are used.
"""

import ctypes
import functools
import random
import struct
import sys
from typing import Any

import numpy as np
from numpy.random import mtrand

WORDS = 624  # of a Mersenne Twister
KEY = 4 * WORDS
_INT = struct.calcsize("i")
_GAUSS = struct.Struct("id")  # aligned as a compiler aligns them: whether there is one, and which


def python_state() -> bytes:
    """Return the state of `random`: words and position, and the number kept for later."""
    owner = getattr(random.getstate, "__self__", None)
    # Gaussian numbers are drawn in pairs: the second one, kept for later, is state, too.
    if type(owner) is random.Random and _reads_python():
        return _python_words(owner) + repr(owner.gauss_next).encode()  # pyrefly: ignore[missing-attribute]
    _, words, gauss = random.getstate()
    return struct.pack(f"={len(words)}I", *words) + repr(gauss).encode()


def numpy_state() -> bytes:
    """Return the state of `numpy.random`: key, position, and the number kept for later."""
    generator = mtrand._rand
    offset = _offset_of_gauss() if type(generator) is np.random.RandomState else None
    twister = generator._bit_generator
    if offset is None or type(twister) is not np.random.MT19937:
        state = np.random.get_state(legacy=False)
        rest = f"{state['state']['pos']}{state['has_gauss']}{state['gauss']}"
        return state["state"]["key"].tobytes() + rest.encode()
    key, position = _key_of(twister)
    has_gauss, gauss = _gauss_at(generator, offset)
    return key + f"{position}{has_gauss}{gauss}".encode()


def _python_words(generator: random.Random) -> bytes:
    # The object's header, the position, the words; `getstate` has the position last.
    raw = ctypes.string_at(id(generator) + object.__basicsize__, _INT + KEY)
    return raw[_INT:] + raw[:_INT]


@functools.cache
def _reads_python() -> bool:
    """Say whether a generator's memory is what is assumed, by one of known state."""
    if random.Random.__basicsize__ < object.__basicsize__ + _INT + KEY:
        return False
    for draws in (0, 3, 700):
        generator = random.Random(draws)  # noqa: S311
        for _ in range(draws):
            generator.random()
        words = generator.getstate()[1]
        if _python_words(generator) != struct.pack(f"={len(words)}I", *words):
            return False
    return True


def _key_of(twister: Any) -> tuple[bytes, int]:
    raw = ctypes.string_at(twister.ctypes.state_address, KEY + _INT)
    return raw[:KEY], int.from_bytes(raw[KEY:], sys.byteorder)


def _gauss_at(generator: np.random.RandomState, offset: int) -> tuple[int, float]:
    return _GAUSS.unpack(ctypes.string_at(id(generator) + offset, _GAUSS.size))


@functools.cache
def _offset_of_gauss() -> int | None:
    """Find where a generator keeps its number for later; None if not for certain, or no key is."""
    generator = np.random.RandomState(1)
    generator.standard_normal()
    size = type(generator).__basicsize__
    kept = _state_of(generator)[2:]
    offsets = [
        offset
        for offset in range(object.__basicsize__, size - _GAUSS.size + 1, 8)
        if _gauss_at(generator, offset) == kept
    ]
    if len(offsets) != 1 or kept[0] != 1:
        return None
    for seed in (2, 3):
        generator = np.random.RandomState(seed)
        for draws in (0, 1, 2, 700, 1):
            generator.standard_normal(draws)
            found = (*_key_of(generator._bit_generator), *_gauss_at(generator, offsets[0]))
            if found != _state_of(generator):
                return None
    return offsets[0]


def _state_of(generator: np.random.RandomState) -> tuple[bytes, int, int, float]:
    state = generator.get_state(legacy=False)
    of_key = state["state"]
    return of_key["key"].tobytes(), of_key["pos"], state["has_gauss"], state["gauss"]
