"""What an object holds that shows it in no attribute, and a long container of plain values."""

import collections
import ctypes
import dataclasses
import io
import itertools
import mmap
import numbers
import pickle
import sys
import types
from collections.abc import Callable
from pathlib import PurePath
from typing import Any, Protocol, TypeGuard

import numpy as np
import torch
import xxhash
from torch.optim import Optimizer

from twinrun.containers import (
    attributes_of,
    entries,
    is_container,
    is_hidden_iterator,
    is_unordered,
)
from twinrun.generators import GENERATORS

PLAIN = (bool, int, float, str, bytes, type(None))
# Of other kinds, as NumPy's, fractions and complex ones: their text says what they are.
NUMBERS = (np.generic, numbers.Number)
MOST_BYTES = 1 << 26  # of an object that is pickled
_BLOCKS = 64  # in how many places of more memory is looked at
DEEPEST = 8  # containers inside each other
CHUNK = 1 << 16  # entries that are written at once
ESCAPED = "backslashreplace"
KINDS = frozenset(PLAIN)
UNORDERED = (set, frozenset)
_FLAT = {list, tuple, dict, collections.deque}
_OF_C = (ctypes._SimpleCData, ctypes.Array, ctypes.Structure, ctypes.Union)
_SHARED = "multiprocessing.sharedctypes"
_POINTS = "PzZOX"  # codes of `ctypes` for what is elsewhere
_IN_MEMORY = (io.BytesIO, io.StringIO)
# Their classes have no state of their own: a dataset of torch's is a `typing.Generic`.
_STATELESS = {"typing", "abc", "collections.abc"}
# What a function does stands in its code; a path says only where something is.
_OTHERS = (type, types.FunctionType, types.MethodType, types.BuiltinFunctionType, types.ModuleType)
_OTHERS += (types.MethodWrapperType, PurePath, *PLAIN, *UNORDERED, collections.deque, *GENERATORS)


class SavesItself(Protocol):
    """Tells its state."""

    def state_dict(self) -> dict[str, Any]:
        """Return all of it."""
        ...


def saves_itself(value: object) -> TypeGuard[SavesItself]:
    """Say whether an object of torch's tells its state: a schedule, a scaler of gradients."""
    kind = type(value)
    methods = (getattr(kind, name, None) for name in ("state_dict", "load_state_dict"))
    is_torchs = kind.__module__.startswith("torch.") and all(map(callable, methods))
    return is_torchs and not issubclass(kind, torch.nn.Module | Optimizer)


def content_of(value: object, *, is_sought: bool = False) -> str | None:
    """Write down an object of a class of the standard library, or derived from one, as pickle does.

    Also NumPy's `SeedSequence`, which counts what it has spawned, a storage of torch and a file
    that is mapped into memory to be written to (of more than 64 MiB a part). A date, a pattern, an
    `itemgetter`, an array, a buffer in memory: each may be written to, or exchanged for another
    one. Nothing is returned of what is no such, of more than 64 MiB, or cannot be pickled, as a
    lock.

    Args:
        value: the object.
        is_sought: whether the place in a buffer in memory is chosen before it is read: it does not
            count then.

    >>> import operator
    >>> content_of(operator.itemgetter(0)) == content_of(operator.itemgetter(1))
    False
    >>> content_of("a text"), content_of(object())
    (None, None)
    """
    if (found := _numbers_of_c(value)) is not None:
        return f"{type(found).__name__} {xxhash.xxh3_64_hexdigest(bytes(found))}"
    if isinstance(value, mmap.mmap | torch.UntypedStorage | torch.TypedStorage):
        return _of_memory(value, is_sought=is_sought)
    is_file = isinstance(value, io.IOBase) and not isinstance(value, _IN_MEMORY)
    if is_file or isinstance(value, _OTHERS) or is_container(value) or is_hidden_iterator(value):
        return None
    bases = {base.__module__ for base in type(value).__mro__[:-1]} - _STATELESS
    is_seed = isinstance(value, np.random.SeedSequence)
    if not is_seed and sys.stdlib_module_names.isdisjoint(each.partition(".")[0] for each in bases):
        return None
    try:
        if sys.getsizeof(value) > MOST_BYTES:
            return None
        if isinstance(value, memoryview):
            seen = pickle.dumps(value.tobytes())
        elif is_sought and isinstance(value, _IN_MEMORY):
            seen = pickle.dumps(value.getvalue())
        else:
            seen = pickle.dumps(value)
    except Exception:  # of whatever class
        return None
    return f"{type(value).__name__} {xxhash.xxh3_64_hexdigest(seen)}"


def _of_memory(value: Any, *, is_sought: bool) -> str | None:
    """Write down memory that may be written to, a part of much; nothing of what is read alone."""
    position = ""
    try:
        if isinstance(value, mmap.mmap):
            position = "" if is_sought else f" {value.tell()}"
            with memoryview(value) as memory:
                seen = None if memory.readonly else _parts_of(memory)
        else:
            storage = value._untyped_storage if isinstance(value, torch.TypedStorage) else value
            held = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
            few = held[:: -(-held.numel() // MOST_BYTES) or 1].cpu().contiguous()
            seen = f"{held.numel()} {_parts_of(few.numpy().data)}"
    except Exception:  # of whatever class: it is closed, say, or has no memory
        return None
    return None if seen is None else f"{type(value).__name__}{position} {seen}"


def _parts_of(memory: memoryview) -> str:
    content, every = xxhash.xxh3_64(), -(-len(memory) // MOST_BYTES) or 1
    size = MOST_BYTES // _BLOCKS if every > 1 else len(memory)
    for start in range(0, len(memory), size * every or 1):
        with memory[start : start + size] as part:
            content.update(part)
    return f"{len(memory)} {content.hexdigest()}"


def is_of_c(value: object) -> bool:
    """Say whether a value is numbers of C's, which processes may share (`multiprocessing.Value`).

    Not what points elsewhere, nor more than 64 MiB.

    >>> is_of_c(ctypes.c_int(1)), is_of_c(ctypes.c_char_p(b"")), is_of_c(1)
    (True, False, False)
    """
    return _numbers_of_c(value) is not None


def _numbers_of_c(value: object) -> Any:
    if type(value).__module__ == _SHARED and not isinstance(value, _OF_C):  # with a lock
        value = attributes_of(value).get("_obj")
    is_one = isinstance(value, _OF_C) and _is_of_numbers(type(value))
    return value if is_one and ctypes.sizeof(value) <= MOST_BYTES else None


def _is_of_numbers(kind: Any) -> bool:
    if issubclass(kind, ctypes._SimpleCData):
        return kind._type_ not in _POINTS
    if issubclass(kind, ctypes.Array):
        return _is_of_numbers(kind._type_)
    return all(_is_of_numbers(field[1]) for field in kind._fields_)


def is_data(value: object, is_users: Callable[[str], bool]) -> bool:
    """Say whether there is more to an attribute than its code: a schedule of one's own, say.

    Args:
        value: of the attribute.
        is_users: says by the name of a module whether it is a user's own.
    """
    is_looked_into = is_users(type(value).__module__) or isinstance(value, torch.nn.Module)
    return is_looked_into or not callable(value) or content_of(value) is not None


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
        found = _inside(value)
        for start in range(0, len(found), CHUNK):
            content.update(_text(found[start : start + CHUNK], DEEPEST).encode(errors=ESCAPED))
    except TypeError:
        return None
    return f"{type(value).__name__} {len(found)} {content.hexdigest()}"


@dataclasses.dataclass(frozen=True)
class Flat:
    """Stands for a container of many plain values, and of nothing else."""

    kind: str
    """Its class."""
    content: str
    """What it holds, in its order."""


def flat(value: object) -> Flat | None:
    """Write down a container of Python's that holds nothing but plain values; None of others.

    Tuples of plain values may be among these: the keys of a tokenizer's merges, rows.

    >>> flat([1, 2]).content == flat((1, 2)).content, flat([1, 2]) == flat([1, 2.0]), flat([[]])
    (True, False, None)
    >>> flat({("a", "b"): 1}) == flat({("a", "b"): 2}), flat([([],)])
    (False, None)
    """
    if type(value) not in _FLAT:
        return None
    found, content = _inside(value), xxhash.xxh3_128()
    tuples = [each for each in found if type(each) is tuple]
    others = {*map(type, found)} - {tuple}
    if not KINDS.issuperset(others | {*map(type, itertools.chain.from_iterable(tuples))}):
        return None
    # Pickled, one text that is there twice is told from two that are alike.
    has_texts = bool(tuples) or not {str, bytes}.isdisjoint(others)
    try:
        for start in range(0, len(found), CHUNK):
            part = found[start : start + CHUNK]
            content.update(repr(part).encode(errors=ESCAPED) if has_texts else pickle.dumps(part))
    except ValueError:  # the text of an integer of thousands of digits
        return None
    return Flat(type(value).__name__, content.hexdigest())


def _text(value: object, deeper: int) -> str:
    """Write a plain value, or a container of such.

    Raises:
        TypeError: of anything else, or if it lies too deep.
    """
    if type(value) in PLAIN:
        return repr(value)
    if not deeper:
        raise TypeError(value)
    found = _inside(value)
    # There may be millions, which are written at once where they are plain.
    is_flat = all(map(KINDS.__contains__, map(type, found)))
    inside = repr(found) if is_flat else ",".join(_text(each, deeper - 1) for each in found)
    return f"{type(value).__name__}({inside})"


def _inside(value: object) -> list[object]:
    if is_container(value):
        if isinstance(value, dict):
            return [*value.keys(), *value.values()]
        return [item for _, item in entries(value)]
    if isinstance(value, collections.deque):
        return list(value)
    if isinstance(value, set | frozenset):
        return sorted(value, key=repr)
    raise TypeError(value)


def shallow(value: object, deeper: int = 2) -> str:
    """Write down the plain values in an object of a set, so far that others are told from it."""
    # ASSUME objects that are alike so far are alike: else two processes may take another order,
    # and a checkpoint is refused.
    if type(value) in KINDS:
        return repr(value)
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if isinstance(value, torch.Tensor | np.ndarray):
        return f"{kind} {tuple(value.shape)}"
    if not deeper:
        return kind
    if is_unordered(value):
        inside = sorted(shallow(item, deeper - 1) for item in value)
    elif is_container(value):
        inside = [shallow(item, deeper - 1) for _, item in entries(value)]
    else:
        own = attributes_of(value)
        inside = [f"{name} {shallow(item, deeper - 1)}" for name, item in own.items()]
    return f"{kind}({', '.join(inside)})"
