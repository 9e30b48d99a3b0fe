"""What runs give beside their weights: of several repeats the one that differs speaks."""

import pytest
import torch
from comparing import compared
from example_runs import write_run

OTHER = {
    "logged": {"epochs": {"train_loss": [0.5, 0.125]}},
    "metrics": {"changes": {"metrics": {"test_loss": 0.5}}},
    "predictions": {"predictions": {"scores": torch.zeros(2, 3)}},
}
SAME = {
    "logged": {"epochs": {"train_loss": [0.5, 0.25]}},
    "metrics": {"changes": {"metrics": {"test_loss": 0.25}}},
    "predictions": {"predictions": {"scores": torch.ones(2, 3)}},
}


@pytest.mark.parametrize("output", OTHER)
@pytest.mark.parametrize("differing", [1, 2, 3, 4])
def test_one_repeat_that_gives_others_is_not_hidden_by_equal_ones(tmp_path, output, differing):
    runs = [
        write_run(tmp_path, repeat, **(OTHER if repeat == differing else SAME)[output])
        for repeat in (1, 2, 3, 4)
    ]
    found = compared(tmp_path, *runs)[0][output]
    assert found["answer"] == "differs"
    assert found["differing"] > 0


@pytest.mark.parametrize("output", ["metrics", "predictions"])
@pytest.mark.parametrize("kept", [2, 3])
def test_what_one_repeat_alone_could_give_differs(tmp_path, output, kept):
    """Two runs that failed alike were not compared, which says nothing of the third."""
    failed = {"not_evaluated": {"test": "no memory", "predict": "no memory"}}
    runs = []
    for repeat in (1, 2, 3):
        given = dict(OTHER[output]) if repeat == kept else {"changes": failed}
        runs.append(write_run(tmp_path, repeat, **given))
    assert compared(tmp_path, *runs)[0][output]["answer"] == "differs"
