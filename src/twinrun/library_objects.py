"""What is looked at of the objects of torch, NumPy and Lightning that lie in an attribute.

A sequence that draws collocation points, a distribution, a dataset: what they hold is a training's
own. Others count as they go (a profiler, a writer of logs), and Lightning's know all of it.
"""

import inspect
from collections.abc import Container

import torch
from torch.distributions.utils import lazy_property
from torch.utils.data import DataLoader, Dataset

_LIGHTNINGS = ("pytorch_lightning.", "lightning.", "lightning_fabric.")
_COUNTING = ("torch.", "numpy.")
LIBRARIES = (*_COUNTING, *_LIGHTNINGS, "builtins.", "collections.")
# These hold what a user has given them, and change by nothing else than by what they are for.
_WHOLE = ("torch.utils.data.", "torch.distributions.", "torch.quasirandom.")
_OF_TRANSFORMS = ("_inv", "_cached_x_y")  # what they keep of the last call
_OF_LOADERS = ("dataset", "sampler", "batch_sampler")


def attributes_walked(value: object, found: dict[str, object]) -> dict[str, object]:
    """Return those attributes that are looked at, of what is no network and no optimizer.

    Args:
        value: the object.
        found: all that it has; of a loader its data and in which order they come are looked at.
    """
    kind = type(value)
    module = f"{kind.__module__}."
    if isinstance(value, DataLoader) and module.startswith(LIBRARIES):
        return {name: found[name] for name in _OF_LOADERS}
    if module.startswith(_LIGHTNINGS) and not isinstance(value, Dataset):
        return {}
    if isinstance(value, torch.distributions.Transform):
        computed = list(_OF_TRANSFORMS)
    else:
        # What is computed where it is first asked for follows from the one that was given.
        computed = [name for name in found if _is_lazy(kind, name)][1:]
    return {name: item for name, item in found.items() if name not in computed}


def _is_lazy(kind: type, name: str) -> bool:
    # To ask takes a while, and there are thousands of objects that are no distributions.
    is_distribution = issubclass(kind, torch.distributions.Distribution)
    return is_distribution and isinstance(inspect.getattr_static(kind, name, None), lazy_property)


def is_counting(kind: type, *, is_around: bool) -> bool:
    """Say whether of an object tensors, arrays and generators alone are looked at.

    Args:
        kind: its class, of a library.
        is_around: whether the object is so that holds this one.

    >>> is_counting(torch.utils.data.TensorDataset, is_around=True)
    False
    >>> is_counting(torch.Generator, is_around=False), is_counting(DataLoader, is_around=False)
    (True, False)
    """
    module = f"{kind.__module__}."
    if module.startswith(_WHOLE):
        return False
    return is_around or module.startswith(_COUNTING)


def as_view(leaf: object, held: Container[int]) -> object:
    """Return which part of a held tensor another one shows, in words; else this itself.

    A distribution of parameters shows them expanded: it changes as they do.
    """
    base = leaf._base if isinstance(leaf, torch.Tensor) else None
    if not isinstance(leaf, torch.Tensor) or base is None:
        return leaf
    if id(base) not in held or _memory(leaf) != _memory(base):
        return leaf
    return f"a view {tuple(leaf.shape)} {leaf.stride()} {leaf.storage_offset()}"


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
