"""What an object holds that shows it in no attribute, and a long container of plain values."""

import collections
import io
import pickle
import sys
import types
from collections.abc import Iterator
from pathlib import PurePath

import xxhash

from twinrun.containers import entries, is_container, is_hidden_iterator
from twinrun.generators import GENERATORS

PLAIN = (bool, int, float, str, bytes, type(None))
MOST_BYTES = 1 << 26  # of an object that is pickled
DEEPEST = 8  # containers inside each other
UNORDERED = (set, frozenset)
_IN_MEMORY = (io.BytesIO, io.StringIO)
# What a function does stands in its code; a path says only where something is.
_OTHERS = (type, types.FunctionType, types.MethodType, types.BuiltinFunctionType, types.ModuleType)
_OTHERS += (types.MethodWrapperType, PurePath, *PLAIN, *UNORDERED, collections.deque, *GENERATORS)


def content_of(value: object) -> str | None:
    """Write down an object of a class of the standard library, or derived from one, as pickle does.

    A date, a pattern, an `itemgetter`, an array, a buffer in memory: each may be written to, or
    exchanged for another one. Nothing is returned of what is no such, of more than 64 MiB, or
    cannot be pickled, as a lock.

    >>> import operator
    >>> content_of(operator.itemgetter(0)) == content_of(operator.itemgetter(1))
    False
    >>> content_of("a text"), content_of(object())
    (None, None)
    """
    is_file = isinstance(value, io.IOBase) and not isinstance(value, _IN_MEMORY)
    if is_file or isinstance(value, _OTHERS) or is_container(value) or is_hidden_iterator(value):
        return None
    bases = [base.__module__.partition(".")[0] for base in type(value).__mro__[:-1]]
    if sys.stdlib_module_names.isdisjoint(bases):
        return None
    try:
        if sys.getsizeof(value) > MOST_BYTES:
            return None
        seen = pickle.dumps(value.tobytes() if isinstance(value, memoryview) else value)
    except Exception:  # of whatever class
        return None
    return f"{type(value).__name__} {xxhash.xxh3_64_hexdigest(seen)}"


def content_of_plain(value: object) -> str | None:
    """Write down a container that holds nothing but plain values, and containers of such.

    Nothing is returned where it holds anything else.

    >>> content_of_plain([1, (2.0, "a")]) == content_of_plain([1, (2.0, "b")])
    False
    >>> content_of_plain([object()]) is None
    True
    """
    content = xxhash.xxh3_64()
    try:
        for text in _texts(value, DEEPEST):
            content.update(text.encode(errors="backslashreplace"))
    except TypeError:
        return None
    return f"{type(value).__name__} {content.hexdigest()}"


def _texts(value: object, deeper: int) -> Iterator[str]:
    """Yield a text for each plain value.

    Raises:
        TypeError: of anything else, or if it lies too deep.
    """
    if type(value) in PLAIN:
        yield f"{value!r},"
        return
    if not deeper:
        raise TypeError(value)
    yield f"{type(value).__name__}("
    if is_container(value):
        for key, item in entries(value):
            yield from _texts(key, 1) if isinstance(value, dict) else ()
            yield from _texts(item, deeper - 1)
    elif isinstance(value, collections.deque):
        for item in value:
            yield from _texts(item, deeper - 1)
    elif isinstance(value, set | frozenset) and type(value) in UNORDERED:
        yield from sorted(text for item in value for text in _texts(item, 0))
    else:
        raise TypeError(value)
    yield ")"
