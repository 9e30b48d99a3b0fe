"""What data have made, as bytes that hold data alone, and the same objects made of these again.

Numbers, texts, tensors, arrays, containers, and objects of a user's own that nothing but their
attributes makes. An object that two hold is one again, and so are those that are there already.
"""

import collections
import datetime
import enum
import io
import pathlib
import pickle
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from twinrun.checkpoint.held_arrays import (
    NUMBERS,
    made_array,
    made_dtype,
    made_number,
    made_tensor,
    of_array,
    of_tensor,
)
from twinrun.checkpoint.held_classes import (
    class_of,
    is_named,
    is_own,
    made_member,
    made_object,
    made_tuple,
    name_of,
    state_of,
)
from twinrun.checkpoint.held_memory import Known, Memories, Memory, UnheldError
from twinrun.checkpoint.late_texts import is_temporary

_ATOMS = {bool, int, float, complex, bytes, bytearray, type(None)}
_KEYS = {bool, int, float, complex, str, bytes, type(None)}
_LISTS, _SETS = (list, collections.deque), (set, frozenset)
_DICTS = (dict, collections.OrderedDict, collections.Counter, collections.defaultdict)
_FILLED = (*_LISTS, *_DICTS)
_PATH = type(pathlib.Path())


class Part(NamedTuple):
    """Something that data have made."""

    called: str
    """The attribute that it lies in."""
    keys: tuple[object, ...]
    """Keys and `.attribute`s from there to it."""
    value: object
    """What lies there."""


def held(parts: Sequence[Part], known: Known, most: int = 1 << 26) -> bytes:
    """Write parts down.

    Args:
        parts: them.
        known: what a resumed training has without them.
        most: bytes in all.

    Raises:
        UnheldError: if one holds more than data, or they are too large.
    """
    names, outer, inner = {**known.names}, [], list[object]()
    for turn, (called, keys, value) in enumerate(parts):
        if not all(map(_is_key, keys)):
            raise UnheldError("it lies at a key that is no plain value")
        is_filled = type(value) in _FILLED and not names.get(id(value), "").startswith("#")
        if is_filled:
            names[id(value)] = f"#{turn}"
        outer.append((called, keys, _emptied(value) if is_filled else None, is_filled))
        inner.append(_inside(value) if is_filled else value)
    file, memories = _Bounded(most), Memories(known.memory, most)
    try:
        for each, of in ((outer, known.names), (inner, names)):
            _Writer(file, of, memories).dump(each)
    except UnheldError:
        raise
    except Exception as error:  # of whatever class: an object's own code raises
        raise UnheldError(f"it cannot be written down ({type(error).__name__})") from error
    return file.getvalue()


def made_again(
    raw: bytes, named: Callable[[str], object], there: Callable[[str, tuple[object, ...]], object]
) -> list[Part]:
    """Make parts again; a container that is there is filled.

    Args:
        raw: what `held` returned.
        named: returns what is known by a name.
        there: returns what lies where a part lay.

    Raises:
        Exception: if one cannot be made again.
    """
    file = io.BytesIO(raw)
    outer = _Reader(file, named).load()
    own = dict[str, Any]()
    for turn, (called, keys, empty, is_filled) in enumerate(outer):
        if is_filled:
            found = there(called, keys)
            is_one = type(found) is type(empty) and all(each is not found for each in own.values())
            own[f"#{turn}"] = found if is_one else empty
    inner = _Reader(file, lambda name: own[name] if name in own else named(name)).load()
    made = []
    for turn, (called, keys, _, is_filled) in enumerate(outer):
        if is_filled:
            _fill(own[f"#{turn}"], inner[turn])
        made.append(Part(called, keys, own[f"#{turn}"] if is_filled else inner[turn]))
    return made


def _emptied(value: Any) -> object:
    if isinstance(value, collections.deque):
        return collections.deque(maxlen=value.maxlen)
    if isinstance(value, collections.defaultdict):
        return collections.defaultdict(value.default_factory)
    return type(value)()


def _inside(value: Any) -> list[object]:
    if not isinstance(value, dict):
        return list(value)
    _check_keys(value)
    return list(value.items())


def _check_keys(value: Any) -> None:
    if not _KEYS.issuperset(map(type, value)) and not all(map(_is_key, value)):
        raise UnheldError("it has keys that are no plain values")


def _fill(value: Any, items: list[Any]) -> None:
    value.clear()
    if isinstance(value, dict):
        for key, item in items:
            value[key] = item
    else:
        value.extend(items)


class _Bounded(io.BytesIO):
    """Takes no more bytes than `most`."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def write(self, data: Any) -> int:
        if self.tell() + len(data) > self.most:
            raise UnheldError(f"it takes more than {self.most >> 20} MiB")
        return super().write(data)


class _Writer(pickle.Pickler):
    """Writes what is known by its name, and nothing that runs code."""

    def __init__(self, file: _Bounded, names: Mapping[int, str], memories: Memories) -> None:
        super().__init__(file, protocol=5)
        self._names, self._memories = names, memories

    def persistent_id(self, value: Any) -> str | None:
        kind = type(value)
        if kind in _ATOMS:
            return None
        if kind is str:
            if is_temporary(value):
                raise UnheldError("it names what lies in the folder for temporary files")
            return None
        if (name := self._names.get(id(value))) is not None:
            return name
        if kind in _DICTS:
            _check_keys(value)
        elif kind in _SETS and not (
            _KEYS.issuperset(map(type, value)) and list(kind(list(value))) == list(value)
        ):
            raise UnheldError("it holds a set whose order would be another one")
        return None

    def reducer_override(self, value: Any) -> Any:
        kind = type(value)
        if kind in _AS_THEY_ARE or (kind in (type, types.FunctionType) and _is_allowed(value)):
            return NotImplemented
        if kind is Memory:
            return NotImplemented
        if kind is torch.Tensor:
            return made_tensor, of_tensor(value, self._memories)
        if kind is np.ndarray:
            return made_array, of_array(value, self._memories)
        if isinstance(value, np.generic) and value.dtype.kind in NUMBERS:
            return made_number, (value.dtype.str, value.tobytes())
        if kind is torch.dtype:
            return made_dtype, (str(value).removeprefix("torch."),)
        if kind is _PATH and not is_temporary(str(value)):
            return _path, (str(value),)
        if isinstance(value, enum.Enum) and class_of(*name_of(kind)) is kind:
            return made_member, (*name_of(kind), value.name)
        if is_named(kind):
            return made_tuple, (*name_of(kind), tuple(value))
        if is_own(kind):
            return made_object, name_of(kind), state_of(value)
        raise UnheldError(f"it holds an object of class {kind.__name__}")


class _Reader(pickle.Unpickler):
    """Makes nothing but what `_Writer` writes."""

    def __init__(self, file: io.BytesIO, named: Callable[[str], object]) -> None:
        super().__init__(file)
        self._named = named

    def find_class(self, module: str, name: str) -> Any:
        return _ALLOWED[module, name]

    def persistent_load(self, name: Any) -> object:
        return self._named(name)


def _is_key(key: object) -> bool:
    if type(key) is tuple:
        return all(map(_is_key, key))
    return type(key) in _KEYS or type(key) is _PATH or isinstance(key, np.generic)


def _path(text: str) -> pathlib.Path:
    return pathlib.Path(text)


_AS_THEY_ARE = {*_FILLED, *_SETS, *_ATOMS, tuple, torch.Size, types.SimpleNamespace}
_AS_THEY_ARE |= {datetime.datetime, datetime.date, datetime.timedelta}
_MADE_BY = (
    Memory,
    made_tensor,
    made_array,
    made_number,
    made_dtype,
    _path,
    made_object,
    made_member,
    made_tuple,
    *_AS_THEY_ARE,
    str,
)
_ALLOWED = {(each.__module__, each.__qualname__): each for each in _MADE_BY}


def _is_allowed(value: Any) -> bool:
    return any(value is each for each in _MADE_BY)
