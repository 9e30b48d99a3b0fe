"""Products of many points and few features, written as loops, against float64 arithmetic."""

import subprocess
import sys

import pytest
import torch

from twinrun.acceleration.features_first import _product, _sum
from twinrun.acceleration.placement import block_of, is_tall, lay_out_batch

EPSILON = torch.finfo(torch.float32).eps


def matrix(rows, columns, seed):
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((2000, 3), (3, 20)),  # forward
        ((2000, 20), (20, 1)),
        ((20, 2000), (2000, 5)),  # the gradient of a weight, both ways round
        ((5, 2000), (2000, 20)),
        ((4, 7), (7, 2000)),  # points as columns
    ],
)
@pytest.mark.parametrize("transposed", [False, True])
def test_products(left, right, transposed):
    left, right = matrix(*left, seed=1), matrix(*right, seed=2)
    if transposed:  # the same values in the other order of memory
        left, right = left.t().contiguous().t(), right.t().contiguous().t()
    exact = left.double() @ right.double()
    # Rounding of a sum of K products, each off by one unit in the last place at most.
    bound = EPSILON * left.shape[1] * (left.double().abs() @ right.double().abs())
    assert ((_product(left, right).double() - exact).abs() <= bound).all()


@pytest.mark.parametrize("keepdim", [False, True])
def test_sums_over_points(keepdim):
    values = matrix(2000, 5, seed=3)
    found = _sum(values, [0], keepdim)
    exact = values.double().sum(0, keepdim)
    assert found.shape == exact.shape
    assert ((found.double() - exact).abs() <= EPSILON * 2000 * values.abs().sum(0)).all()


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((100, 3), (3, 20)),  # few points
        ((2000, 64), (64, 3)),  # many features
        ((2000, 3), (3, 2000)),  # points on both sides
        ((2003, 3), (3, 20)),  # a prime number of points cannot be cut into blocks
    ],
)
def test_other_products_are_left_to_the_library(left, right):
    assert _product(matrix(*left, seed=1), matrix(*right, seed=2)) is NotImplemented


@pytest.mark.parametrize(
    ("dim", "shape"), [([1], (2000, 5)), ([0], (5, 2000)), ([0], (2000, 5, 2))]
)
def test_other_sums_are_left_to_the_library(dim, shape):
    assert _sum(torch.ones(shape), dim) is NotImplemented


def test_blocks_divide_the_points():
    assert [block_of(n) for n in (40_000, 1_000_000, 2_000, 2_003)] == [400, 400, 400, 1]
    assert is_tall(40_000, 20)
    assert not is_tall(torch.export.Dim("points"), 20)


def test_a_batch_keeps_shapes_and_values():
    batch = [matrix(2000, 3, seed=1), {"few": matrix(7, 3, seed=2), "count": 5}]
    points, rest = lay_out_batch(batch, "features_first")
    assert points.stride() == (1, 2000)
    assert torch.equal(points, batch[0])
    assert rest["few"].stride() == (3, 1)
    assert rest["count"] == 5


@pytest.mark.exhaustive
def test_the_compiler_is_imported_only_where_something_is_compiled():
    """It costs a second, of every process that trains or times."""
    code = (
        "import sys, twinrun.training.train, twinrun.timing.measure;"
        "sys.exit('torch._inductor.compile_fx' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
