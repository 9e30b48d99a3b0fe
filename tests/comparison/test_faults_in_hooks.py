"""What a hook around a step does is named, or said to lie outside of the step: never a race."""

from pathlib import Path

import pytest
from auditing import audit, in_this_process
from example_trainings import HERE

LINES = Path(HERE, "faults_in_hooks.py").read_text().splitlines()


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch):
    with in_this_process(monkeypatch):
        yield


def lines_of(mark):
    return [n for n, line in enumerate(LINES, start=1) if line.endswith(f"# {mark}")]


def seldom(*case):
    """Leave a case to the exhaustive run: its neighbours show the same, and each trains twice."""
    return pytest.param(*case, marks=pytest.mark.exhaustive)


@pytest.mark.one_in(12)
@pytest.mark.parametrize(
    ("module", "mark", "phase"),
    [
        seldom("ModuleBatchStart", "WEIGHTS", "forward"),
        ("ModuleBatchInPlace", "IN PLACE", "forward"),
        seldom("ModuleNumber", "NUMBER", "forward"),
        seldom("ModuleBeforeZeroGrad", "WEIGHTS", "forward"),
        seldom("ModuleZeroGrad", "WEIGHTS", "forward"),
        seldom("ModuleScalesGradients", "OLD GRADIENTS", "forward"),
        seldom("ModuleBeforeBackward", "WEIGHTS", "backward"),
        ("ModuleAfterBackward", "GRADIENTS", "backward"),
        seldom("ModuleBeforeOptimizerStep", "GRADIENTS", "optimizer"),
        ("ModuleClips", "GRADIENTS", "optimizer"),
        # Red before: in the forward pass.
        ("ModuleOptimizerStep", "WEIGHTS", "after update"),
        ("ByHandBehind", "WEIGHTS", "after update"),
        ("ByHandForward", "IN PLACE", "forward"),
        seldom("CallbackBatchStart", "WEIGHTS", "forward"),
        seldom("CallbackBeforeZeroGrad", "WEIGHTS", "forward"),
        ("CallbackBeforeBackward", "WEIGHTS", "backward"),
        seldom("CallbackAfterBackward", "GRADIENTS", "backward"),
        seldom("CallbackBeforeOptimizerStep", "GRADIENTS", "optimizer"),
    ],
)
def test_a_fault_in_a_hook_inside_the_step_is_named_and_fires_always(tmp_path, module, mark, phase):
    _, location = audit(tmp_path, module=module, faults="faults_in_hooks")
    assert location["answer"] == "located", location["sentence"]
    named = location["op"]
    assert (location["fired"], location["repeats"]) == (3, 3)
    assert named["phase"] == phase
    assert location["cause"] == ("optimizer" if phase == "after update" else phase)
    assert int(named["source"].partition("faults_in_hooks.py:")[2]) in lines_of(mark)
    assert "was given another value by Python" in location["sentence"]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("module", "quantity"),
    [
        seldom("ModuleBatchEnd", "parameters before the step"),
        ("ModuleBuffer", "buffers before the step"),
        seldom("ModuleEpochStart", "parameters before the step"),
        ("CallbackBatchEnd", "parameters before the step"),
        seldom("CallbackEpochStart", "parameters before the step"),
        seldom("ModuleBeforeTransfer", "content of the batch"),
        ("ModuleTransfer", "content of the batch"),
        seldom("ModuleAfterTransfer", "content of the batch"),
    ],
)
def test_a_fault_in_a_hook_outside_of_the_step_is_said_to_lie_there(tmp_path, module, quantity):
    _, location = audit(tmp_path, module=module, faults="faults_in_hooks")
    assert location["answer"] == "not located"
    assert quantity in location["sentence"]
    assert "No operation of a step decides it" in location["sentence"]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("module", ["RecordSkipsZeroGrad", "RepeatSkipsZeroGrad"])
def test_gradients_that_are_left_from_the_step_before_are_named_where_they_are_added(
    tmp_path, module
):
    found, location = audit(tmp_path, module=module, faults="faults_in_hooks")
    assert found["first_difference"]["quantity"] == "gradients"
    assert location["answer"] == "located", location["sentence"]
    assert (location["fired"], location["repeats"]) == (3, 3)
    assert location["op"]["phase"] == "backward"
    assert location["op"]["differs_in"] == "operations"


def test_a_batch_that_is_changed_in_place_is_whole_in_each_repeat(tmp_path):
    """Arrays stay arrays, as the run had them."""
    _, location = audit(tmp_path, module="SeesItsBatch", faults="faults_in_hooks")
    assert (location["fired"], location["repeats"]) == (3, 3)
