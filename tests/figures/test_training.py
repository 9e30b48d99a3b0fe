"""What the curves of a training are drawn from."""

import pytest
from example_runs import write_run

from twinrun.figures import training


@pytest.mark.parametrize("dash", ["_", "/"])
def test_training_and_validation_share_a_panel_whatever_joins_their_names(tmp_path, dash):
    logged = {f"train{dash}loss": [2, 1], f"val{dash}loss": [3, 2], "lr": [0.1, 0.01]}
    table = training._metrics(write_run(tmp_path, epochs=logged))
    found = table[["phase", "metric"]].fillna("").drop_duplicates().to_records(index=False)
    assert [tuple(each) for each in found] == [("train", "loss"), ("val", "loss"), ("", "lr")]


def test_metrics_of_any_size_are_drawn(tmp_path):
    """Red before: no axis is long enough for 3e308."""
    logged = {"huge": [1e200, 3e200], "both": [-1.7e308, 1.7e308], "tiny": [0, 5e-324]}
    run = write_run(tmp_path, epochs=logged)
    training.curves([run], variants=["deterministic"], output=tmp_path / "curves.svg")
    assert (tmp_path / "curves.svg").stat().st_size > 1000


def test_metrics_that_have_no_panel_are_named(tmp_path):
    """Red before: the seventh was left out in silence."""
    names = [
        "loss",
        "loss_step",
        "acc",
        "f1",
        "auc",
        "iou",
        "a_long_name/of/a_metric/class_7",
        "r2",
    ]
    logged = {name: [2, 1] for name in names}
    training.curves(
        [write_run(tmp_path, epochs=logged)],
        variants=["deterministic"],
        output=tmp_path / "curves.svg",
    )
    drawn = (tmp_path / "curves.svg").read_text()
    # And those that Lightning has under a second name had the panels of others.
    assert ">2 more, in epochs.csv of each run: r2, loss_step</text>" in drawn
    # A name that is longer than its panel is high was written over the others.
    assert ">a_long_n…_metric/class_7</text>" in drawn
