"""Stopped, refused, resumed and broken off are told apart, and only a resumed run is compared."""

import itertools
from contextlib import suppress

import pytest
from example_trainings import VARIANT, WORKLOAD, arguments

from twinrun.checkpoint import interrupt
from twinrun.comparison.compare import compare
from twinrun.comparison.matrix import tabulate
from twinrun.comparison.resume_loss import diagnose
from twinrun.comparison.study_records import read_matrix, read_stops
from twinrun.process.fresh_process import rebuilt
from twinrun.training import run as module_of_run
from twinrun.training.train import train

WITHOUT_VALIDATION = WORKLOAD | {"data": "stops:WithoutValidation"}
KEEPS_OBJECTS = WORKLOAD | {"module": "stops:KeepsObjects"}
OBJECTS = "a callback, optimizer or module keeps more than data"


class Ended(BaseException):
    """In place of a process that ends."""


@pytest.fixture
def trained(tmp_path, monkeypatch):
    """Train as the workflow does, in this process; return run.json."""

    def end(_):
        raise Ended

    def here(_, arguments, environment, **__):
        with suppress(Ended):
            train(**arguments)

    monkeypatch.setattr(interrupt.os, "_exit", end)
    monkeypatch.setattr(module_of_run, "launch", here)
    numbers = itertools.count(1)

    def run(workload, **changes):
        folder = tmp_path / str(next(numbers))
        asked = rebuilt(train, arguments(folder, workload, VARIANT | changes))["run"]
        module_of_run.run(asked, {})
        return asked.files.manifest

    return run


def stopped(trained, folder, workload, stop, resume):
    """Train whole, and stopped; return what the study resume and what a matrix say of it."""
    whole = trained(workload)
    other = trained(workload, stop=stop, resume=resume)
    diagnose(
        [{"stop": stop, "resume": resume, "whole": whole, "stopped": other}],
        workload="small",
        variant="plain",
        seed=1,
        folder=folder,
        table=folder / "stops.csv",
        summary=folder / "stops.json",
    )
    paths = [folder / f"matrix/{name}.json" for name in ("repeat", "stopped")]
    for path, run in zip(paths, (whole, other), strict=True):
        tables = {key: path.with_suffix(f".{key}.csv") for key in ("tensors", "steps")}
        compare([whole, run], summary=path, across=True, **tables)
    tabulate(
        [{"name": path.stem, "label": path.stem, "not_run": None} for path in paths],
        paths,
        workload="small",
        baseline="plain",
        seed=1,
        table=folder / "matrix.csv",
        summary=folder / "matrix.json",
    )
    (row,) = read_stops(folder / "stops.json")["stops"]
    return row, read_matrix(folder / "matrix.json")["cells"][1]


@pytest.mark.parametrize(
    ("workload", "stop", "resume", "reason"),
    [
        (WITHOUT_VALIDATION, "before_validation", "lightning", "the training has no validation"),
        (WORKLOAD, "mid_accumulation", "twinrun", "the training never comes to this point"),
        (KEEPS_OBJECTS, "mid_epoch", "twinrun", f"the checkpoint was refused: {OBJECTS}"),
        (
            WORKLOAD | {"epochs": 1},
            "mid_epoch",
            "twinrun",
            "the checkpoint was refused: none had been written before the stop",
        ),
    ],
)
def test_what_was_not_stopped_and_resumed_is_not_run(
    tmp_path, trained, workload, stop, resume, reason
):
    row, cell = stopped(trained, tmp_path, workload, stop, resume)
    for found in (row, cell):
        assert found["answer"] == "not run"
    assert row["lost"].startswith(reason)
    assert row["resumed_at"] is None
    assert cell["sentence"].startswith(f"not run, {reason}")
    assert cell["steps"] is None


def test_a_resumption_that_broke_off_is_a_result_and_says_why(tmp_path, trained):
    row, cell = stopped(trained, tmp_path, KEEPS_OBJECTS, "mid_epoch", "lightning")
    assert row["answer"] == "differs"
    assert row["lost"].startswith("the resumed training was broken off: UnpicklingError: Weights")
    assert cell["answer"] == "not comparable"
    assert "broken off: UnpicklingError" in cell["reason"]


def test_a_resumed_run_is_compared(tmp_path, trained):
    row, cell = stopped(trained, tmp_path, WORKLOAD, "mid_epoch", "twinrun")
    assert (row["answer"], row["resumed_at"], row["lost"]) == ("equal", 5, "nothing was lost")
    assert cell["answer"] == "equal"
