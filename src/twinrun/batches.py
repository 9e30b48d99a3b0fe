"""What a batch holds: one walk for all who look at batches, move, count or copy them.

torch's pytree knows lists, tuples, dictionaries and what registered itself. Loaders give more:
`UserDict` (Hugging Face's `BatchEncoding`), dataclasses, NumPy arrays. To pytree these are leaves,
whose printed form is shortened (an array of 4,096 numbers shows six) or holds an address. Here
every mapping, sequence, dataclass, set, array, tensor, string and number is walked; anything else
is opaque, and the answers that rest on the batch say so.
"""

import copy
import dataclasses
import numbers
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence, Set
from typing import TypeVar, cast

import numpy as np
import torch

Batch = TypeVar("Batch")
PLAIN = (
    str,
    bytes,
    bytearray,
    numbers.Number,
    bool,
    type(None),
    np.generic,
    torch.dtype,
    torch.device,
)


@dataclasses.dataclass(frozen=True)
class Opaque:
    """Stands for an object that the walk cannot look into."""

    kind: str
    """Its class, as `module.name`."""


def leaves(batch: object) -> Iterator[tuple[str, object]]:
    """Yield each leaf with its place: tensors, arrays, plain values, and `Opaque` for the rest.

    The place names keys and types of the containers, so that two batches of unlike structure have
    unlike places.

    >>> [place for place, _ in leaves({"a": [1, 2]})]
    ['dict.a/list.0', 'dict.a/list.1']
    """
    yield from _leaves(batch, "", ())


def _leaves(value: object, place: str, above: tuple[int, ...]) -> Iterator[tuple[str, object]]:
    if isinstance(value, (torch.Tensor, np.ndarray, *PLAIN)):
        if isinstance(value, np.ndarray) and value.dtype.hasobject:
            # Its bytes are addresses: look at the objects.
            inside = [(f"{value.shape}.{i}", item) for i, item in enumerate(value.ravel().tolist())]
        else:
            yield place, value
            return
    else:
        found = children(value)
        # A container that holds itself would be walked for ever.
        if found is None or id(value) in above:
            yield place, Opaque(f"{type(value).__module__}.{type(value).__qualname__}")
            return
        inside = found
        if not inside:  # an empty list is not an empty dictionary
            yield place, f"empty {type(value).__name__}"
    name = type(value).__name__
    for key, item in inside:
        path = f"{place}/{name}.{key}" if place else f"{name}.{key}"
        yield from _leaves(item, path, (*above, id(value)))


def children(value: object) -> list[tuple[str, object]] | None:
    """Return what a container holds, by name; None of what is no container that is known."""
    if isinstance(value, Mapping):
        return [(_shown(key), value[key]) for key in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [
            (field.name, getattr(value, field.name, None)) for field in dataclasses.fields(value)
        ]
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray):
        return [(str(index), value[index]) for index in range(len(value))]
    if isinstance(value, Set):
        # Its order is chance; what it holds is not.
        return [(str(index), item) for index, item in enumerate(sorted(value, key=repr))]
    return None


def _shown(key: object) -> str:
    """Write a key so that no other one, and no path of several, is written alike."""
    is_plain = isinstance(key, str) and not set(key) & set("<>/")
    return str(key) if is_plain else f"<{type(key).__name__} {key!r}>"


def tensors(batch: object) -> list[torch.Tensor]:
    """Return the tensors of a batch, in order."""
    return [leaf for _, leaf in leaves(batch) if isinstance(leaf, torch.Tensor)]


def opaque(batch: object) -> list[str]:
    """Name the classes of what cannot be looked into."""
    found = (leaf for _, leaf in leaves(batch))
    return list(dict.fromkeys(leaf.kind for leaf in found if isinstance(leaf, Opaque)))


def num_bytes(batch: object) -> int:
    """Return the bytes of the tensors and arrays of a batch."""
    found = (leaf for _, leaf in leaves(batch))
    return sum(leaf.nbytes for leaf in found if isinstance(leaf, torch.Tensor | np.ndarray))


def with_tensors(batch: Batch, change: Callable[[torch.Tensor], torch.Tensor]) -> Batch:
    """Return a batch of the same structure with each tensor changed; nothing is shared but values.

    Containers are made anew; what cannot be looked into is copied deeply.
    """
    return cast(Batch, _changed(batch, change))


def _changed(value: object, change: Callable[[torch.Tensor], torch.Tensor]) -> object:
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, PLAIN):
        return value
    if isinstance(value, tuple):
        items = [_changed(item, change) for item in value]
        # A named tuple takes its items one by one.
        make: Callable[..., object] = type(value)
        return make(*items) if hasattr(value, "_fields") else make(items)
    if isinstance(value, list):
        # A copy, not a new list: a subclass may have attributes of its own.
        made = copy.copy(value)
        made[:] = [_changed(item, change) for item in value]
        return made
    if isinstance(value, Mapping):
        return _mapping(value, {key: _changed(value[key], change) for key in value})
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        made = copy.copy(value)
        for field in dataclasses.fields(value):
            if hasattr(value, field.name):  # frozen ones refuse an assignment
                item = _changed(getattr(value, field.name), change)
                object.__setattr__(made, field.name, item)
        return made
    return copy.deepcopy(value)


def _mapping(value: Mapping[object, object], items: dict[object, object]) -> object:
    """Return a mapping of the same type with other values."""
    made = copy.copy(value)
    if made is value or not hasattr(made, "__setitem__"):
        return items
    inner = getattr(value, "data", None)
    if isinstance(inner, dict):
        vars(made)["data"] = dict(inner)  # a copied UserDict of some classes shares its data
    writable = cast(MutableMapping[object, object], made)
    for key, item in items.items():
        writable[key] = item
    return made


def copied(batch: Batch) -> Batch:
    """Return a batch that shares no tensor, array or container with the one given."""
    return with_tensors(batch, torch.Tensor.clone)
