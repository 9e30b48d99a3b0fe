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
