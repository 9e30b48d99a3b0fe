"""From which size on a variant is faster: planted ratios, and what the verdicts say of them."""

import numpy as np
import pytest
from example_comparisons import median
from example_timings import timing_summary

from twinrun.timing.crossings import crossing, crossover
from twinrun.verdicts.evidence import Evidence
from twinrun.verdicts.speed import training_speeds

FASTER, SLOWER, OPEN = (0.5, 0.4, 0.6), (2.0, 1.9, 2.1), (0.9, 0.8, 1.1)


@pytest.mark.parametrize(
    ("ratios_found", "expected"),
    [
        ([10, 0.1, 0.01], 1000),
        ([0.5, 0.4, 0.3], 100),
        ([3, 2, 1], None),
        ([0.5, 10, 0.1], 100_000),  # for good: the early lead does not count
    ],
)
def test_crossover(ratios_found, expected):
    found = crossover(np.array([100, 10_000, 1_000_000]), np.array(ratios_found, dtype=float))
    assert found == (expected and pytest.approx(expected))


def timed(intervals, *, unstable=(), skipped=(), alone=()):
    """Return a timing of a GPU beside a CPU, by size; at some it failed, or the CPU did."""
    medians = []
    for size in [*intervals, *skipped, *alone]:
        spread = {"unstable": size in unstable, "iqr_share": 0.32 if size in unstable else 0.02}
        names = {"cpu": size not in alone, "gpu": size not in skipped}
        medians += [median(name, size=size, **spread) for name, has in names.items() if has]
    return timing_summary(
        baseline="cpu",
        size="batch",
        medians=medians,
        ratios=[
            {
                "variant": "gpu",
                "size": size,
                "phase": "train",
                "time_ratio": m,
                "low": lo,
                "high": hi,
            }
            for size, (m, lo, hi) in intervals.items()
        ],
        skipped=[
            {"variant": "gpu", "size": size, "phase": None, "reason": "too large"}
            for size in skipped
        ],
    )


@pytest.mark.parametrize(
    ("intervals", "expected"),
    [
        ({100: FASTER}, 100),
        ({100: OPEN}, None),  # seen red at b8e0cc1: "faster from 100 on", and the interval held 1
        ({100: SLOWER}, None),
        ({100: SLOWER, 1000: OPEN, 10000: FASTER}, 10000),
        ({100: SLOWER, 10000: FASTER}, 1000),
        ({100: FASTER, 1000: SLOWER}, None),
        # What is open has no line through 1, on whichever side its middle lies.
        ({100: (1.2, 0.9, 1.5), 1000: FASTER}, 1000),
    ],
)
def test_a_crossing_waits_for_the_first_size_that_is_measured_to_be_faster(intervals, expected):
    (found,) = crossing(timed(intervals))
    assert found["crossover"] == (expected and pytest.approx(expected))


def test_a_crossing_contradicts_no_verdict():
    """Red before: "faster from 126 on", though 512 is undecided, and at 4,096 nothing ran."""
    found = timed(
        {16: (1.53, 1.30, 1.71), 512: (0.749, 0.532, 0.853)}, unstable=[512], skipped=[4096]
    )
    assert crossing(found) == [
        {
            "variant": "gpu",
            "crossover": None,
            "sizes": {"slower": [16], "undecided": [512], "not run": [4096]},
        }
    ]
    answers = [row["answer"] for row in training_speeds(Evidence(path="", found=found))]
    assert answers == ["no", "undecided", "not run"]


@pytest.mark.parametrize("why", ["skipped", "alone"])
def test_a_size_without_a_ratio_is_not_passed_over(why):
    """Red before: as if it had not been asked for."""
    said = {"skipped": "not run", "alone": "not comparable"}[why]
    (below,) = crossing(timed({1000: FASTER}, **{why: [100]}))
    assert (below["crossover"], below["sizes"]) == (1000, {said: [100], "faster": [1000]})
    (between,) = crossing(timed({100: SLOWER, 10000: FASTER}, **{why: [1000]}))
    assert between["crossover"] == 10000
    (above,) = crossing(timed({100: FASTER}, **{why: [1000]}))
    assert above["crossover"] is None


def test_a_variant_that_ran_nowhere_has_its_sizes():
    (found,) = crossing(timed({}, skipped=[100, 1000]))
    assert found == {"variant": "gpu", "crossover": None, "sizes": {"not run": [100, 1000]}}
