"""Plain data, as a checkpoint that is read as data alone can hold it.

Numbers, texts, bytes, strided tensors, arrays of numbers, moments and spans of time, paths, members
of enumerations, torch's sizes, types and devices, and Python's own containers and namespaces of
such, mappings by any such key, also as Lightning keeps hyperparameters. What torch does not read as
data is held as a mapping of one key that says what it stands for.
"""

import argparse
import collections
import datetime
import enum
import pathlib
import pickle
import random
import re
import sys
import types
from collections.abc import Callable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from lightning_fabric.utilities.data import AttributeDict

from twinrun.containers import holds_plain
from twinrun.errors import TwinrunError

PLAIN = (bool, int, float, str, type(None))
_DEVICES = ("cpu", "cuda", "mps")  # ASSUME that a training has one GPU
_OTHERS = (complex, bytes, bytearray, datetime.timedelta, type(pathlib.Path()))
_MAKERS = (None, list, dict, set, int, float, str, bool)  # of the values of a defaultdict
_MAPPINGS = (collections.OrderedDict, collections.Counter, collections.defaultdict, AttributeDict)
NAMESPACES = (types.SimpleNamespace, argparse.Namespace)
_BY_NAME = {kind.__name__: kind for kind in (*_MAPPINGS, *NAMESPACES)}
_TRIES = 64  # orders in which a set is made anew
ON_GPU, MOMENT, SPAN = "twinrun: a tensor on the GPU", "twinrun: a moment", "twinrun: a span"
PATH, MAPPING, QUEUE, SET, NUMBER = (
    "twinrun: " + kind for kind in ("a path", "a mapping", "a queue", "a set", "NumPy's number")
)
SIZE, OF_TORCH, MEMBER = "twinrun: a size", "twinrun: torch's name", "twinrun: a member"
ARRAY, COMPLEX, BYTES = "twinrun: an array", "twinrun: a complex number", "twinrun: bytes"
NAMESPACE = "twinrun: a namespace"
TRAINED = "twinrun: a tensor that requires a gradient"
_NUMBERS = "biufc"  # their kinds, in NumPy


def is_plain(value: object) -> bool:
    """Say whether a checkpoint can hold a value as data alone, and a copy stands for it."""
    kind = type(value)
    if holds_plain(value) and kind not in (set, frozenset):  # there may be millions
        return True
    if isinstance(value, torch.Tensor):
        is_made_of_others = value.layout is not torch.strided or value.is_nested
        is_made_of_others = is_made_of_others or value.is_quantized
        return kind is torch.Tensor and value.device.type in _DEVICES and not is_made_of_others
    if kind in (*PLAIN, *_OTHERS):
        return True
    if isinstance(value, np.generic):
        return value.dtype.kind in f"{_NUMBERS}US" and value.nbytes > 0
    if kind is np.ndarray:
        return _is_whole(cast(np.ndarray, value))
    if isinstance(value, enum.Enum):
        return _member(_name_of(value)) is value
    if kind is torch.Size or isinstance(value, torch.dtype | torch.device):
        return True
    if isinstance(value, datetime.datetime) and kind is datetime.datetime:
        # Of most zones the text tells the offset alone.
        return value.tzinfo in (None, datetime.UTC) and not value.fold
    if isinstance(value, set | frozenset):
        is_own = kind in (set, frozenset) and all(isinstance(item, PLAIN) for item in value)
        return is_own and _as_put_in(value) is not None
    if kind in NAMESPACES:
        return all(map(is_plain, vars(value).values()))
    if isinstance(value, collections.defaultdict) and value.default_factory not in _MAKERS:
        return False
    if isinstance(value, dict) and kind in (dict, *_MAPPINGS):
        return all(_is_key(k) and is_plain(item) for k, item in value.items())
    return kind in (list, tuple, collections.deque) and all(map(is_plain, cast(list, value)))


def _is_whole(array: np.ndarray) -> bool:
    """Say whether an array of numbers has its own memory, in the order that a copy would have."""
    base = array
    while isinstance(base.base, np.ndarray):
        base = base.base
    is_all = base.flags.owndata and base.nbytes == array.nbytes  # not a part of another one
    flags = array.flags
    is_as_copied = flags.c_contiguous and flags.writeable and flags.aligned
    return is_all and is_as_copied and array.dtype.kind in _NUMBERS


def _is_key(key: object) -> bool:
    """Say whether a checkpoint can hold it as a key of a mapping."""
    return not isinstance(key, torch.Tensor | np.ndarray) and is_plain(key)


def class_in(value: object) -> str:
    """Say of which class is what makes a value no plain data, where it is not the value itself.

    >>> class_in([1, {"a": object()}]), class_in(object())
    (' (it holds an object of class object)', '')
    """
    found = _first_unplain(value)
    return "" if found is value else f" (it holds an object of class {type(found).__name__})"


def _first_unplain(value: object) -> object:
    """Return what of a value is no plain data: itself, or the first that it holds."""
    inside: list[object] = []
    if type(value) in (dict, *_MAPPINGS):
        items = cast(dict[object, object], value).items()
        inside = [part for key, item in items for part in (key, item)]
    elif type(value) in NAMESPACES:
        inside = [*vars(value).values()]
    elif type(value) in (list, tuple, collections.deque):
        inside = [*cast(list, value)]
    unplain = next((item for item in inside if not is_plain(item)), value)
    return unplain if unplain is value else _first_unplain(unplain)


def kept(value: object) -> object:
    """Return a copy of a plain value for a checkpoint: data alone, without a device."""
    if isinstance(value, torch.Tensor):
        if value.requires_grad and value.is_leaf:  # the flag alone is no part of its bytes
            return {TRAINED: kept(value.detach())}
        own = value.detach().clone()
        return own if own.is_cpu else {ON_GPU: own.cpu()}
    if isinstance(value, np.ndarray):
        raw = torch.from_numpy(value.reshape(-1).view(np.uint8).copy())
        return {ARRAY: [value.dtype.str, list(value.shape), raw]}
    if isinstance(value, datetime.datetime):
        return {MOMENT: value.isoformat()}
    if isinstance(value, np.generic):
        return {NUMBER: [value.dtype.str, value.tobytes().hex()]}
    if isinstance(value, enum.Enum):
        return {MEMBER: _name_of(value)}
    if isinstance(value, torch.Size):
        return {SIZE: list(value)}
    if isinstance(value, torch.dtype):
        return {OF_TORCH: str(value).removeprefix("torch.")}
    if isinstance(value, torch.device):
        return {OF_TORCH: {"device": str(value)}}
    if isinstance(value, complex):
        return {COMPLEX: [value.real, value.imag]}
    if isinstance(value, bytes | bytearray):
        return {BYTES: [type(value).__name__, value.decode("latin-1")]}
    if isinstance(value, datetime.timedelta):
        return {SPAN: [value.days, value.seconds, value.microseconds]}
    if isinstance(value, pathlib.Path):
        return {PATH: str(value)}
    if isinstance(value, NAMESPACES):
        return {NAMESPACE: [type(value).__name__, kept(vars(value))]}
    if isinstance(value, dict) and not (
        type(value) is dict and all(type(key) in PLAIN for key in value)
    ):
        made_by = _MAKERS.index(getattr(value, "default_factory", None))
        inside = [[kept(key), kept(item)] for key, item in value.items()]
        return {MAPPING: [type(value).__name__, made_by, inside]}
    if isinstance(value, collections.deque):
        return {QUEUE: [value.maxlen, [kept(item) for item in value]]}
    if isinstance(value, set | frozenset):
        return {SET: [type(value).__name__, _as_put_in(value)]}
    if isinstance(value, dict):
        return {key: kept(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        is_flat = holds_plain(value) and bytes not in map(type, value)
        return type(value)(value if is_flat else map(kept, value))
    return value


def given_back(value: object, device: torch.device) -> Any:
    """Return a copy of what `kept` gave, with the tensors of a GPU on this device."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        if len(value) == 1 and (make := _MAKE.get(next(iter(value)))) is not None:
            (content,) = value.values()
            return make(content, device)
        return {key: given_back(item, device) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(given_back(item, device) for item in value)
    return value


def _as_put_in(value: Set[object]) -> list[object] | None:
    """Find an order in which a set can be made that gives its items in the same order; None if not.

    Of those that share a place in its table, the one that was put in first has it.
    """
    items, shuffled = list(value), random.Random(0)  # noqa: S311
    tried = items
    for _ in range(_TRIES):
        if list(set(tried)) == items:
            return tried
        tried = shuffled.sample(items, len(items))
    return None


def _mapping(content: Any, device: torch.device) -> dict[object, object]:
    name, made_by, inside = content
    items = [(given_back(key, device), given_back(item, device)) for key, item in inside]
    if name == "defaultdict":
        return collections.defaultdict(_MAKERS[made_by], items)
    if name == "dict":
        return dict(items)
    made: Any = _BY_NAME[name]()  # a Counter would count the pairs
    made.update(dict(items))
    return made


def _queue(content: Any, device: torch.device) -> collections.deque[object]:
    most, inside = content
    return collections.deque([given_back(item, device) for item in inside], most)


def _array(content: Any, _: torch.device) -> np.ndarray:
    dtype, shape, raw = content
    return raw.numpy().view(dtype).reshape(shape).copy()


def _name_of(member: enum.Enum) -> list[str | None]:
    return [type(member).__module__, type(member).__qualname__, member._name_]


def _member(name: Sequence[str | None]) -> object:
    """Return the member of an enumeration that this process has of a name; None if it has none."""
    module, path, member = name
    found: object = sys.modules.get(str(module))
    for part in [*str(path).split("."), str(member)]:
        found = getattr(found, part, None)
    return found


def _there(name: Sequence[str | None]) -> object:
    # Its module may be imported by a step that is still to come.
    if (found := _member(name)) is None:
        raise TwinrunError(f"{'.'.join(map(str, name))}, which a checkpoint names, is not there")
    return found


def _of_torch(content: Any, _: torch.device) -> object:
    return torch.device(content["device"]) if isinstance(content, dict) else getattr(torch, content)


_MAKE: dict[object, Callable[[Any, torch.device], object]] = {
    ON_GPU: lambda content, device: content.to(device, copy=True),
    MOMENT: lambda content, _: datetime.datetime.fromisoformat(content),
    SPAN: lambda content, _: datetime.timedelta(*content),
    ARRAY: _array,
    TRAINED: lambda content, device: given_back(content, device).requires_grad_(),
    SIZE: lambda content, _: torch.Size(content),
    OF_TORCH: _of_torch,
    MEMBER: lambda content, _: _there(content),
    COMPLEX: lambda content, _: complex(*content),
    BYTES: lambda content, _: {"bytes": bytes, "bytearray": bytearray}[content[0]](
        content[1], "latin-1"
    ),
    PATH: lambda content, _: pathlib.Path(content),
    NUMBER: lambda content, _: np.frombuffer(bytes.fromhex(content[1]), content[0])[0],
    MAPPING: _mapping,
    QUEUE: _queue,
    NAMESPACE: lambda content, device: _BY_NAME[content[0]](**given_back(content[1], device)),
    SET: lambda content, _: {"set": set, "frozenset": frozenset}[content[0]](content[1]),
}


def as_data(path: Path) -> Mapping[str, Any]:
    """Return a checkpoint of which no tensor is read before it is asked for.

    Raises:
        TwinrunError: if it holds other objects, or what runs code.
    """
    try:
        # With mmap the tensors stay on the disk; without a device those of a GPU would go there.
        return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except (pickle.UnpicklingError, RuntimeError) as error:
        # torch's message has several paragraphs of advice; what matters is the class it met.
        met = re.search(r"GLOBAL (\S+)", str(error))
        what = met.group(1) if met else str(error).split("\n")[0]
        raise TwinrunError(
            f"a callback, optimizer, schedule or module keeps more than data ({what})"
        ) from None
