"""What a ratio of times says in words: faster, slower, or neither.

A time ratio is a variant's seconds over the baseline's (above 1: slower), with a 95% interval.
Verdicts and report both take their words from `effect_of` and `meaning`, so that no two sentences
about one measurement contradict each other:

- `no difference that matters`: the whole interval lies within MATTERS of 1.
- `no difference measured`: the interval holds 1 and is wider than that. The variant may be slower
  or faster by more than MATTERS; this timing cannot tell, so no question is answered by it.
- `faster`, `slower`: the interval lies on one side of 1, and beyond MATTERS at least at one end.
- `too few measurements`: there is no interval that could be relied on (see `ratios`).

The numbers are compared as a reader sees them, with three significant digits. An interval of
1.001 to 1.12 is printed as 1.00 to 1.12, and where a reader sees that it contains 1, "slower" must
not stand beside it. The same must be true of the speed-up, the ratio's inverse.
"""

from typing import Literal

from twinrun.formatting import measure, percent
from twinrun.timing.summary import Interval

# ASSUME nobody chooses a variant for less: one minute in twenty.
MATTERS = 0.05
DIGITS = 3  # of a printed ratio
NO_INTERVAL = "without a 95% interval"

Effect = Literal[
    "faster",
    "slower",
    "no difference measured",
    "no difference that matters",
    "too few measurements",
]


def effect_of(ratio: Interval) -> Effect:
    """Say what a ratio and its interval show.

    >>> effect_of({"time_ratio": 1.10, "low": 1.001, "high": 1.12})
    'no difference measured'
    >>> effect_of({"time_ratio": 1.01, "low": 1.003, "high": 1.04})
    'no difference that matters'
    >>> effect_of({"time_ratio": 1.5, "low": None, "high": None})
    'too few measurements'
    >>> effect_of({"time_ratio": 1.3, "low": 0.0, "high": 3.0})  # it may have done nothing but wait
    'no difference measured'
    """
    low, high = ratio["low"], ratio["high"]
    if low is None or high is None:
        return "too few measurements"
    # Both the ratio and its inverse are printed, and both must look like what is said of them.
    # 1.0546 prints as 1.05, within the bound; its inverse prints as 0.948, outside of 0.952.
    least, most = _shown(1 / (1 + MATTERS)), _shown(1 + MATTERS)
    # Asked first: an interval of 1.003 to 1.04 lies above 1, and yet does not matter.
    if all(least <= _shown(end) <= most for end in (low, high, _inverse(low), _inverse(high))):
        return "no difference that matters"
    # The end next to 1 must not look like 1, and neither must its inverse: that of 0.998 prints as
    # 1.00. Above 1 digits are coarser: what prints above it has an inverse that prints below.
    if _shown(low) > 1:
        return "slower"
    if _shown(high) < 1 < _shown(_inverse(high)):
        return "faster"
    return "no difference measured"


def meaning(ratio: Interval) -> str:
    """Say in words what a ratio and its interval show; what does not matter names its bound.

    >>> meaning({"time_ratio": 0.67, "low": 0.65, "high": 0.69})
    'faster, 33% less time'
    >>> meaning({"time_ratio": 1.01, "low": 0.99, "high": 1.04})
    'no difference that matters (at most 5%)'
    """
    effect, change = effect_of(ratio), abs(1 - _shown(ratio["time_ratio"]))
    if effect == "faster":
        return f"faster, {percent(change)} less time"
    if effect == "slower":
        return f"slower, {percent(change)} more time" if change < 1 else effect
    if effect == "no difference that matters":
        return f"{effect} (at most {percent(MATTERS)})"
    return effect


def interval_of_time(ratio: Interval) -> str:
    """Write the interval of a ratio.

    >>> interval_of_time({"time_ratio": 1.02, "low": 0.98, "high": 1.07})
    '95% interval 0.980 to 1.07'
    """
    low, high = _printed_ends(ratio)
    if low is None or high is None:
        return NO_INTERVAL
    return f"95% interval {measure(low)} to {measure(high)}"


def interval_of_speed(ratio: Interval) -> str:
    """Write the interval of the speed-up, which is the ratio's inverse.

    >>> interval_of_speed({"time_ratio": 0.5, "low": 0.4, "high": 0.625})
    '95% interval 1.60 to 2.50'
    """
    low, high = _printed_ends(ratio)
    if low is None or high is None:
        return NO_INTERVAL
    return f"95% interval {measure(_inverse(high))} to {measure(_inverse(low))}"


def time_ratio(ratio: Interval) -> str:
    """Say a ratio of the seconds of a step, its interval and what they mean.

    >>> time_ratio({"time_ratio": 1.08, "low": 1.05, "high": 1.1})
    'slower, 8% more time: 1.08 times the time a step (95% interval 1.05 to 1.10)'
    """
    times = measure(ratio["time_ratio"])
    return f"{meaning(ratio)}: {times} times the time a step ({interval_of_time(ratio)})"


def speed_up(ratio: Interval) -> str:
    """Say a ratio of seconds as a speed-up, its interval and what they mean.

    >>> speed_up({"time_ratio": 0.5, "low": 0.4, "high": 0.625})
    'faster, 50% less time: 2.00 times as fast (95% interval 1.60 to 2.50)'
    """
    times = measure(1 / ratio["time_ratio"])
    return f"{meaning(ratio)}: {times} times as fast ({interval_of_speed(ratio)})"


def _inverse(ratio: float) -> float:
    """Return a speed-up for a ratio of times: of no time at all, infinite."""
    return 1 / ratio if ratio > 0 else float("inf")


def _shown(value: float) -> float:
    """Round to the digits that are printed."""
    # By way of its text: `round` counts decimals, and a reader sees significant digits.
    return float(f"{value:.{DIGITS - 1}e}")


def _printed_ends(ratio: Interval) -> tuple[float | None, float | None]:
    """Widen an interval that shows no difference by the rounding that decided so, to hold 1."""
    low, high = ratio["low"], ratio["high"]
    if low is None or high is None:
        return None, None
    if effect_of(ratio) == "no difference measured":
        # 1.001 is printed as 1.00, but its inverse as 0.999: the words and both numbers must
        # agree.
        return min(low, 1.0), max(high, 1.0)
    return low, high
