"""What a fingerprint sees that the bytes alone do not show, and what of them is no value."""

import struct

import numpy as np
import pytest
import torch
from torch.nested import nested_tensor

from twinrun.checkpoint.looks import digest
from twinrun.plain_tensors import flat_bytes
from twinrun.trace.fingerprints import fingerprint, fingerprint_tree
from twinrun.trace.samples import fingerprint_samples

NUMBERS = torch.arange(24.0)
ALIGNED = np.dtype([("a", "i1"), ("b", "f8"), ("c", [("d", "i1"), ("e", "f4", (2,))])], align=True)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([(2, 3, 4)], [(2, 4, 3)]),
        ([(3, 4), (3, 4)], [(3, 4), (4, 3)]),
        ([(), ()], [(1,), (1,)]),
    ],
)
def test_shapes_of_nested_parts_count(one, other):
    """Red before: only the first length of each part did."""
    found = []
    for shapes in (one, other):
        sizes = [torch.Size(shape).numel() for shape in shapes]
        parts = NUMBERS[: sum(sizes)].split(sizes)
        nested = nested_tensor([p.reshape(s) for p, s in zip(parts, shapes, strict=True)])
        found.append([fingerprint(nested), fingerprint_tree([nested]), digest(nested)])
    assert all(a != b for a, b in zip(*found, strict=True))


def test_rows_and_columns_of_a_symmetric_matrix_are_told_apart():
    """Red before: their indices and values are the same numbers."""
    matrix = torch.eye(4) + torch.ones(4, 4).tril().triu()
    batches = [matrix.to_sparse_csr(), matrix.to_sparse_csc(), matrix.to_sparse(), matrix]
    assert len({fingerprint_tree([batch]) for batch in batches}) == 4
    assert fingerprint_tree(batches[:1]) == fingerprint_tree([matrix.clone().to_sparse_csr()])


def nan(bits):
    return struct.unpack("<d", struct.pack("<Q", bits))[0]


def test_the_bits_of_a_number_that_is_none_count():
    """Red before: all were written as `nan`; those of tensors were told apart."""
    numbers = [nan(0x7FF8000000000000), nan(0x7FF8000000000001), nan(0xFFF8000000000000)]
    assert len({fingerprint_tree([number]) for number in numbers}) == 3
    assert len({fingerprint_tree([complex(0.0, number)]) for number in numbers}) == 3
    assert fingerprint_tree([numbers[1]]) == fingerprint_tree([nan(0x7FF8000000000001)])


def dirty(dtype):
    """Return zeros in memory that was full of ones, and was all zero."""
    clean, found = np.zeros(3, dtype), np.zeros(3, dtype)
    found.view(np.uint8)[:] = 255
    if dtype.names is None:
        found[...] = 0
    else:
        fill(found)
    assert (clean == found).all()
    return clean, found


def fill(array):
    for name in array.dtype.names:
        if array[name].dtype.names is None:
            array[name] = 0
        else:
            fill(array[name])


@pytest.mark.parametrize(
    "dtype",
    [
        ALIGNED,
        np.dtype(np.longdouble),
        np.dtype(np.clongdouble),
        np.dtype([("a", "i1"), ("b", np.longdouble)], align=True),
    ],
    ids=str,
)
def test_bytes_between_values_are_none(dtype):
    """Red before: arrays of equal values differed by what lay in memory before them."""
    clean, found = dirty(dtype)
    assert fingerprint_tree([clean]) == fingerprint_tree([found])
    assert fingerprint_tree([clean[0]]) == fingerprint_tree([found[0]])
    assert (fingerprint_samples([clean]) == fingerprint_samples([found])).all()


def test_each_value_of_such_an_array_counts():
    arrays = [np.zeros(3, ALIGNED) for _ in range(5)]
    arrays[1]["a"][2] = 1
    arrays[2]["b"][0] = -0.0
    arrays[3]["c"]["d"][1] = 1
    arrays[4]["c"]["e"][1, 1] = 1
    assert len({fingerprint_tree([array]) for array in arrays}) == 5
    samples = [fingerprint_samples([array]) for array in arrays]
    changed = [sum(samples[0] != found) for found in samples[1:]]
    assert changed == [1, 1, 1, 1]
    one, next_one = np.ones(2, np.longdouble), np.ones(2, np.longdouble)
    next_one[1] = np.nextafter(np.longdouble(1), np.longdouble(2))
    assert fingerprint_tree([one]) != fingerprint_tree([next_one])
    assert (fingerprint_samples([one]) != fingerprint_samples([next_one])).tolist() == [False, True]


@pytest.mark.parametrize("size", [0, 3])
@pytest.mark.parametrize("look_at", [fingerprint, flat_bytes, digest])
def test_a_tensor_that_was_looked_at_may_be_resized(look_at, size):
    """Red before: a quantization-aware training, which fills empty ones, failed."""
    seen = torch.zeros(size)
    look_at(seen)
    seen.resize_(8)
