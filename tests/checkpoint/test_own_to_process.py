"""Which values are a process's own: texts, and numbers of a clock."""

import argparse
import os
import random
import secrets
import subprocess
import tempfile
import time
import uuid
from collections import OrderedDict, defaultdict, deque
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from lightning_fabric.utilities.data import AttributeDict

from twinrun.checkpoint.own_to_process import (
    counted,
    in_short_table,
    is_name_or_moment,
    is_of_process,
    is_short,
    is_text_for_all,
    with_own,
)


@pytest.mark.parametrize("unit", [1, 10**3, 10**6, 10**9])
def test_moments_and_those_to_come_are_of_a_process(unit):
    for moment in (time.time(), time.time() - 3600, time.time() + 3600):
        assert is_name_or_moment(moment * unit)
        assert is_name_or_moment(int(moment * unit))
        assert is_of_process({"until": (moment * unit, 1)})


def test_so_are_names():
    for value in ("run", Path("x"), datetime.now(UTC)):
        assert is_name_or_moment(value)


@pytest.mark.parametrize("clock", [time.monotonic, time.perf_counter])
def test_a_number_of_a_clock_that_counts_from_anywhere_is_not_by_itself(clock):
    """Red at 9f8fbdc4: a loss of 84,061.23 was a deadline, as the machine was up for 37,568 s."""
    assert not is_of_process(clock())
    assert not is_of_process([clock() + 3600.0])


@pytest.mark.parametrize(
    "value",
    [84_061.23, 0.1, 1e-3, 32, 1e30, float("nan"), float("inf"), True, None, [0.9, 0.999], 10**400],
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
    assert not is_of_process([time.time() + number / 3 for number in range(100)])


@pytest.mark.timeout(10)
def test_containers_that_hold_each_other_have_an_end():
    nodes = [{} for _ in range(24)]
    for node in nodes:
        node["others"] = nodes
    assert not is_of_process(nodes)
    assert not is_short(nodes)
    assert is_short([{"rate": [0.1] * 1000}])


def test_texts_for_all():
    texts = ("second", "runs/1", Path("x"), 1, uuid.uuid4().hex, datetime.now(UTC).isoformat())
    assert list(map(is_text_for_all, texts)) == [True, True, True, False, False, False]


THEN, NOW = [2.0, 500.0, 1000.0], [3.0, 90_000.0, 20.0]  # of another machine


def mixed(first, own):
    return with_own(first, own, THEN, NOW)


@pytest.mark.parametrize("far", [0.0, 0.5, 3600.0])
@pytest.mark.parametrize("clock", [1, 2])
def test_a_number_that_has_gone_on_as_a_clock_is_of_its_process(clock, far):
    first, own = (clocks[clock] + far + 0.25 for clocks in (THEN, NOW))
    for late in (-0.2, 1.5):  # hooks took no longer than 2 and 3 seconds
        assert mixed(first, own + late) == (own + late, True)
        nanoseconds = int(first * 1e9), int((own + late) * 1e9)
        assert mixed(*nanoseconds) == (nanoseconds[1], True)
    for late in (-10.0, 10.0, -80_000.0):
        assert mixed(first, own + late) == (first, False)


@pytest.mark.parametrize(
    ("first", "own"),
    [
        (84_061.23, 83_950.1),
        (84_061.23, 84_061.23),
        (84_061, 83_950),
        pytest.param(10**400, 3 * 10**400, id="no float"),  # red at 3df61952: OverflowError
        (float("inf"), -float("inf")),
        (0.5, 0.25),
        (0.25, 20.25),  # from before the machine of the first one was started
        (True, 90_000.5),
        (None, 90_000.5),
        ("warmup", "second"),
        ([1, 2], [1, 2, 3]),
        ({"phase": "warmup", "base": 1.5}, {"phase": "warmup", "base": 2.5}),
        ([{"name": "a", "loss": 1.5}], [{"name": "b", "loss": 2.5}]),
    ],
)
def test_what_has_not_is_as_in_the_first_one(first, own):
    assert mixed(first, own) == (first, False)


def test_of_a_process_it_is_not_known_how_far():
    """A checkpoint of an older version does not say it."""
    assert with_own(1000.25, 20.25, [], NOW) == (1000.25, False)


def test_a_container_is_of_both(tmp_path):
    """A folder that was made for a while, and moments, are the process's own; all else is not."""
    ours = tempfile.mkdtemp(dir=tmp_path)
    gone, there = "/nowhere/of/old", str(tmp_path / "data.csv")
    first = {
        "folders": [gone],
        "data": there,
        "base": 1.5,
        "at": time.time() - 500,
        "until": 1001.5,
    }
    own = {"folders": [ours], "data": ours, "base": 2.5, "at": time.time(), "until": 21.5}
    wanted = {**own, "base": 1.5}
    assert mixed(first, own) == (wanted, True)
    assert mixed([(first,)], [(own,)]) == ([(wanted,)], True)
    # What there is of each follows from the first one.
    assert mixed([], [ours]) == ([], False)
    assert mixed([gone], [ours, ours]) == ([ours], True)
    extended = {**own, "resumed_from": ours}
    assert mixed(first, extended) == (wanted, True)
    of_many = {"until": 1001.5, **dict.fromkeys(range(99), 1)}
    assert mixed(of_many, {**of_many, "until": 21.5}) == ({**of_many, "until": 21.5}, True)


def test_the_number_of_a_process_is_its_own(monkeypatch):
    monkeypatch.setattr(os, "getpid", lambda: 31_337)
    assert mixed({"pid": 4711}, {"pid": 31_337}) == ({"pid": 31_337}, True)
    monkeypatch.setattr(os, "getpid", lambda: 7)
    assert mixed({"count": 3}, {"count": 7}) == ({"count": 3}, False)


@pytest.mark.parametrize(
    "kind",
    [
        lambda items: defaultdict(float, items),
        OrderedDict,
        AttributeDict,
        lambda items: SimpleNamespace(**items),
        lambda items: argparse.Namespace(**items),
    ],
    ids=["defaultdict", "OrderedDict", "AttributeDict", "SimpleNamespace", "Namespace"],
)
def test_a_mapping_stays_one_of_its_class(kind):
    """Red at d1d6c4df: it became a plain dictionary, and `d["total"] += 1` failed."""
    first, own, wanted = (
        kind({"until": until, "base": base, "name": "x"})
        for until, base in ((1001.5, 1.5), (21.5, 2.5), (21.5, 1.5))
    )
    found, is_own = mixed(first, own)
    assert is_own
    assert found == wanted
    assert type(found) is type(first)
    assert getattr(found, "default_factory", None) is getattr(first, "default_factory", None)
    if isinstance(found, dict):
        assert [*found] == [*first]


def test_names_of_samples_are_as_in_the_first_one():
    """Red at d1d6c4df: below a folder of data they were taken for folders that are gone."""
    for name in ("n01/img_{}.png", "/m/09x0r{}", "/train/class_1/{}"):
        first, own = [name.format(1), 1.5], [name.format(2), 2.5]
        assert mixed(first, own) == (first, False)


def test_so_are_files_of_data_in_the_temporary_folder(tmp_path, monkeypatch):
    """Red at e92c9953: they were there in both processes."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    first, own = ([str(tmp_path / name), 1.5] for name in "ab")
    for path, _ in (first, own):
        Path(path).touch()
    assert mixed(first, own) == (first, False)
    left, ours = [tempfile.mkdtemp()], [tempfile.mkdtemp()]
    assert mixed(left, ours) == (ours, True)


@pytest.mark.parametrize(
    "draw", [lambda: uuid.uuid4().hex[:8], lambda: str(uuid.uuid4()), lambda: secrets.token_hex(3)]
)
def test_names_that_this_process_has_drawn_are_its_own(draw):
    """Red at b3a03f7a: by their looks, so that those of samples were taken for such."""
    for name in ("run-{}", "logs/{}/best.ckpt"):
        first, own = {"name": name.format("3fa85f64"), "base": 1}, {"name": name.format(draw())}
        assert mixed(first, own) == ({**own, "base": 1}, True)
        assert mixed({"name": "x"}, first | {"name": name.format("0ab1c2d3")}) == (
            {"name": "x"},
            False,
        )
    # Its keys, too.
    first, own = {"run-3fa85f64": [0.0]}, {f"run-{draw()}": [0.0]}
    assert mixed(first, own) == (own, True)


def test_what_lies_in_a_folder_that_was_drawn_is_the_first_ones():
    """Red at b3a03f7a: a list of files, the hardest first, was the resumed process's."""
    theirs, ours = tempfile.mkdtemp(), tempfile.mkdtemp()
    first, own = [f"{theirs}/img_1.png"], [f"{ours}/img_2.png"]
    assert mixed(first, own) == ([f"{ours}/img_1.png"], True)


@pytest.mark.parametrize("name", ["{}/img_{{}}.png", "/dev/utt_{}", "/home/item_{}", "{}_{{}}"])
def test_names_of_what_is_not_there_are_the_first_ones(tmp_path, name):
    """Red at b3a03f7a: a folder, or a file, of that name was there."""
    (tmp_path / "all.zip").touch()
    name = name.format(tmp_path / "all.zip") if name.startswith("{}") else name
    assert mixed([name.format(1), 0], [name.format(2), 0]) == ([name.format(1), 0], False)


def test_none_is_the_first_ones(tmp_path):
    """Red at b3a03f7a: `{"resumed_from": trainer.ckpt_path}` was the resumed process's."""
    for own in (str(tmp_path), time.time(), datetime.now(UTC), os.getpid()):
        assert mixed({"at": None, "x": 1}, {"at": own, "x": 1}) == ({"at": None, "x": 1}, False)


def test_clocks_in_other_forms():
    """Red at b3a03f7a: a time budget went on from the first process's start."""
    for first, own in [
        (1001.5e3, 21.5e3),  # milliseconds
        (int(1001.5e3), int(21.5e3)),
        (deque([1001.5], 9), deque([21.5], 9)),
        (torch.tensor(1001.5), torch.tensor(21.5)),
        ({"since": "2026-01-01T10:00:00"}, {"since": datetime.now(UTC).isoformat()}),
    ]:
        found, is_own = mixed(first, own)
        assert is_own
        assert found == own


def test_the_number_of_a_child_is_of_its_process():
    with subprocess.Popen(["sleep", "9"]) as child:
        own = max(child.pid, 1000)
        assert mixed(4711, child.pid) == ((child.pid, True) if own == child.pid else (4711, False))
        child.kill()
    assert mixed(4711, 1_000_000_007) == (4711, False)


def test_short_tables():
    """Red at e92c9953: two lists of 900 indices were as long as a thousand rows of texts."""
    assert len(in_short_table({"train": [*range(1800)], "folds": [[*range(400)]] * 5})) == 3800
    assert in_short_table({"train": [("a.png", 1)] * 2000, "val": []}) is None
    assert in_short_table({"train": ["a.png"] * 2000}) is None


def test_of_numbers_that_are_alike_the_first_one_is_as_good(tmp_path):
    """Of two machines that have just been started any two are as far from the clock as that."""
    just, later = [5.0, 60.0, 60.0], [6.0, 61.0, 61.0]
    assert with_own(113.556, 113.712, just, later) == (113.556, False)
    assert with_own(113.5, 133.5, just, [6.0, 81.0, 81.0]) == (133.5, True)


def test_a_file_of_data_is_as_in_the_first_one(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "a").touch()
    first, own = [str(tmp_path / "a"), 1.5], [str(tmp_path / "b"), 2.5]
    assert mixed(first, own) == (first, False)


def test_tensors_are_as_in_the_first_one():
    first, own = {"at": 1, "anchor": torch.zeros(2)}, {"at": 2, "anchor": torch.ones(2)}
    assert mixed(first, own) == (first, False)
    assert mixed([1.5, 2.5], [np.ones(2), 2.5]) == ([1.5, 2.5], False)


def test_the_clocks_are_those_that_count_from_the_start_of_the_machine():
    before = [time.monotonic(), time.perf_counter()]
    found, after = counted(), [time.monotonic(), time.perf_counter()]
    assert all(a <= b <= c for a, b, c in zip(before, found, after, strict=True))
