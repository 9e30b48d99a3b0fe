"""The samples of a batch, each with its fingerprint, to tell another order from another content.

A loader's batch is one structure of many samples: rows of tensors, or items of lists (tokens,
texts, images of several sizes, a detector's boxes). Which list holds the samples, and which one
the columns that a collate function makes of them, nothing says: see `batch_lists`. ASSUME that the
number of samples is the length that most columns can have. What belongs to no sample counts as one
more, so that two batches of the same samples are the same but for their order.

Of a tensor on a GPU each row is hashed there (see `device_hash`), and counts by its hash.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
import xxhash

from twinrun.batches import LEAVES, attributes, children
from twinrun.plain_tensors import bare, flat_bytes
from twinrun.trace.array_values import rows_of
from twinrun.trace.batch_lists import are_more_than_rows, holds_samples, num_rows
from twinrun.trace.device_hash import is_on_gpu
from twinrun.trace.fingerprints import described, fingerprint_tree, is_plain, tensor_words
from twinrun.trace.pending import Pending, together
from twinrun.trace.step_fingerprints import rows_hashed

MOST_LISTS = 20  # inside each other; a list that holds itself has no end


class Item(NamedTuple):
    """Where a leaf is in the outermost list that may hold samples."""

    column: str
    """The list's path."""
    length: int
    """Items of the list."""
    index: int
    """In it."""


class Leaf(NamedTuple):
    """A tensor, array or plain value of a batch."""

    item: Item | None
    """None outside of any list that may hold samples."""
    path: str
    """In the item, or else in the batch."""
    value: object
    """The tensor, array or plain value itself."""

    @property
    def column(self) -> str:
        """The path, without the item's number."""
        return self.path if self.item is None else f"{self.item.column}*{self.path}"


class Hashed(NamedTuple):
    """Stands for a tensor or array that was looked at before its values were there."""

    text: str
    """As `described` writes it."""
    rows: np.ndarray | list[bytes] | None
    """As `_rows` gives them; of a tensor on a GPU the hash of each, (N, 8) uint8."""
    num_rows: int | None
    """The length of its first dimension; None where it has none."""


def fingerprint_samples(batch: object) -> np.ndarray:
    """Return a fingerprint of each of a batch's samples, in their order, (N,) uint64.

    One more stands at the end where the batch holds what belongs to no sample.
    """
    return _joined(samples_and_rest(batch))


def samples_and_rest(batch: object) -> tuple[np.ndarray, int | None]:
    """Return a fingerprint of each of a batch's samples, and one of what belongs to none of them.

    As (N,) uint64, and None where everything belongs to a sample.
    """
    return _digests(list(_walk(batch, "", None)))


def prints_of_samples(batch: object) -> np.ndarray | Pending[np.ndarray]:
    """Return what `fingerprint_samples` does; pending of a batch that holds tensors on a GPU.

    Their samples have other fingerprints than the same ones on a CPU.
    """
    found = list(_walk(batch, "", None))
    if not any(isinstance(leaf.value, torch.Tensor) and is_on_gpu(leaf.value) for leaf in found):
        return _joined(_digests(found))
    # All of it now: the step may write to its batch.
    seen: list[object | Pending[object]] = [_looked_at(leaf.value) for leaf in found]
    return together(
        seen,
        lambda values: _joined(
            _digests(
                [leaf._replace(value=value) for leaf, value in zip(found, values, strict=True)]
            )
        ),
    )


def widths(batch: object) -> dict[str, tuple[int, ...] | None]:
    """Return the shapes of what is made of samples as rows, by path, without their number.

    None for a tensor or array that has rows and not one for each sample. Items of lists are left
    out: each is as large as it is by itself, whatever is beside it.
    """
    found = list(_walk(batch, "", None))
    size = _number_of_samples(found)
    return {
        leaf.path: tuple(leaf.value.shape[1:]) if rows == size else None
        for leaf in found
        if (leaf.item is None or leaf.item.length != size)
        and isinstance(leaf.value, torch.Tensor | np.ndarray)
        and (rows := num_rows(leaf.value)) is not None
        and not (isinstance(leaf.value, torch.Tensor) and leaf.value.is_nested)
    }


def _looked_at(value: object) -> object | Pending[object]:
    if not isinstance(value, torch.Tensor | np.ndarray):
        return value
    if not (isinstance(value, torch.Tensor) and is_on_gpu(value) and is_plain(value)):
        return Hashed(described(value), _rows(value), num_rows(value))
    words, number = tensor_words(value), num_rows(value)

    def made(found: list[np.ndarray]) -> object:
        rows = found[0].reshape(-1, 1).view(np.uint8)
        text = f"{words}{xxhash.xxh3_64_intdigest(rows.tobytes())}"
        return Hashed(text, None if number is None else rows, number)

    return together([rows_hashed(value)], made)


def _joined(found: tuple[np.ndarray, int | None]) -> np.ndarray:
    samples, rest = found
    return samples if rest is None else np.append(samples, np.uint64(rest))


def _digests(found: Sequence[Leaf]) -> tuple[np.ndarray, int | None]:
    """Return the fingerprints of the samples that the leaves of a batch belong to, and the rest."""
    if (rows := _rows_of_all(found)) is not None:
        digests = map(xxhash.xxh3_64_intdigest, rows)
        return np.fromiter(digests, dtype=np.uint64, count=len(rows)), None
    size = _number_of_samples(found)
    samples, rest = [xxhash.xxh3_64() for _ in range(size)], xxhash.xxh3_64()
    has_rest = False
    for leaf in found:
        if leaf.item is not None and leaf.item.length == size:
            # Without the index, so that a sample is known at another one.
            text = f"{leaf.column}={_text(leaf.value)};"
            samples[leaf.item.index].update(text.encode())
            continue
        path = leaf.column if leaf.item is None else f"{leaf.column}{leaf.item.index}"
        rows_of_leaf = _rows(leaf.value)
        if rows_of_leaf is not None and len(rows_of_leaf) == size:
            for sample, row in zip(samples, rows_of_leaf, strict=True):
                sample.update(path.encode())
                sample.update(row)
        else:
            rest.update(f"{path}={_text(leaf.value)};".encode())
            has_rest = True
    digests = np.array([sample.intdigest() for sample in samples], dtype=np.uint64)
    return digests, rest.intdigest() if has_rest else None


def _rows_of_all(leaves: Sequence[Leaf]) -> np.ndarray | None:
    """Return the rows of a batch of nothing but dense tensors of one length, side by side."""
    found: list[np.ndarray] = []
    for leaf in leaves:
        rows = None if leaf.item is not None else _rows(leaf.value)
        if not isinstance(rows, np.ndarray) or not rows.size or len(rows) != len((*found, rows)[0]):
            return None
        found.append(rows)
    return np.ascontiguousarray(np.concatenate(found, axis=1)) if found else None


def _walk(value: object, path: str, item: Item | None, depth: int = 0) -> Iterator[Leaf]:
    """Yield each leaf with the item of the outermost list of samples that it is in."""
    inside = children(value)
    if inside is None or depth > MOST_LISTS:
        yield Leaf(item, path, value if isinstance(value, LEAVES) else fingerprint_tree(value))
        return
    inside_path = f"{path}/{type(value).__name__}"
    for name, held in attributes(value):
        yield from _walk(held, f"{inside_path}.{name}", item, depth + 1)
    # A list in a sample belongs to the sample.
    is_list = item is None and isinstance(value, Sequence)
    if is_list and holds_samples(value, is_whole=not depth):
        for index, (_, held) in enumerate(inside):
            yield from _walk(held, "", Item(inside_path, len(inside), index), depth + 1)
        return
    for key, held in inside:
        yield from _walk(held, f"{inside_path}.{key}", item, depth + 1)


def _number_of_samples(leaves: Sequence[Leaf]) -> int:
    """Return the length that most columns have, as a list or as rows."""
    columns: dict[str, list[Leaf]] = {}
    for leaf in leaves:
        columns.setdefault(leaf.column, []).append(leaf)
    counts: Counter[int] = Counter()
    for column in columns.values():
        counts.update(dict.fromkeys(_lengths(column), 1))
    # Of equals the first, which the first column would rather have.
    return max(counts, key=lambda n: counts[n], default=0)


def _lengths(column: Sequence[Leaf]) -> list[int]:
    """Return the numbers of samples that a column can have, the likelier first."""
    item = column[0].item
    lengths = [] if item is None else [item.length]
    # Two tensors in a list may be two samples, or two columns of samples.
    rows = {_num_rows(leaf.value) for leaf in column if not (leaf.item and leaf.path)}
    if len(rows) == 1 and (number := rows.pop()) is not None:
        lengths.append(number)
        if item is not None and not are_more_than_rows(item.length, number):
            lengths.reverse()
    return lengths


def _text(value: object) -> str:
    return value.text if isinstance(value, Hashed) else described(value)


def _num_rows(value: object) -> int | None:
    return value.num_rows if isinstance(value, Hashed) else num_rows(value)


def _rows(leaf: object) -> np.ndarray | list[bytes] | None:
    """Return the bytes of a tensor or array, a row for each of its first dimension."""
    if isinstance(leaf, Hashed):
        return leaf.rows
    if isinstance(leaf, torch.Tensor):
        leaf = bare(leaf)
        if leaf.is_nested:
            return [described(part).encode() for part in leaf.unbind()]
        if not leaf.ndim or leaf.is_quantized:
            return None
        if leaf.layout is not torch.strided:
            return _rows_of_sparse(leaf)
        flat = flat_bytes(leaf)
    elif isinstance(leaf, np.ndarray) and leaf.ndim and not leaf.dtype.hasobject:
        return rows_of(leaf)
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
