"""Which values are a process's own: texts, and numbers of a clock."""

import random
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from twinrun.checkpoint.own_to_process import holds_names, is_of_process, is_short, is_word


@pytest.mark.parametrize("clock", [time.time, time.monotonic, time.perf_counter])
def test_moments_and_those_to_come_are_of_a_clock(clock):
    assert is_of_process(clock())
    assert is_of_process({"until": (clock() + 3600.0, 1)})
    assert is_of_process(int(clock() * 1e9) + 10**9)


def test_so_are_those_of_before_by_the_calendar_and_names():
    for value in (time.time() - 3600, time.time_ns() // 10**6, "run", Path("x")):
        assert is_of_process(value)


@pytest.mark.parametrize(
    "value", [0.1, 1e-3, 32, 1e30, float("nan"), float("inf"), True, None, [0.9, 0.999], 10**400]
)
def test_other_numbers_are_not(value):
    assert not is_of_process(value)


def test_nor_are_most_seeds():
    """A share of 60 days in 2**31 s: 0.24 %; of 2,000 fewer than 20 but for once in 10**6 times."""
    drawn = random.Random(1)
    assert sum(is_of_process(drawn.randrange(2**31)) for _ in range(2000)) < 20


def test_nor_is_a_long_list_that_has_numbers_of_all_sizes():
    """Red at 92b855ad: seconds since the start of the machine are among so many whole numbers."""
    assert not is_of_process([*range(10**6)])
    assert not is_of_process([time.monotonic() + number / 3 for number in range(100)])


@pytest.mark.timeout(10)
def test_containers_that_hold_each_other_have_an_end():
    nodes = [{} for _ in range(24)]
    for node in nodes:
        node["others"] = nodes
    assert not is_of_process(nodes)
    assert not holds_names(nodes)
    assert not is_short(nodes)
    assert is_short([{"rate": [0.1] * 1000}])


def test_names_in_containers():
    assert holds_names({"folders": ["/tmp/x"]})  # noqa: S108
    assert holds_names([datetime.now(UTC)])
    assert not holds_names({"rate": [0.1]})
    assert [is_word(each) for each in ("second", "runs/1", Path("x"), 1)] == [
        True,
        False,
        False,
        False,
    ]
