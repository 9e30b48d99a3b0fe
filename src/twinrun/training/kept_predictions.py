"""What `predict_step` returned, as tensors by name, so that two runs can be compared in it.

Outputs that are the same kind of tensor in each batch are joined along their first dimension: so
are NumPy arrays and numbers. Of anything else (texts, lists that are as long as their batch) a
fingerprint of each batch is kept, which tells whether it is the same and not how far apart. What no
fingerprint can look into is named. What waits on disk (see `prediction_spool`) is read a batch at a
time.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import torch
from torch.utils._pytree import MappingKey, SequenceKey, tree_flatten_with_path

from twinrun.run_files import FINGERPRINT
from twinrun.trace.fingerprints import fingerprint_batch
from twinrun.training.prediction_spool import Waiting, loaded
from twinrun.training.prediction_trees import form_of, plain_tree, tensor_of
from twinrun.training.tensor_file import Parts

# Names of `Evaluation.missing` that are no output's.
PHASES = ("test", "predict")


def keep(
    loaders: Mapping[str, Sequence[object]],
) -> tuple[dict[str, Parts], dict[str, str]]:
    """Return the outputs by name, and why others are not kept.

    Args:
        loaders: the outputs for each batch, by a prefix that names the loader if there are several.
    """
    kept: dict[str, Parts] = {}
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
        (name or "prediction", values) for name, values in _columns(list(map(plain_tree, batches)))
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


def _joined(values: Sequence[object]) -> dict[str, Parts] | None:
    """Join the tensors of the batches, by what their name ends in; None if they are none."""
    forms = [v.form if isinstance(v, Waiting) else form_of(v) for v in values]
    found = [form for form in forms if form is not None]
    if len(found) < len(forms) or len({(dtype, shape[1:]) for dtype, shape in found}) > 1:
        return None
    dtype, shape = found[0]
    # A prediction without dimensions is one for its batch.
    rows = sum(shape[0] if shape else 1 for _, shape in found)
    whole = (rows, *shape[1:])
    if not dtype.is_complex:
        return {"": Parts(dtype, whole, partial(_tensors, values))}
    # The files have no complex type; and real and imaginary part side by side would look like the
    # scores of two classes.
    return {
        ending: Parts(dtype.to_real(), whole, partial(_real_tensors, values, number))
        for number, ending in enumerate((".real", ".imag"))
    }


def _tensors(values: Sequence[object]) -> Iterator[torch.Tensor]:
    """Yield the tensors of the batches, of which one is held at a time."""
    for value in values:
        tensor = tensor_of(loaded(value))
        assert tensor is not None  # noqa: S101 its form is known
        yield tensor


def _real_tensors(values: Sequence[object], number: int) -> Iterator[torch.Tensor]:
    """Yield the real parts of complex tensors, or the imaginary ones."""
    for tensor in _tensors(values):
        yield torch.view_as_real(tensor.resolve_conj().resolve_neg())[..., number]


def _fingerprints(values: Sequence[object]) -> dict[str, Parts] | str:
    """Return a fingerprint for each batch; why there is none where something is opaque."""
    found = [fingerprint_batch(loaded(value)) for value in values]
    opaque = [kind for _, kinds in found for kind in kinds]
    if opaque:
        return f"predict_step returns a {opaque[0]}, which cannot be looked into"
    digests = np.array([digest for digest, _ in found], dtype=np.uint64)
    found = torch.from_numpy(digests.view(np.int64))
    return {FINGERPRINT: Parts(found.dtype, tuple(found.shape), lambda: iter([found]))}


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
