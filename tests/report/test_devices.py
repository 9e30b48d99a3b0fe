"""The table of the networks that a study of devices trained."""

import math

import pytest
from example_runs import write_run

from twinrun.report import devices


@pytest.mark.parametrize("logged", ["train_loss", "loss", "anything"])
def test_the_last_loss_is_told_whatever_a_module_logs(tmp_path, logged):
    run = write_run(tmp_path, losses=[4, 3, 2, 2, 1, 0], epochs={logged: [9, 9]})
    assert devices._last_loss({"path": run}) == 1


def test_a_loss_that_is_no_number_is_not_passed_over(tmp_path):
    run = write_run(tmp_path, losses=[4, 3, 2, 2, 1, math.nan])
    assert math.isnan(devices._last_loss({"path": run}))


@pytest.mark.parametrize(
    ("crossover", "sizes", "besides"),
    [
        (None, {"slower": [16], "undecided": [512], "not run": [4096]},
         "slower at 16 batch; undecided at 512 batch; not run at 4,096 batch"),
        (None, {"not run": [16, 512]}, "not run at every size, 16 to 512 batch"),
        (126.4, {"slower": [16], "faster": [512]}, ""),
        (4096.0, {"undecided": [16], "not run": [512], "faster": [4096]},
         "undecided at 16 batch; not run at 512 batch"),
    ],
)  # fmt: skip
def test_a_crossing_names_what_was_not_run_or_is_undecided(crossover, sizes, besides):
    """Red before: "faster from 126 batch on" beside an undecided and a failed size, unnamed."""
    found = {"variant": "bf", "crossover": crossover, "sizes": sizes}
    assert devices._besides(found, "batch") == besides
