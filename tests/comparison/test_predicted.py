"""Predictions are compared a part at a time, with the answers of whole arrays."""

import tracemalloc

import numpy as np
import pytest
import torch
from example_runs import write_run
from stored import write_tensors

from twinrun.artifacts import PART, StoredTensors, read_tensors
from twinrun.comparison import outputs, predicted
from twinrun.comparison.distances import squares

LARGE = 2 * PART + 5  # values: two parts and a rest


def stored(folder, name, tensors):
    write_tensors(folder / name, tensors)
    return StoredTensors(folder / name)


def ones(*shape, dtype=torch.float32):
    return torch.ones(*shape, dtype=dtype)


def changed(tensor, *places):
    found = tensor.clone()
    for place in places:
        found.view(-1)[place] = 3
    return found


@pytest.mark.parametrize(
    ("first", "second", "share", "unequal"),
    [
        # As values: one in each part.
        (ones(LARGE), changed(ones(LARGE), 0, PART, 2 * PART + 1), 3 / LARGE, 3),
        (ones(LARGE), ones(LARGE), 0.0, 0),
        # As rows, of which three do not go evenly into a part.
        (ones(PART, 3), changed(ones(PART, 3), 1, 3 * PART - 1), 2 / PART, 2),
        (ones(7, 3), changed(ones(7, 3), 0), 0.0, 1),  # the largest is where it was
        (ones(2, PART + 1), changed(ones(2, PART + 1), PART + 1 + PART), 0.5, 1),
        (ones(0, 3), ones(0, 3), 0.0, 0),
        (ones(4, 1), changed(ones(4, 1), 2), 0.25, 1),
        (ones(4, dtype=torch.bfloat16), changed(ones(4, dtype=torch.bfloat16), 2), 0.25, 1),
        (ones(4, dtype=torch.int64), changed(ones(4, dtype=torch.int64), 2), 0.25, 1),
        (torch.tensor([0.0, float("nan")]), torch.tensor([-0.0, float("nan")]), 0.5, 1),
        (torch.tensor(1.0), torch.tensor(2.0), 1.0, 1),
        (ones(4), ones(5), 1.0, 5),
        (ones(4), ones(4, dtype=torch.float64), 1.0, 4),
        # By the places of the largest alone, whatever the type.
        (ones(4, 2), ones(4, 2, dtype=torch.float64), 0.0, 8),
    ],
)
def test_shares_and_counts(tmp_path, first, second, share, unequal):
    one, other = (stored(tmp_path, n, {"a": t}) for n, t in (("x", first), ("y", second)))
    assert predicted.share_changed(one, other, "a") == share
    assert predicted.unequal(one, other, "a") == unequal
    assert predicted.are_same(one, other) == (unequal == 0)


def test_distances_and_numbers(tmp_path):
    generator = torch.Generator().manual_seed(1)
    left, right = (torch.randn(LARGE, generator=generator) for _ in range(2))
    one, other = (stored(tmp_path, n, {"a": t}) for n, t in (("x", left), ("y", right)))
    whole = squares(left.double().numpy(), right.double().numpy(), "float64")
    assert predicted.squares_of(one, other, "a") == pytest.approx(whole, rel=1e-12)


@pytest.mark.parametrize(
    ("first", "second", "have_largest"),
    [
        ([1.0, 2.0], [2.0, 1.0], True),
        ([1.0, -np.inf], [1.0, -np.inf], True),  # red before: a class that is masked out was nan
        ([1.0, 2.0], [1.0, -np.inf], True),
        ([-np.inf, -np.inf], [-np.inf, -np.inf], True),  # a row that pads
        ([1.0, -np.inf], [-np.inf, -np.inf], False),
        ([1.0, 2.0], [1.0, np.inf], False),
        ([1.0, np.inf], [2.0, 3.0], True),
        ([1.0, np.nan], [1.0, np.nan], False),
    ],
)
def test_rows_have_a_largest_number_beside_those_that_are_masked(
    tmp_path, first, second, have_largest
):
    one, other = (
        stored(tmp_path, name, {"a": torch.cat([ones(PART, 2), torch.tensor([row])])})
        for name, row in (("x", first), ("y", second))
    )
    assert predicted.have_largest(one, other, "a") is have_largest


def test_names_that_one_run_lacks_differ(tmp_path):
    one = stored(tmp_path, "x", {"a": ones(2), "b": ones(3)})
    other = stored(tmp_path, "y", {"a": ones(2)})
    assert predicted.unequal(one, other, "b") == predicted.unequal(other, one, "b") == 3
    assert not predicted.are_same(one, other)
    assert not predicted.are_same(other, one)


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Two runs with 134 MB of predictions each, in one tensor of values and one of rows."""
    folder, shapes = tmp_path_factory.mktemp("large"), {"values": (16 * PART,), "rows": (PART, 16)}
    runs = []
    for repeat in (1, 2):
        found = {name: ones(*shape) for name, shape in shapes.items()}
        found["rows"][5, 2] += repeat
        runs.append(write_run(folder, repeat, predictions=found).parent)
    return runs


def peak_of(compare):
    tracemalloc.start()
    try:
        return compare(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_predictions_need_no_memory_for_all_of_them(large):
    """Red before: both sides were loaded whole, and 600 MB of predictions took 2.7 GB."""
    manifests = [{"not_evaluated": {}}] * 2
    found, peak = peak_of(lambda: outputs.predictions(large, manifests))
    assert found["measured"] == "1 of 33,554,432 values differs, first of rows"
    assert peak < 100e6
    found, peak = peak_of(lambda: outputs.predictions_changed(large))
    assert found == (0.0, outputs.OF_BOTH)
    assert peak < 100e6


def test_what_is_stored_says_what_it_is(tmp_path):
    tensors = {"a": ones(2, 3, dtype=torch.bfloat16), "b": torch.tensor(1.0), "c": ones(0, 2)}
    found = stored(tmp_path, "x", tensors)
    for name, array in read_tensors(tmp_path / "x").items():
        assert found.form(name) == (array.shape, array.dtype)
        assert predicted.size_of(found, name) == array.size
    assert found.form("d") is None
    assert found.form("a") == ((2, 3), np.dtype(np.uint16))
