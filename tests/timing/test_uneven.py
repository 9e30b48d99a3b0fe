"""Ratios of mini-batches that are not of one size, planted: their direction is that of an epoch."""

import numpy as np
import pandas as pd
import pytest
import torch

from twinrun.batches import elements
from twinrun.timing.ratio_words import effect_of
from twinrun.timing.ratios import medians, overheads, ratios
from twinrun.timing.uneven import positions, unevenness


def timing(one, two, sizes, *, rounds, steps=5, seed=0):
    """Return a table of two variants' rounds, from seconds of each mini-batch, and its extents."""
    rng = np.random.default_rng(seed)
    rows = [
        {
            "variant": name,
            "device": "cpu",
            "size": np.nan,
            "phase": "train",
            "round": number + 1,
            "steps": steps,
            "seconds": sum(epoch[(number * steps + k) % len(epoch)] for k in range(steps))
            * np.exp(rng.normal(0, 0.02)),
        }
        for name, epoch in (("one", one), ("two", two))
        for number in range(rounds)
    ]
    found = unevenness(sizes, positions(0, rounds * steps, len(sizes)))
    extent = {"size": None, "train": len(sizes), "predict": None}
    return pd.DataFrame(rows), [extent if found is None else {**extent, "uneven": {"train": found}}]


@pytest.mark.parametrize(("large", "rounds"), [((12,), 12), ((12,), 24), ((11, 12), 24)])
def test_few_large_batches_leave_the_direction_open_that_most_rounds_show(large, rounds):
    one = [6.0 if k in large else 0.03 for k in range(30)]
    two = [3.0 if k in large else 0.06 for k in range(30)]
    table, extents = timing(one, two, [40 if k in large else 2 for k in range(30)], rounds=rounds)
    assert effect_of(ratios(table, "one")[0]) == "slower"  # by the median of the rounds alone
    (ratio,) = ratios(table, "one", extents)
    assert effect_of(ratio) == "no difference measured"
    assert ratio["time_ratio"] == pytest.approx(sum(two) / sum(one), rel=0.1)
    assert ratio["uneven"]["of_rounds"] == pytest.approx(2, rel=0.05)
    means = [median["seconds_per_step"] for median in medians(table, extents)]
    assert means == pytest.approx([sum(one) / 30, sum(two) / 30], rel=0.1)


@pytest.mark.parametrize("spread", [0.5, 1.0])
def test_batches_of_lognormal_lengths_are_not_left_undecided(spread):
    """A tenth of time is seen of them as of even ones, at whatever length a step takes long."""
    for seed in range(20):
        lengths = np.exp(np.random.default_rng(seed).normal(0, spread, 60))
        seconds = 0.02 + 0.02 * lengths
        sizes = [int(1000 * length) for length in lengths]
        table, extents = timing(seconds, 0.9 * seconds, sizes, rounds=24, seed=seed)
        (ratio,) = ratios(table, "one", extents)
        assert (effect_of(ratio), ratio["uneven"]["unmeasured"]) == ("faster", 0)


@pytest.mark.parametrize("sizes", [[64] * 30, [64] * 29 + [3], [64, 70] * 15])
def test_even_batches_and_a_smaller_last_one_change_no_digit(sizes):
    table, extents = timing([0.03] * 30, [0.02] * 30, sizes, rounds=12)
    assert "uneven" not in extents[0]
    assert ratios(table, "one", extents) == ratios(table, "one")
    assert medians(table, extents) == medians(table)


def test_batches_sorted_by_their_size_are_uneven_where_only_the_small_ones_were_measured():
    found = unevenness(range(1, 101), range(20))
    assert found == {"times": pytest.approx(100 / 10.5), "unmeasured": 75}
    assert unevenness([1] * 10 + [64] * 90, range(20)) == {"times": 64 / 32.5, "unmeasured": 0}


def test_the_trainers_cost_is_that_of_all_rounds_together():
    bare = [6.0 if k == 12 else 0.03 for k in range(30)]
    table, extents = timing(bare, [x + 0.03 for x in bare], [1] * 12 + [20] + [1] * 17, rounds=12)
    table = table.assign(phase=table.variant.map({"one": "train", "two": "trainer"}), variant="one")
    (cost,) = overheads(table, extents)
    assert cost["time_ratio"] == pytest.approx((sum(bare) + 0.9) / sum(bare), rel=0.05)
    assert effect_of(cost) == "no difference measured"


def test_elements_are_those_of_tensors_arrays_and_text_wherever_they_lie():
    batch = {"text": ["ab", "cde"], "of": (torch.zeros(2, 3), np.zeros(4)), "index": 7}
    assert elements(batch) == 5 + 6 + 4 + 1
