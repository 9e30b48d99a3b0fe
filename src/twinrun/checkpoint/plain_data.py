"""Plain data, as a checkpoint that is read as data alone can hold it.

Numbers, texts, strided tensors, moments and spans of time, paths, and Python's own containers of
such. What torch does not read as data is held as a mapping of one key that says what it stands for.
"""

import collections
import datetime
import pathlib
import pickle
import random
import re
from collections.abc import Callable, Mapping, Set
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from twinrun.errors import TwinrunError

PLAIN = (bool, int, float, str, type(None))
_DEVICES = ("cpu", "cuda", "mps")  # ASSUME that a training has one GPU
_MAKERS = (None, list, dict, set, int, float, str, bool)  # of the values of a defaultdict
_MAPPINGS = (collections.OrderedDict, collections.Counter, collections.defaultdict)
_TRIES = 64  # orders in which a set is made anew
ON_GPU, MOMENT, SPAN = "twinrun: a tensor on the GPU", "twinrun: a moment", "twinrun: a span"
PATH, MAPPING, QUEUE, SET, NUMBER = (
    "twinrun: " + kind for kind in ("a path", "a mapping", "a queue", "a set", "NumPy's number")
)
_NUMBERS = "biufc"  # their kinds, in NumPy


def is_plain(value: object) -> bool:
    """Say whether a checkpoint can hold a value as data alone, and a copy stands for it."""
    kind = type(value)
    if isinstance(value, torch.Tensor):
        is_made_of_others = value.layout is not torch.strided or value.is_nested
        is_made_of_others = is_made_of_others or value.is_quantized
        return kind is torch.Tensor and value.device.type in _DEVICES and not is_made_of_others
    if kind in PLAIN or kind in (datetime.timedelta, type(pathlib.Path())):
        return True
    if isinstance(value, np.generic):
        return value.dtype.kind in _NUMBERS
    if isinstance(value, datetime.datetime) and kind is datetime.datetime:
        # Of most zones the text tells the offset alone.
        return value.tzinfo in (None, datetime.UTC) and not value.fold
    if isinstance(value, set | frozenset):
        is_own = kind in (set, frozenset) and all(isinstance(item, PLAIN) for item in value)
        return is_own and _as_put_in(value) is not None
    if isinstance(value, collections.defaultdict) and value.default_factory not in _MAKERS:
        return False
    if isinstance(value, dict) and kind in (dict, *_MAPPINGS):
        return all(isinstance(k, PLAIN) and is_plain(item) for k, item in value.items())
    return kind in (list, tuple, collections.deque) and all(map(is_plain, cast(list, value)))


def kept(value: object) -> object:
    """Return a copy of a plain value for a checkpoint: data alone, without a device."""
    if isinstance(value, torch.Tensor):
        own = value.detach().clone()
        return own if own.is_cpu else {ON_GPU: own.cpu()}
    if isinstance(value, datetime.datetime):
        return {MOMENT: value.isoformat()}
    if isinstance(value, np.generic):
        return {NUMBER: [value.dtype.str, value.tobytes().hex()]}
    if isinstance(value, datetime.timedelta):
        return {SPAN: [value.days, value.seconds, value.microseconds]}
    if isinstance(value, pathlib.Path):
        return {PATH: str(value)}
    if isinstance(value, _MAPPINGS):
        made_by = _MAKERS.index(getattr(value, "default_factory", None))
        inside = [[key, kept(item)] for key, item in value.items()]
        return {MAPPING: [type(value).__name__, made_by, inside]}
    if isinstance(value, collections.deque):
        return {QUEUE: [value.maxlen, [kept(item) for item in value]]}
    if isinstance(value, set | frozenset):
        return {SET: [type(value).__name__, _as_put_in(value)]}
    if isinstance(value, dict):
        return {key: kept(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(kept(item) for item in value)
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
    items = [(key, given_back(item, device)) for key, item in inside]
    if name == "defaultdict":
        return collections.defaultdict(_MAKERS[made_by], items)
    kind: type[dict[object, object]] = getattr(collections, name)
    made = kind()  # a Counter would count the pairs
    made.update(dict(items))
    return made


def _queue(content: Any, device: torch.device) -> collections.deque[object]:
    most, inside = content
    return collections.deque([given_back(item, device) for item in inside], most)


_MAKE: dict[object, Callable[[Any, torch.device], object]] = {
    ON_GPU: lambda content, device: content.to(device, copy=True),
    MOMENT: lambda content, _: datetime.datetime.fromisoformat(content),
    SPAN: lambda content, _: datetime.timedelta(*content),
    PATH: lambda content, _: pathlib.Path(content),
    NUMBER: lambda content, _: np.frombuffer(bytes.fromhex(content[1]), content[0])[0],
    MAPPING: _mapping,
    QUEUE: _queue,
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
            f"a callback, optimizer or module keeps more than data ({what})"
        ) from None
