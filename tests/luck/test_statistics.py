"""The tests behind sweep and contest: against SciPy's values, at the edges of floats, simulated."""

import importlib.util
import math
import random
from pathlib import Path

import pytest

from twinrun.luck.forecast import power_with, seeds_needed
from twinrun.luck.holm import adjusted
from twinrun.luck.pairing import bought_by_seed
from twinrun.luck.student_t import critical, power, two_sided
from twinrun.luck.welch import Scatter, scatter, welch

ROOT = Path(__file__).parents[2]


def compared(first, second):
    return welch(scatter(first), scatter(second))


# By scipy.stats 1.17.1: 2 * t.sf(ratio, degrees); t.isf(0.025, degrees); nct.sf in both tails.
@pytest.mark.parametrize(
    ("degrees", "tail_of_2", "bound", "power_at_3"),
    [
        (1, 0.295167, 12.706205, 0.186132),
        (1.5, 0.224188, 6.016663, 0.288658),
        (2, 0.183503, 4.302653, 0.3874),
        (4, 0.116117, 2.776445, 0.619261),
        (7.7, 0.081907, 2.321737, 0.743328),
        (30, 0.054625, 2.042272, 0.8271),
        (400, 0.046176, 1.965912, 0.849158),
    ],
)
def test_tails_bounds_and_powers_are_scipys(degrees, tail_of_2, bound, power_at_3):
    assert two_sided(2, degrees) == pytest.approx(tail_of_2, abs=2e-5)
    assert critical(degrees) == pytest.approx(bound, rel=2e-4)
    assert power(3, degrees) == pytest.approx(power_at_3, abs=5e-5)
    # Of no shift it is the level in both tails, not one: half of it was lost before.
    assert power(0, degrees) == pytest.approx(0.05, abs=2e-5)


def test_welch_and_holm_by_hand():
    """`scipy.stats.ttest_ind(a, b, equal_var=False)` of these, with its interval."""
    found = compared([1, 2, 3, 4], [2, 4, 9])
    assert found.mean == pytest.approx(-2.5)
    assert found.p == pytest.approx(0.353209, rel=1e-3)
    assert found.interval == pytest.approx((-10.55754, 5.55754), rel=1e-3)
    assert adjusted([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert adjusted([]) == []


@pytest.mark.parametrize("scale", [1, 1e-300, 1e-160, 1e154, 1e300])
def test_values_too_large_or_small_to_be_squared_are_compared_alike(scale):
    plain = compared([1.0, 2.0, 3.0], [7.0, 8.0, 9.5])
    found = compared([1.0 * scale, 2.0 * scale, 3.0 * scale], [7.0 * scale, 8 * scale, 9.5 * scale])
    assert found.p == pytest.approx(plain.p)
    assert found.mean == pytest.approx(plain.mean * scale)
    first, second = scatter([scale, 2 * scale]), scatter([2 * scale, 4 * scale])
    assert seeds_needed(first, second) == seeds_needed(scatter([1, 2]), scatter([2, 4]))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([0.9], [0.8]),  # a single seed
        ([0.9, 0.9], [0.8, 0.8]),  # a difference that no seed moves
        ([0.9, 0.9], [0.9, 0.9]),
        ([0.0, 0.0], [0.0, 0.0]),
        ([0.3, 0.1 + 0.2], [0.9, 0.9 + 1e-9]),  # nothing but rounding
        ([0.9, 0.8], [0.8]),
    ],
)
def test_without_scatter_luck_was_not_measured(first, second):
    assert compared(first, second) is None


def test_one_side_may_stand_still():
    found = compared([0.9, 0.9, 0.9], [0.5, 0.6, 0.55])
    assert 0 < found.p < 0.05
    # Nor does a scatter that is nothing beside the other's value divide by zero.
    assert compared([1e300, 1e300], [1.0, 2.0]).p == 0


@pytest.mark.parametrize("seed", range(2))
def test_whatever_is_finite_gives_numbers(seed):
    """Values of all sizes, few and equal ones among them: no division by zero, no NaN."""
    draw = random.Random(seed)
    values = [0.0, 1.0, -1.0, 1e-308, 5e-324, 1.7e308, -1.7e308, 1e30, 0.1, 0.1 + 1e-16]
    for _ in range(60):
        first = [draw.choice(values) for _ in range(draw.randint(1, 3))]
        second = [draw.choice(values) for _ in range(draw.randint(1, 3))]
        a, b = scatter(first), scatter(second)
        assert not math.isnan(a.mean)
        assert a.deviation >= 0
        found = welch(a, b)
        if found is not None:
            assert 0 <= found.p <= 1
            assert 0 <= power_with(a, b, 3) <= 1.0001
        if len(first) == len(second):
            bought = bought_by_seed(first, second)
            assert bought is None or bought <= 1 + 1e-9


def test_seeds_still_needed_are_the_fewest_with_a_power_of_four_fifths():
    first, second = (Scatter(number=3, mean=m, deviation=0.02) for m in (0.9, 0.93))
    needed = seeds_needed(first, second)
    assert power_with(first, second, needed - 1) < 0.8 <= power_with(first, second, needed)
    assert seeds_needed(first, first) is None
    near = Scatter(number=3, mean=0.9 + 1e-5, deviation=0.02)
    assert seeds_needed(first, near) is None


def simulation():
    spec = importlib.util.spec_from_file_location("luck", ROOT / "docs/measurements/luck.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("choices", [2, 6])
def test_of_equals_at_most_one_contest_in_twenty_names_a_winner(choices):
    """1,000 contests; the bound of 5 % and twice the error of so many, 1.4 %."""
    assert simulation().false_alarms(1000, seeds=3, choices=choices) <= 0.064


def test_what_is_worse_by_the_margin_is_called_not_worse_in_one_contest_in_forty():
    """1,000 contests; the bound of 2.5 % and twice the error of so many, 1.0 %."""
    assert simulation().not_worse(1000, seeds=5, behind=1.0) <= 0.035


def test_a_planted_difference_is_found_with_the_power_that_was_forecast():
    """1,000 contests; the bound is three times the error of so many, 3.8 %."""
    forecast, found = simulation().planted(1000, seeds=5, shift=2.0)
    assert found == pytest.approx(forecast, abs=0.038)
