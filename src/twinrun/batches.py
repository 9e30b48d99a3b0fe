"""What a batch holds: one walk for all who look at batches, move, count or copy them.

torch's pytree knows lists, tuples, dictionaries and what registered itself. Loaders give more:
`UserDict` (Hugging Face's `BatchEncoding`), dataclasses, NumPy arrays. To pytree these are leaves,
whose printed form is shortened (an array of 4,096 numbers shows six) or holds an address. Here
every mapping, sequence, dataclass, set, array, tensor, string and number is walked, and the
attributes that somebody has given to one, or that an object keeps tensors in, as a graph of
torch_geometric does; anything else is opaque, and the answers that rest on the batch say so.
"""

import dataclasses
import numbers
import weakref
from collections import UserDict, UserList, UserString
from collections.abc import Callable, Container, Iterator, Mapping, Sequence, Set

import numpy as np
import torch
from torch.utils import _pytree

from twinrun.containers import has_objects, is_faceless, is_really
from twinrun.generators import undrawn
from twinrun.pandas_values import parts_of
from twinrun.plain_tensors import plain_tensors

PLAIN = (
    *(str, bytes, bytearray, numbers.Number, bool, type(None)),
    *(np.generic, torch.dtype, torch.device),
)
# Attributes by which torch's compiler marks the tensors that it was given, and Python's own.
MARKS = ("_dynamo", "_has_dynamo", "_specialize_on", "__")
LEAVES = (torch.Tensor, np.ndarray, *PLAIN)
PLAIN_READS = {
    None,
    *(kind.__getitem__ for kind in (list, tuple, dict, UserDict, UserList)),
}
BUILT_IN = {str, bytes, int, float, bool, complex, type(None), list, tuple, dict, np.ndarray}


@dataclasses.dataclass(frozen=True)
class Opaque:
    """Stands for an object that the walk cannot look into."""

    kind: str
    """Its class, as `module.name`."""


def leaves(
    batch: object,
    opaque: Callable[[object], object] | None = None,
    without: Container[str] = (),
) -> Iterator[tuple[str, object]]:
    """Yield each leaf with its path: tensors, arrays, plain values, and `Opaque` for the rest.

    The path names keys and types of the containers, so that two batches of unlike structure have
    unlike paths. What is made by `opaque`, if it is given, stands for an object, and for a
    container with attributes of its own. The batch's attributes named `without` are left out.

    >>> [path for path, _ in leaves({"a": [1, 2]})]
    ['dict.a/list.0', 'dict.a/list.1']
    """
    yield from _leaves(batch, "", (), opaque or _opaque, without)


def _leaves(
    value: object,
    path: str,
    above: tuple[int, ...],
    opaque: Callable[[object], object],
    without: Container[str] = (),
) -> Iterator[tuple[str, object]]:
    if is_really(value, Opaque):  # in the place of attributes that cannot be read
        yield path, value
        return
    if is_faceless(value):
        yield path, _opaque(value)
        return
    # Who walks objects walks these, too; a node that knows its parent is walked once, by him.
    if opaque is not _opaque and path and (has_objects(value) or _is_node(value)):
        yield path, opaque(value)
        return
    if type(value) is torch.Tensor and not vars(value):  # the usual leaf, without the questions
        yield path, value
        return
    inside = children(value)
    # A container that holds itself would be walked for ever.
    if inside is None or id(value) in above:
        is_leaf = issubclass(type(value), LEAVES) and id(value) not in above
        yield path, value if is_leaf else opaque(value)
        inside = [] if is_leaf else None
    elif not inside:  # an empty list is not an empty dictionary
        yield path, f"empty {type(value).__name__}"
    if inside is None:
        return
    name = type(value).__name__
    own = attributes(value)
    if without:
        own = [each for each in own if each[0] not in without]
    for key, item in [*inside, *own]:
        inner = f"{path}/{name}.{key}" if path else f"{name}.{key}"
        yield from _leaves(item, inner, (*above, id(value)), opaque)


def _is_node(value: object) -> bool:
    """Say whether it is a container of a class of its own, with attributes beside its items."""
    kind = type(value)
    is_container = issubclass(kind, Mapping | Sequence) and not issubclass(kind, LEAVES)
    return is_container and kind not in BUILT_IN and bool(getattr(value, "__dict__", None))


def _opaque(value: object) -> Opaque:
    return Opaque(f"{type(value).__module__}.{type(value).__qualname__}")


def attributes(value: object) -> list[tuple[str, object]]:
    """Return what somebody has written to an object's attributes, beside what it holds.

    A class of strings, dictionaries or tensors may carry lengths, weights, a mask. Of an object
    that refuses to be looked at there is `Opaque` instead.
    """
    try:
        return _attributes(value)
    except Exception:  # of whatever class: the object is a user's
        return [("<attributes>", _opaque(value))]


def _attributes(value: object) -> list[tuple[str, object]]:
    # None of the built-in types has any, and there may be thousands of numbers in a list.
    if type(value) in BUILT_IN or isinstance(value, np.ma.MaskedArray):
        return []
    # torch's own subclasses (nested, distributed) keep what they are made of in attributes, and so
    # does what registered itself.
    is_torchs = type(value).__module__.split(".")[0] == "torch"
    if is_torchs and type(value) not in (torch.Tensor, torch.nn.Parameter):
        return []
    if is_registered(value) or parts_of(value) is not None:  # or are the caches of pandas
        return []
    found = dict(getattr(value, "__dict__", {}))
    for slots in (vars(base).get("__slots__", ()) for base in type(value).__mro__):
        names = [slots] if isinstance(slots, str) else slots
        found |= {name: getattr(value, name) for name in names if hasattr(value, name)}
    own = {"data"} if isinstance(value, UserDict | UserList | UserString) else set()
    if dataclasses.is_dataclass(value):
        own = {field.name for field in dataclasses.fields(value)}
    return [
        (f"<attribute {name}>", item)
        for name, item in found.items()
        if name not in own and not name.startswith(MARKS) and not is_its_own(value, item)
    ]


def is_its_own(value: object, item: object) -> bool:
    """Say whether an attribute holds what a mapping shows anyway, refers to it, or is a class."""
    if isinstance(item, weakref.ReferenceType | type):
        return True
    if not (isinstance(value, Mapping) and isinstance(item, Mapping)):
        return False
    with undrawn(value):  # see `children`
        keys = list(item.keys())
        return keys == list(value.keys()) and all(item[key] is value[key] for key in keys)


def children(value: object) -> list[tuple[str, object]] | None:
    """Return what a container holds, by name; None for anything else, and where it refuses.

    One that makes what it holds when it is asked, such as an augmented image, may draw random
    numbers for it: the generators, its own too, are put back, and the training draws the same ones.
    """
    makes = getattr(type(value), "__getitem__", None)
    try:
        if makes in PLAIN_READS or issubclass(type(value), LEAVES):
            return _children(value)
        with undrawn(value):
            return _children(value)
    except Exception:  # of whatever class: the object is a user's
        return None


def _children(value: object) -> list[tuple[str, object]] | None:
    if isinstance(value, np.ndarray) and value.dtype.hasobject:
        # Its bytes are addresses: look at the objects.
        return [(f"{value.shape}.{i}", item) for i, item in enumerate(value.ravel().tolist())]
    if isinstance(value, np.ma.MaskedArray):
        return [("data", np.asarray(value.data)), ("mask", np.ma.getmaskarray(value))]
    if issubclass(type(value), LEAVES):
        return None
    if isinstance(value, Mapping):
        # Not by its iteration: that of a TensorDict is over rows.
        return [(_shown(key), value[key]) for key in value.keys()]  # noqa: SIM118
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [
            (field.name, getattr(value, field.name, None)) for field in dataclasses.fields(value)
        ]
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray):
        return [(str(index), value[index]) for index in range(len(value))]
    if isinstance(value, Set):
        # Its order is chance; what it holds is not.
        return [(str(index), item) for index, item in enumerate(sorted(value, key=repr))]
    if isinstance(value, type | torch.nn.Module):  # code, not content
        return None
    if (parts := parts_of(value)) is not None:
        return parts
    # Nothing but its attributes, if they are worth a look.
    return [] if _holds_tensors([item for _, item in attributes(value)]) else None


def _holds_tensors(value: object, deeper: int = 3) -> bool:
    """Say whether there are tensors or arrays in containers that lie in each other."""
    if isinstance(value, torch.Tensor | np.ndarray):
        return True
    if not deeper or not isinstance(value, Mapping | list | tuple):
        return False
    inside = value.values() if isinstance(value, Mapping) else value
    return any(_holds_tensors(item, deeper - 1) for item in inside)


def is_registered(value: object) -> bool:
    """Say whether a class of mappings has told torch's pytree how it is made, as TensorDict has."""
    is_own = isinstance(value, Mapping) and not isinstance(value, dict | UserDict)
    return is_own and type(value) in _pytree.SUPPORTED_NODES


def _shown(key: object) -> str:
    """Write a key so that no other one, and no path of several, is written alike."""
    if isinstance(key, str) and not set(key) & set("<>/"):
        return str(key)
    # An object's own repr is its address, which differs from process to process.
    shown = "" if type(key).__repr__ is object.__repr__ else f" {key!r}"
    return f"<{type(key).__name__}{shown}>"


def tensors(batch: object) -> list[torch.Tensor]:
    """Return the tensors of a batch, in order."""
    return [leaf for _, leaf in leaves(batch) if isinstance(leaf, torch.Tensor)]


def opaque(batch: object) -> list[str]:
    """Name the classes of what cannot be looked into."""
    found = (leaf for _, leaf in leaves(batch))
    return list(dict.fromkeys(leaf.kind for leaf in found if isinstance(leaf, Opaque)))


def num_bytes(batch: object) -> int:
    """Return the bytes of the tensors and arrays of a batch."""
    found = [leaf for _, leaf in leaves(batch)]
    arrays = sum(leaf.nbytes for leaf in found if isinstance(leaf, np.ndarray))
    of_tensors = (plain_tensors(leaf) for leaf in found if isinstance(leaf, torch.Tensor))
    return arrays + sum(part.nbytes for parts in of_tensors for part in parts)


def elements(batch: object) -> int:
    """Return how many numbers and characters a mini-batch has.

    >>> elements({"x": torch.zeros(3, 4), "y": ["ab", "c"], "z": 1.0})
    16
    """
    return sum(_elements(leaf) for _, leaf in leaves(batch))


def _elements(leaf: object) -> int:
    if isinstance(leaf, torch.Tensor):
        return leaf.numel()
    if isinstance(leaf, np.ndarray):
        return leaf.size
    return len(leaf) if isinstance(leaf, str | bytes | bytearray) else 1
