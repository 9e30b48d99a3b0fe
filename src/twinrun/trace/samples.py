"""The samples of a batch, each with its fingerprint, to tell another order from another content.

A loader's batch is one structure of many samples: rows of tensors, or items of lists (texts, images
of several sizes, a detector's boxes). ASSUME that the number of samples is the length that most of
the batch's content has. What belongs to no sample counts as one more, so that two batches of the
same samples are the same but for their order.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import torch
import xxhash

from twinrun.batches import LEAVES, attributes, children, leaves
from twinrun.trace.fingerprints import described, fingerprint_tree

Above = tuple[tuple[str, int, int], ...]
Leaf = tuple[str, object, Above]

MOST_LISTS = 20  # inside each other; a list that holds itself has no end


def fingerprint_samples(batch: object) -> np.ndarray:
    """Return a fingerprint of each of a batch's samples, in their order, (N,) uint64.

    One more stands at the end where the batch holds what belongs to no sample.
    """
    if (rows := _rows_of_all(batch)) is not None:
        return np.fromiter(map(xxhash.xxh3_64_intdigest, rows), dtype=np.uint64, count=len(rows))
    found = list(_walk(batch, "", () if _is_list_of_samples(batch) else None))
    size = _number_of_samples(found)
    samples, rest = [xxhash.xxh3_64() for _ in range(size)], xxhash.xxh3_64()
    has_rest = False
    for place, leaf, above in found:
        in_list = next((entry for entry in reversed(above) if entry[1] == size), None)
        if in_list is not None:
            item, _, index = in_list
            # Without the index, so that a sample is known at another one.
            samples[index].update(f"{place[len(item) :]}={described(leaf)};".encode())
            continue
        rows_of_leaf = _rows(leaf)
        if rows_of_leaf is not None and len(rows_of_leaf) == size:
            for sample, row in zip(samples, rows_of_leaf, strict=True):
                sample.update(place.encode())
                sample.update(row)
        else:
            rest.update(f"{place}={described(leaf)};".encode())
            has_rest = True
    digests = [sample.intdigest() for sample in samples] + [rest.intdigest()] * has_rest
    return np.array(digests, dtype=np.uint64)


def _rows_of_all(batch: object) -> np.ndarray | None:
    """Return the rows of a batch of nothing but dense tensors of one length, side by side."""
    found: list[np.ndarray] = []
    for _, leaf in leaves(batch):
        rows = _rows(leaf)
        if not isinstance(rows, np.ndarray) or not rows.size or len(rows) != len((*found, rows)[0]):
            return None
        found.append(rows)
    return np.ascontiguousarray(np.concatenate(found, axis=1)) if found else None


def _is_list_of_samples(batch: object) -> bool:
    """Say whether a batch is a list of samples, and not one of tensors that hold them.

    A loader without a collate function gives such a list; torch's own gives a list of what it made
    of inputs and of labels.
    """
    types = {type(item) for item in batch} if isinstance(batch, list) else set()
    return len(types) == 1 and not issubclass(types.pop(), torch.Tensor | np.ndarray | list)


def _walk(value: object, place: str, above: Above | None) -> Iterator[Leaf]:
    """Yield each leaf with its place and the lists above it: the item's place, length, index.

    With None for those above, the value itself is none of the lists that count.
    """
    inside, is_list = children(value), isinstance(value, Sequence) and above is not None
    above = above or ()
    if inside is None or len(above) > MOST_LISTS:
        yield place, value if isinstance(value, LEAVES) else fingerprint_tree(value), above
        return
    path = f"{place}/{type(value).__name__}"
    for name, item in attributes(value):
        yield from _walk(item, f"{path}.{name}", above)
    for index, (key, item) in enumerate(inside):
        entry = ((f"{path}.{key}", len(inside), index),) if is_list else ()
        yield from _walk(item, f"{path}.{key}", (*above, *entry))


def _number_of_samples(found: Sequence[Leaf]) -> int:
    """Return the length that most leaves have, of themselves or of a list that holds them."""
    counts: Counter[int] = Counter()
    of_rows = set()
    for _, leaf, above in found:
        lengths = [length for _, length, _ in above]
        if (rows := _rows(leaf)) is not None:
            of_rows.add(len(rows))
            lengths.append(len(rows))
        counts.update(dict.fromkeys(lengths, 1))
    # Of equals: a pair of tensors is a list of two, but their rows are the samples; else the first,
    # which is the outermost.
    return max(counts, key=lambda n: (counts[n], n in of_rows), default=0)


def _rows(leaf: object) -> np.ndarray | list[bytes] | None:
    """Return the bytes of a tensor or array, a row for each of its first dimension."""
    if isinstance(leaf, torch.Tensor):
        if leaf.is_nested:
            return [described(part).encode() for part in leaf.unbind()]
        if not leaf.ndim or leaf.is_quantized:
            return None
        if leaf.layout is not torch.strided:
            return _rows_of_sparse(leaf)
        plain = leaf.detach().cpu().resolve_conj().resolve_neg().contiguous()
        flat = plain.reshape(-1).view(torch.uint8).numpy()
    elif isinstance(leaf, np.ndarray) and leaf.ndim and not leaf.dtype.hasobject:
        flat = np.frombuffer(np.ascontiguousarray(leaf).tobytes(), np.uint8)
    else:
        return None
    return flat.reshape(len(leaf), -1) if len(leaf) else flat.reshape(0, 0)


def _rows_of_sparse(tensor: torch.Tensor) -> list[bytes]:
    # Coalesced: sorted by row, and each entry once.
    entries = tensor.detach().cpu().to_sparse_coo().coalesce()
    indices, values = entries.indices(), entries.values()
    numbers = torch.arange(len(tensor) + 1)
    ends = torch.searchsorted(indices[0].contiguous(), numbers).tolist()
    return [
        f"{described(indices[1:, start:end])}{described(values[start:end])}".encode()
        for start, end in pairwise(ends)
    ]
