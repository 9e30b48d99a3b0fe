"""A stop comes where its point is, and nowhere where the training has no such point."""

import doctest

import pytest

from twinrun.checkpoint import interrupt
from twinrun.checkpoint.interrupt import stop_after


def test_examples_in_the_docstrings_hold():
    found = doctest.testmod(interrupt)
    assert found.attempted > 0
    assert found.failed == 0


def ends(batches, micro_batches):
    """Number the micro-batches after which Lightning steps."""
    return {n for n in range(1, batches + 1) if n % micro_batches == 0 or n == batches}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("batches", range(1, 10))
@pytest.mark.parametrize("micro_batches", range(1, 5))
def test_a_point_is_what_its_name_says(batches, micro_batches):
    steps = ends(batches, micro_batches)
    between_mini_batches = steps - {batches}
    between_micro_batches = set(range(1, batches + 1)) - steps
    for stop, points in (
        ("mid_epoch", between_mini_batches),
        ("mid_accumulation", between_micro_batches),
        ("last_batch", {batches}),
    ):
        found = stop_after(stop, batches, micro_batches)
        assert found in points if points else found is None


@pytest.mark.parametrize("stop", ["epoch_end", "before_validation", "after_validation"])
def test_other_stops_follow_no_batch(stop):
    assert stop_after(stop, 8, 2) is None
