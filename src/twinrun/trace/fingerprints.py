"""Fingerprints: xxh3_64 over the bytes of tensors, batches, samples, optimizers, random streams.

A fingerprint sees a swap of two values, the sign of a zero and any flipped bits (64 bits: two
different tensors share one with probability 5e-20). Taking one reads only: no random number is
drawn and no tensor is changed. What lies on a GPU is copied to the host.
"""

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import xxhash
from torch.utils._pytree import tree_flatten


def fingerprint(tensor: torch.Tensor | None) -> int:
    """Give the xxh3_64 of a tensor's bytes; of None (no gradient), 0.

    Sparse tensors count by their indices and values.
    """
    if tensor is None:
        return 0
    if tensor.layout is not torch.strided:
        tensor = tensor.coalesce()
        return join([fingerprint(tensor.indices()), fingerprint(tensor.values())])
    try:
        # As `_bytes`, but in one call: a step of many small tensors takes hundreds of them.
        elements = np.ascontiguousarray(tensor.numpy(force=True))
    except TypeError:  # bfloat16 and others that NumPy does not have
        elements = _bytes(tensor)
    return xxhash.xxh3_64_intdigest(elements)


def fingerprint_tree(tree: Any) -> int:
    """Give one fingerprint of nested tensors and plain values, in order, with types and shapes."""
    leaves, structure = tree_flatten(tree)
    digest = xxhash.xxh3_64(str(structure).encode())
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor):
            digest.update(f"{leaf.dtype}{tuple(leaf.shape)}{fingerprint(leaf)}".encode())
        else:
            digest.update(repr(leaf).encode())
    return digest.intdigest()


def fingerprint_samples(batch: Any) -> np.ndarray:
    """Give a fingerprint of each of a batch's N samples, (N,) uint64, whatever their places.

    ASSUME a sample is one row of every tensor whose first dimension is that of the batch's first
    tensor; what else the batch holds belongs to no sample.
    """
    tensors = [leaf for leaf in tree_flatten(batch)[0] if _has_rows(leaf)]
    if not tensors:
        return np.empty(0, dtype=np.uint64)
    size = len(tensors[0])
    parts = [_bytes(t).reshape(size, -1) for t in tensors if len(t) == size and t.numel()]
    rows = np.concatenate(parts, axis=1) if parts else np.empty((0, 0), dtype=np.uint8)
    return np.fromiter(map(xxhash.xxh3_64_intdigest, rows), dtype=np.uint64, count=len(rows))


# Settings of an optimizer that say how it computes, not what: the state shows whether they matter.
OPTIMIZER_FORMS = ("foreach", "fused", "capturable", "differentiable")


def fingerprint_optimizers(
    optimizers: Sequence[torch.optim.Optimizer], parameters: Sequence[torch.Tensor]
) -> tuple[list[int], int]:
    """Give a fingerprint of the state of each parameter, and one of the optimizers' settings."""
    states = [0] * len(parameters)
    for optimizer in optimizers:
        for place, parameter in enumerate(parameters):
            if parameter in optimizer.state:
                values = optimizer.state[parameter].values()
                states[place] = join([states[place], *map(_fingerprint_value, values)])
    groups = [group for optimizer in optimizers for group in optimizer.param_groups]
    left_out = {"params", *OPTIMIZER_FORMS}
    settings = [{k: v for k, v in group.items() if k not in left_out} for group in groups]
    return states, fingerprint_tree(settings)


def fingerprint_streams(cuda: bool) -> dict[str, int]:
    """Give a fingerprint of the state of each global random generator, by its name.

    Args:
        cuda: include the generators of the CUDA devices; asking for them starts CUDA.
    """
    _, words, gauss = random.getstate()
    numpy = np.random.get_state(legacy=False)
    key = numpy["state"]["key"].tobytes()
    rest = f"{numpy['state']['pos']}{numpy['has_gauss']}{numpy['gauss']}"
    python = np.array(words, dtype=np.uint32).tobytes() + repr(gauss).encode()
    found = {
        "python": xxhash.xxh3_64_intdigest(python),
        "numpy": xxhash.xxh3_64_intdigest(key + rest.encode()),
        "torch": fingerprint(torch.get_rng_state()),
    }
    if cuda:
        states = enumerate(torch.cuda.get_rng_state_all())
        found |= {f"cuda:{index}": fingerprint(state) for index, state in states}
    return found


def join(values: Sequence[int]) -> int:
    """Make one fingerprint of several, in order."""
    return xxhash.xxh3_64_intdigest(np.array(values, dtype=np.uint64).tobytes())


def hexadecimal(value: int) -> str:
    """Write a fingerprint as 16 digits."""
    return f"{value:016x}"


def _has_rows(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.ndim > 0 and leaf.layout is torch.strided


def _bytes(tensor: torch.Tensor) -> np.ndarray:
    """Give a strided tensor's bytes in the order of its elements, flat uint8."""
    plain = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    return plain.reshape(-1).view(torch.uint8).numpy()


def _fingerprint_value(value: Any) -> int:
    if isinstance(value, torch.Tensor):
        return fingerprint(value)
    return fingerprint_tree(value)
