"""What `predict_step` returned, as tensors by name, so that two runs can be compared in it.

Outputs that are the same kind of tensor in each batch are joined along their first dimension: so
are NumPy arrays and numbers. Of anything else (texts, lists that are as long as their batch) a
fingerprint of each batch is kept, which tells whether it is the same and not how far apart. What no
fingerprint can look into is named.
"""

import dataclasses
import itertools
import numbers
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch
from torch.utils._pytree import MappingKey, SequenceKey, tree_flatten_with_path

from twinrun.batches import attributes
from twinrun.plain_tensors import bare
from twinrun.run_files import FINGERPRINT
from twinrun.trace.fingerprints import fingerprint_batch, is_plain
from twinrun.training.unsupported import DTYPES

# Types that torch has and few of its functions take: as the nearest one that holds every value.
WIDER = {torch.uint16: torch.int32, torch.uint32: torch.int64}
# Names of `Evaluation.missing` that are no output's.
PHASES = ("test", "predict")


def keep(
    loaders: Mapping[str, Sequence[object]],
) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """Return the outputs by name, and why others are not kept.

    Args:
        loaders: the outputs for each batch, by a prefix that names the loader if there are several.
    """
    kept: dict[str, torch.Tensor] = {}
    missing: dict[str, str] = {}
    for prefix, batches in loaders.items():
        for name, values in _outputs(batches):
            found = _joined(values)
            if found is None:
                found = _fingerprints(values)
            if isinstance(found, str):
                missing[_free(prefix + name, {*missing, *PHASES})] = found
                continue
            for ending, tensor in found.items():
                kept[_free(prefix + name + ending, kept)] = tensor
    return kept, missing


def _outputs(batches: Sequence[object]) -> list[tuple[str, list[object]]]:
    """Return each leaf of the outputs by name, with its value in every batch."""
    if not batches:
        return []
    found = [
        (name or "prediction", values) for name, values in _columns(list(map(_plain, batches)))
    ]
    # Nothing in each batch is nothing to keep; another run may predict something under this name.
    return [(name, values) for name, values in found if any(v is not None for v in values)]


def _columns(trees: list[object]) -> Iterator[tuple[str, list[object]]]:
    """Yield each part that all batches have, with its path and its value in every batch."""
    flattened = [tree_flatten_with_path(tree) for tree in trees]
    if all(structure == flattened[0][1] for _, structure in flattened):
        for column in zip(*(leaves for leaves, _ in flattened), strict=True):
            yield _name(column[0][0]), [value for _, value in column]
        return
    # As with a list of one entry a sample, whose last batch is shorter: what stands beside it need
    # not be as it is.
    inside = [_inside(tree) for tree in trees]
    if any(held is None or held.keys() != (inside[0] or {}).keys() for held in inside):
        yield "", trees
        return
    for key in inside[0] or {}:
        for name, values in _columns([held[key] for held in inside if held is not None]):
            yield f"{key}.{name}" if name else str(key), values


def _inside(tree: object) -> dict[object, object] | None:
    """Return what a plain container holds; None for anything else."""
    if type(tree) is dict:
        return tree
    return dict(enumerate(tree)) if isinstance(tree, list | tuple) else None


def _joined(values: Sequence[object]) -> dict[str, torch.Tensor] | None:
    """Join the tensors of the batches, by what their name ends in; None if they are none."""
    tensors = [tensor for value in values if (tensor := _tensor(value)) is not None]
    if len(tensors) < len(values):
        return None
    if len({(tensor.dtype, tensor.shape[1:]) for tensor in tensors}) > 1:
        return None
    # A prediction without dimensions is one for its batch.
    joined = torch.cat([t.reshape(1) if not t.ndim else t for t in tensors])
    if not joined.is_complex():
        return {"": joined}
    # The files have no complex type; and real and imaginary part side by side would look like the
    # scores of two classes.
    parts = torch.view_as_real(joined.resolve_conj())
    return {".real": parts[..., 0], ".imag": parts[..., 1]}


def _tensor(value: object) -> torch.Tensor | None:
    """Return an output as a tensor that can be written; None for anything else."""
    if isinstance(value, np.ma.MaskedArray):
        return None  # its mask would be lost
    if isinstance(value, np.ndarray | np.generic | numbers.Number):
        try:
            value = torch.from_numpy(np.array(value))
        except (TypeError, ValueError, OverflowError):  # objects, texts, dates, large integers
            return None
    if not isinstance(value, torch.Tensor) or not is_plain(value):
        return None
    value = bare(value)
    value = value.to(WIDER.get(value.dtype, value.dtype))
    return value if value.dtype in DTYPES or value.is_complex() else None


def _fingerprints(values: Sequence[object]) -> dict[str, torch.Tensor] | str:
    """Return a fingerprint for each batch; why there is none where something is opaque."""
    found = [fingerprint_batch(value) for value in values]
    opaque = [kind for _, kinds in found for kind in kinds]
    if opaque:
        return f"predict_step returns a {opaque[0]}, which cannot be looked into"
    digests = np.array([digest for digest, _ in found], dtype=np.uint64)
    return {FINGERPRINT: torch.from_numpy(digests.view(np.int64))}


def _plain(tree: object) -> object:
    """Make dictionaries of what torch's pytree would not see into.

    These are other mappings, dataclasses and named tuples, also those that hold such.
    """
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type) and not attributes(tree):
        tree = {f.name: getattr(tree, f.name, None) for f in dataclasses.fields(tree)}
    elif isinstance(tree, tuple) and hasattr(tree, "_asdict"):
        tree = tree._asdict()
    if isinstance(tree, Mapping):
        # 1 and "1" are two keys.
        return {
            f"{key} ({type(key).__name__})"
            if not isinstance(key, str) and str(key) in tree
            else str(key): _plain(value)
            for key, value in tree.items()
        }
    if type(tree) is list:
        return [_plain(value) for value in tree]
    return tuple(_plain(value) for value in tree) if type(tree) is tuple else tree


def _name(path: Sequence[object]) -> str:
    """Write a leaf's path as a name: `boxes.0` for `['boxes'][0]`.

    >>> _name([MappingKey("boxes"), SequenceKey(0)])
    'boxes.0'
    """
    steps = (
        str(step.key)
        if isinstance(step, MappingKey)
        else str(step.idx)
        if isinstance(step, SequenceKey)
        else str(step).strip(".[]")
        for step in path
    )
    return ".".join(steps)


def _free(name: str, taken: Mapping[str, object] | set[str]) -> str:
    """Number a name that another output has: {"a.b": ...} and {"a": {"b": ...}} are two."""
    names = itertools.chain([name], (f"{name} ({number})" for number in itertools.count(2)))
    return next(name for name in names if name not in taken)
