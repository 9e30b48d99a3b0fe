"""One measurement, one meaning: no words that the printed numbers contradict."""

import doctest
import re
from math import inf

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from twinrun.formatting import measure
from twinrun.timing import ratio_words
from twinrun.timing.ratio_words import effect_of, meaning, speed_up, time_ratio

DECIDED = ("faster", "slower")
PRINTED = re.compile(r"95% interval ([\d.,]+) to ([\d.,]+)")


def ratio(middle, low, high):
    return {"time_ratio": middle, "low": low, "high": high}


@st.composite
def ratios(draw):
    """A ratio inside its interval, often near 1, where rounding decides."""
    end = st.one_of(st.floats(0.01, 100), st.floats(0.9, 1.1), st.floats(0.99, 1.01))
    low, middle, high = sorted(draw(st.tuples(end, end, end)))
    return ratio(middle, low, high)


def printed_ends(text):
    low, high = PRINTED.search(text).groups()
    return float(low.replace(",", "")), float(high.replace(",", ""))


def test_without_an_interval_nothing_is_decided():
    found = ratio(0.5, None, None)
    assert effect_of(found) == meaning(found) == "too few measurements"
    told = "2.00 times as fast (without a 95% interval)"
    assert speed_up(found) == f"too few measurements: {told}"


@pytest.mark.parametrize(
    ("low", "high", "printed"),
    [
        (0.0, 3.0, "95% interval 0.333 to ∞"),
        (0.0, inf, "95% interval 0 to ∞"),
        (0.5, inf, "95% interval 0 to 2.00"),
    ],
)
def test_a_training_that_may_have_done_nothing_but_wait_shows_nothing(low, high, printed):
    """Red before: a ZeroDivisionError, and no verdict of the whole study."""
    found = ratio(1.3, low, high)
    assert meaning(found) == "no difference measured"
    assert printed in speed_up(found)
    assert measure(low) in time_ratio(found)


def test_examples_in_the_docstrings_hold():
    found = doctest.testmod(ratio_words)
    assert found.attempted > 0
    assert found.failed == 0


@given(ratios())
def test_an_interval_that_holds_1_is_neither_faster_nor_slower(found):
    if found["low"] <= 1 <= found["high"]:
        assert effect_of(found) not in DECIDED


@given(ratios())
def test_what_is_printed_says_the_same_as_the_words(found):
    """Of the ratio, and of the speed-up, which is its inverse."""
    for text in (time_ratio(found), speed_up(found)):
        low, high = printed_ends(text)
        assert low <= high
        if effect_of(found) in DECIDED:
            assert not low <= 1 <= high, text
        elif effect_of(found) == "no difference measured":
            assert low <= 1 <= high, text
        else:
            assert 0.95 <= low <= high <= 1.05, text


@given(st.floats(1.0, 1.07), st.floats(1.0, 1.07))
@example(1.0, 1.0546)  # prints as 1.05, and its inverse as 0.948, which is more than 5 % less
@example(1.0546, 1.0)
def test_what_does_not_matter_for_the_time_does_not_matter_for_the_speed(left, right):
    """And the other way round, as no printed speed-up is outside of the bound that is named."""
    found = ratio(1.0, 1 / left, right)
    inverse = ratio(1.0, 1 / right, left)
    assert effect_of(found) == effect_of(inverse)
    if effect_of(found) == "no difference that matters":
        for text in (speed_up(found), time_ratio(found)):
            low, high = printed_ends(text)
            assert float(f"{1 / 1.05:.3g}") <= low <= high <= 1.05, text


@given(ratios())
def test_words_have_the_sign_of_the_numbers(found):
    effect = effect_of(found)
    if effect == "slower":
        assert found["low"] > 1
    elif effect == "faster":
        assert found["high"] < 1
    assert meaning(found).startswith(effect)


@given(ratios())
def test_the_inverse_measurement_means_the_opposite(found):
    inverse = ratio(1 / found["time_ratio"], 1 / found["high"], 1 / found["low"])
    opposite = {"faster": "slower", "slower": "faster"}
    if effect_of(found) in DECIDED:
        assert effect_of(inverse) == opposite[effect_of(found)]


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (ratio(1.10, 1.001, 1.12), "no difference measured: 1.10 times"),
        (ratio(1.01, 1.002, 1.04), "no difference that matters (at most 5%): 1.01 times"),
        (ratio(1.00, 1.0, 1.0), "no difference that matters (at most 5%): 1.00 times"),
        (ratio(1.02, 0.9, 1.2), "no difference measured: 1.02 times"),
        (ratio(0.67, 0.65, 0.69), "faster, 33% less time: 0.670 times"),
        (ratio(1.08, 1.06, 1.10), "slower, 8% more time: 1.08 times"),
        (ratio(3.52, 2.78, 4.46), "slower: 3.52 times"),
        (ratio(0.9, 0.8, 0.9996), "no difference measured: 0.900 times"),
    ],
)
def test_words_of_a_ratio(found, words):
    assert time_ratio(found).startswith(words)


def test_the_speed_up_of_a_ratio_next_to_1_is_not_printed_as_1():
    """0.9981 is 1.0019 times as fast, which prints as 1.00."""
    assert speed_up(ratio(0.9, 0.8, 0.9981)).startswith("no difference measured")
