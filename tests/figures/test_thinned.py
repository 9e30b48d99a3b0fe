"""Long lines are drawn by fewer points, without losing what they show."""

import numpy as np
import pandas as pd
import pytest
from example_runs import write_run

from twinrun.figures import training
from twinrun.figures.thinned import KEPT, RANGES, summed_up, thinned


def long_line(runs=1, epochs=30_000):
    values = np.random.default_rng(0).random((runs, epochs))
    epoch = np.tile(np.arange(1, epochs + 1), runs)
    return values, pd.DataFrame({"epoch": epoch, "value": values.ravel()})


@pytest.mark.parametrize("shown", [thinned, summed_up])
def test_a_short_line_is_left_as_it_is(shown):
    _, table = long_line(epochs=RANGES * KEPT)
    assert shown(table, x="epoch", y="value") is table


@pytest.mark.parametrize("runs", [1, 3])
def test_a_noisy_line_is_drawn_as_its_median_between_least_and_most(runs):
    """Red before: the least and the most of each hundredth were joined to one broad stripe."""
    values, table = long_line(runs)
    values[-1, 12_345], values[0, 0] = 50, 2
    table["value"] = values.ravel()
    found = summed_up(table, x="epoch", y="value")
    assert found["value"][found["epoch"] == 1].tolist() == values[:, 0].tolist()
    of_ranges = found[found["epoch"] > 1].groupby("epoch")["value"].agg(["min", "median", "max"])
    assert len(of_ranges) == RANGES
    for number in (1, 41, 99):
        of = values[:, number * 300 : (number + 1) * 300]
        assert of_ranges.index[number] == number * 300 + 150.5
        expected = [of.min(), np.median(of), of.max()]
        assert of_ranges.iloc[number].tolist() == pytest.approx(expected)
    assert of_ranges["max"].max() == 50


@pytest.mark.parametrize("runs", [1, 3])
def test_a_long_line_keeps_its_ends_and_each_spike(runs):
    values, _ = long_line(runs)
    values[0, 12_345] = 50  # of one run
    values[:, 23_456] = 7  # of all, which shows in the median
    values[-1, 20_000] = -50
    epoch = np.tile(np.arange(1, values.shape[1] + 1), runs)
    table = pd.DataFrame({"epoch": epoch, "value": values.ravel()})
    kept = thinned(table, x="epoch", y="value")
    found = kept["epoch"].unique()
    assert len(found) <= RANGES * KEPT + 2
    assert {1, 30_000, 12_346, 23_457, 20_001} <= set(found)
    assert len(kept) == runs * len(found)  # so that median and range are those of all runs


def test_the_curves_of_a_long_training_are_a_small_picture(tmp_path):
    """Red before: 9 MB, and 48 s to draw them."""
    values, _ = long_line(runs=4)
    logged = {f"{phase}_{name}": values[i] for i, (phase, name) in enumerate(NAMES)}
    runs = [write_run(tmp_path, repeat, epochs=logged) for repeat in (1, 2)]
    training.curves(runs, variants=["deterministic"], output=tmp_path / "curves.svg")
    drawn = (tmp_path / "curves.svg").read_text()
    assert len(drawn) < 150_000
    assert "of each hundredth: median, and least to most" in drawn


NAMES = [("train", "loss"), ("val", "loss"), ("train", "accuracy"), ("val", "accuracy")]
