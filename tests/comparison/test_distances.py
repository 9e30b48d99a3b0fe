"""How far tensors are apart, against arithmetic by hand and the numbers of each type."""

import doctest

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from number_bits import FLOATS, WIDTHS, from_bits

from twinrun.comparison import distances as module
from twinrun.comparison.distances import (
    differences,
    differing_elements,
    distances,
    relative,
)


def test_examples_in_the_docstrings_hold():
    assert doctest.testmod(module).failed == 0


# Measures of two tensors


def test_measures_are_those_computed_by_hand():
    first = np.float32([[3.0, 0.0], [4.0, 12.0]])
    second = np.float32([[3.0, 0.0], [4.5, 11.0]])

    assert distances(first, second, "float32") == {
        "elements": 4,
        "elements_differing": 2,
        "share": 0.5,
        "max_abs": 1.0,
        # From 4.0 to 4.5 an eighth of the 2^23 numbers of [4, 8), from 11 to 12 as many of [8, 16).
        "max_ulp": 2**20,
        "relative_l2": pytest.approx(np.sqrt(1.25) / 13, rel=1e-15),
        "equal": False,
    }


@pytest.mark.parametrize(
    ("first", "second", "dtype", "differing", "max_abs", "max_ulp"),
    [
        pytest.param([1, 2], [2, 1], "float32", 2, 1.0, 2**23, id="two values swapped"),
        pytest.param([0.0], [-0.0], "float32", 1, 0.0, 1, id="sign of zero"),
        pytest.param([np.inf], [np.inf], "float32", 0, 0.0, 0, id="infinity twice"),
        pytest.param([np.nan], [np.nan], "float64", 0, 0.0, 0, id="NaN twice"),
        pytest.param([np.nan], [1.0], "float32", 1, np.inf, 0x40400000, id="NaN and a number"),
        pytest.param([65504], [np.inf], "float16", 1, np.inf, 1, id="largest number and infinity"),
        pytest.param([np.inf], [-np.inf], "float16", 1, np.inf, 0xF801, id="both infinities"),
        pytest.param([7, 7], [7, 5], "int64", 1, 2.0, 2, id="integers"),
        pytest.param([-128], [127], "int8", 1, 255.0, 255, id="integers of both signs"),
        pytest.param([0], [255], "uint8", 1, 255.0, 255, id="unsigned integers"),
        pytest.param([2**63 + 1], [2**63], "uint64", 1, 1.0, 1, id="beyond what a double resolves"),
        pytest.param([2**60 + 67], [2**60], "int64", 1, 67.0, 67, id="signed, beyond it, too"),
        pytest.param(
            [-(2**63)], [2**63 - 1], "int64", 1, 2.0**64, 2**64 - 1, id="as far as can be"
        ),
        pytest.param([True, False], [True, True], "bool", 1, 1.0, 1, id="booleans"),
    ],
)
def test_planted_differences_are_measured(first, second, dtype, differing, max_abs, max_ulp):
    measured = distances(np.array(first, dtype), np.array(second, dtype), dtype)

    assert measured["elements_differing"] == differing
    assert measured["max_abs"] == max_abs
    assert measured["max_ulp"] == max_ulp
    assert measured["equal"] is (differing == 0)


@pytest.mark.parametrize("dtype", WIDTHS)
def test_a_nan_of_other_bits_differs(dtype):
    nan = 2 ** (WIDTHS[dtype] - 1) - 1  # every bit but the sign
    measured = distances(from_bits(dtype, nan), from_bits(dtype, nan - 1), dtype)

    assert not measured["equal"]
    assert (measured["max_ulp"], measured["max_abs"]) == (1, np.inf)


@pytest.mark.parametrize("bit", range(32))
def test_one_flipped_bit_is_one_differing_element(bit):
    first = np.linspace(-1, 1, 60, dtype=np.float32).reshape(3, 4, 5)
    second = first.copy()
    second.view(np.uint32)[1, 2, 3] ^= np.uint32(1 << bit)

    assert np.flatnonzero(differing_elements(first, second)).tolist() == [33]
    assert distances(first, second, "float32")["max_ulp"] > 0


def test_bfloat16_is_measured_by_its_values():
    one, next_up = from_bits("bfloat16", 0x3F80), from_bits("bfloat16", 0x3F81)

    measured = distances(one, next_up, "bfloat16")

    assert (measured["max_ulp"], measured["max_abs"]) == (1, 2.0**-7)
    assert measured["relative_l2"] == 2.0**-7


def test_memory_order_does_not_matter():
    first = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert distances(first, np.asfortranarray(first), "float32")["equal"]


@pytest.mark.parametrize("shape", [(), (0,), (3, 0)])
def test_scalars_and_empty_tensors_are_equal_to_themselves(shape):
    measured = distances(np.ones(shape, np.float32), np.ones(shape, np.float32), "float32")
    assert measured["equal"]
    assert (measured["max_abs"], measured["max_ulp"], measured["relative_l2"]) == (0, 0, 0)


def test_relative_distance_where_there_is_no_size():
    zeros, ones = np.zeros(3), np.ones(3)
    assert distances(zeros, zeros, "float64")["relative_l2"] == 0
    assert distances(zeros, ones, "float64")["relative_l2"] == np.inf
    assert distances(zeros * np.nan, zeros * np.nan, "float64")["relative_l2"] == 0
    assert distances(ones, ones * np.nan, "float64")["relative_l2"] == np.inf
    assert relative(3.0, 4.0) == 0.75


@pytest.mark.skipif(np.finfo(np.longdouble).maxexp == 1024, reason="no wider type than float64")
@pytest.mark.parametrize("factor", [1e-320, 1e-200, 1e155, 1e307])
def test_numbers_too_large_or_small_to_be_squared_are_measured_alike(factor):
    """Red before: NaN, and 0 of the small ones."""
    first, second = factor * np.array([3.0, 4.0]), factor * np.array([3.0, 2.0])
    assert distances(first, second, "float64")["relative_l2"] == pytest.approx(0.4, rel=1e-3)


@pytest.mark.parametrize("lost", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("dtype", FLOATS)
def test_a_weight_that_is_no_number_makes_no_distance_0(lost, dtype):
    """Both runs have lost the same weight; the others are as far apart as without it."""
    first = np.array([3.0, 4.0, lost], FLOATS[dtype])
    second = np.array([3.0, 2.0, lost], FLOATS[dtype])
    assert distances(first, second, dtype)["relative_l2"] == 0.4


@given(
    arrays(np.float64, 5, elements=st.floats(-1e6, 1e6)),
    arrays(np.float64, 5, elements=st.floats(-1e6, 1e6)),
)
def test_differences_are_the_distance_of_the_values(first, second):
    assert np.array_equal(differences(first, second, "float64"), np.abs(first - second))
