"""Numbers as readers see them."""

import doctest

import pytest

from twinrun import formatting


def test_examples_in_the_docstrings_hold():
    assert doctest.testmod(formatting).failed == 0


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (-2.5e-9, "−2.50×10⁻⁹"),
        (1.234e-4, "1.23×10⁻⁴"),
        (0.00252, "0.00252"),
        (1.0, "1.00"),
        (747021, "747,021"),
        (12_345_678, "1.23×10⁷"),
        (float("inf"), "∞"),
        (float("-inf"), "−∞"),
        (float("nan"), "–"),
        (None, "–"),
    ],
)
def test_measure(value, text):
    assert formatting.measure(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3e-7, "0.300 µs"),
        (0.0123, "12.3 ms"),
        (0.9996, "1.00 s"),  # red at da7ce76: 1,000 ms
        (0.00099996, "1.00 ms"),
        (99.9, "99.9 s"),
        (99.96, "1 min 40 s"),
        (185, "3 min 5 s"),
        (7199.8, "2.00 h"),
        (9000, "2.50 h"),
        (float("inf"), "∞ h"),
    ],
)
def test_seconds(value, text):
    assert formatting.seconds(value) == text


def test_a_share_is_never_rounded_to_nothing_or_everything():
    shares = [0, -0.0, 1e-9, 0.0123, 0.5, 1 - 1e-9, 1]
    texts = ["0%", "0%", "< 0.1%", "1.23%", "50%", "> 99.9%", "100%"]
    assert [formatting.percent(share) for share in shares] == texts


def test_no_reader_needs_a_programmers_power_of_ten():
    """Red at da7ce76: 1.25e+03%, 1.02e+03 KiB."""
    assert [formatting.percent(share) for share in (9.999, 12.5)] == ["1,000%", "1,250%"]
    assert formatting.size_in_bytes(1023 * 2**10) == "1,023 KiB"
