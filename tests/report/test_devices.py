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
