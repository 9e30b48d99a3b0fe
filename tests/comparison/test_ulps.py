"""Units in the last place, against plain integers and the numbers of each type."""

import doctest

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from number_bits import FLOATS, UNSIGNED, WIDTHS, bit_patterns, from_bits

from twinrun.comparison import ulps as module
from twinrun.comparison.distances import differing_elements, values
from twinrun.comparison.ulps import ulps


def test_examples_in_the_docstrings_hold():
    assert doctest.testmod(module).failed == 0


@given(bit_patterns(2))
def test_ulp_distance_is_symmetric_and_zero_for_equal_bits_only(drawn):
    dtype, (first, second) = drawn
    distance = ulps(first, second, dtype)

    assert distance == ulps(second, first, dtype)
    assert (distance[0] > 0) == differing_elements(first, second)[0]


@given(bit_patterns(2))
def test_ulp_distance_is_that_of_plain_integers(drawn):
    dtype, pair = drawn
    sign = 2 ** (WIDTHS[dtype] - 1)
    places = []
    for value in pair:
        bits = int(value.view(UNSIGNED[WIDTHS[dtype]])[0])
        places.append(bits if bits < sign else -(bits - sign) - 1)  # -0.0 has a place of its own
    assert int(ulps(*pair, dtype)[0]) == abs(places[0] - places[1])


@given(bit_patterns(3))
def test_ulp_distances_add_up_along_a_line(drawn):
    dtype, three = drawn
    assume(not any(np.isnan(values(one, dtype))[0] for one in three))
    low, middle, high = sorted(three, key=lambda one: (values(one, dtype)[0], -_is_negative(one)))

    whole = int(ulps(low, high, dtype)[0])
    assert whole == int(ulps(low, middle, dtype)[0]) + int(ulps(middle, high, dtype)[0])


def _is_negative(array):
    bits = array.view(f"u{array.dtype.itemsize}")
    return int(bits[0] >> (8 * array.dtype.itemsize - 1))


@given(st.sampled_from(list(FLOATS)), st.data())
def test_neighbouring_numbers_are_one_apart(dtype, data):
    value = FLOATS[dtype](data.draw(st.floats(allow_nan=False, width=WIDTHS[dtype])))
    assume(value != 0)  # from zero the next number is one step from the zero of its own sign
    for direction in (np.inf, -np.inf):
        with np.errstate(over="ignore", under="ignore"):
            neighbour = np.nextafter(value, FLOATS[dtype](direction))
        expected = int(value != neighbour)  # infinity has none beyond it
        if neighbour == 0:
            neighbour = np.copysign(neighbour, value)
        assert ulps(np.array([value]), np.array([neighbour]), dtype) == expected


@pytest.mark.parametrize("dtype", FLOATS)
def test_smallest_numbers_are_one_step_from_their_zero(dtype):
    zero = np.zeros(1, FLOATS[dtype])
    smallest = np.nextafter(zero, FLOATS[dtype](1))

    assert ulps(zero, smallest, dtype) == 1
    assert ulps(-zero, -smallest, dtype) == 1
    assert ulps(-smallest, smallest, dtype) == 3


def test_the_widest_distance_fits():
    lowest, highest = from_bits("float64", 2**64 - 1), from_bits("float64", 2**63 - 1)
    assert int(ulps(lowest, highest, "float64")[0]) == 2**64 - 1
    ends = np.array([-(2**63)]), np.array([2**63 - 1])
    assert int(ulps(*ends, "int64")[0]) == 2**64 - 1
