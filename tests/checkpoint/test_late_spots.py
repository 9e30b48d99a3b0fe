"""What is looked at inside of long containers."""

import tracemalloc
from collections import deque

import pytest

from twinrun.checkpoint.late_spots import inside_of


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", [list, tuple, deque])
def test_of_a_long_one_no_more_is_made_than_what_is_looked_at(kind):
    """Red before: a pair for each of a million rows, which took seconds at each look."""
    rows = kind([[]] * 1_000_000)
    tracemalloc.start()
    try:
        found = inside_of(rows, 1000)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [key for key, _ in found] == [*range(0, 1_000_000, 1024)]
    assert most < 2**20  # of a pair each, 64 bytes and more of a million
