"""Only what can have done it is named: an operation from which data flow to what differed first.

Each module has something beside its fault that differs as well, such as a logged throughput.
"""

from pathlib import Path

import faults_in_a_step
import pandas as pd
import pytest
from auditing import audit, in_this_process
from example_trainings import HERE

from twinrun.trace.op_rows import KEY


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch):
    with in_this_process(monkeypatch):
        yield


def faulty_lines(module, mark="FAULT"):
    """Return the lines that a class, or those it takes its parts from, marks as the fault."""
    lines = Path(HERE, "faults_in_a_step.py").read_text().splitlines()
    names = {"Backward": "_Scaled"}
    start = next(
        n for n, line in enumerate(lines) if line.startswith(f"class {names.get(module, module)}(")
    )
    end = next(
        (n for n in range(start + 1, len(lines)) if lines[n].startswith("class ")), len(lines)
    )
    return [n + 1 for n in range(start, end) if lines[n].endswith(f"# {mark}")]


def seldom(*case):
    """Leave a case to the exhaustive run: its neighbours show the same, and each trains twice."""
    return pytest.param(*case, marks=pytest.mark.exhaustive)


@pytest.mark.one_in(10)
@pytest.mark.parametrize(
    ("module", "quantity", "phase", "op"),
    [
        ("Backward", "gradients", "backward", "aten::mul"),
        ("Forward", "loss", "forward", "aten::mul"),
        # Red before: in the optimizer step.
        ("SecondEvaluation", "loss", "forward", "aten::mul"),
        seldom("Transferred", "loss", "forward", "aten::mul"),
        seldom("BeforeNorm", "buffers", "forward", "aten::mul"),
        ("OptimizerStep", "parameters", "optimizer", "aten::add_"),
        seldom("Statistics", "buffers", "forward", "aten::add_"),
        ("InPlace", "loss", "forward", "aten::mul_"),
        ("ThroughAView", "loss", "forward", "aten::full"),
        seldom("BesideInOneTensor", "loss", "forward", "aten::lift_fresh"),
        seldom("ThroughItem", "loss", "forward", "aten::mul"),
        seldom("ThroughPython", "loss", "forward", "aten::mul"),
        seldom("ReusedMemory", "loss", "forward", "aten::lift_fresh"),
        ("OtherRow", "loss", "forward", "aten::select"),
        seldom("Branch", "loss", "forward", "aten::add"),
        ("MissingBranch", "loss", "forward", "aten::add"),
        ("MissingBranchOfTheBatch", "buffers", "forward", "aten::add"),
        ("BehindTheOptimizersStep", "parameters", "optimizer", "aten::mul_"),
        ("ExtraDraw", "RNG states after the step", "forward", "aten::rand"),
        seldom("NumPyView", "loss", "forward", "aten::mean"),
        seldom("AfterBackward", "gradients", "backward", "aten::add_"),
        # Red before: no line at all, and the line of the layer.
        ("SecondGradient", "gradients", "backward", "aten::add"),
        ("HookedActivation", "gradients", "backward", "aten::add"),
        seldom("MemoryAndRate", "loss", "forward", "aten::mul"),
        seldom("CompilesItself", "loss", "forward", "aten::mul"),
        ("OrderOfACat", "buffers", "forward", "aten::cat"),
        ("OrderOfColumns", "buffers", "forward", "aten::stack"),
        ("LongerCat", "buffers", "forward", "aten::cat"),
        ("OneOfTwo", "buffers", "forward", "aten::mul"),
        ("OneOfTwoColumns", "buffers", "forward", "aten::mul"),
        ("LongerCatByABranch", "buffers", "forward", "aten::exp"),
        # Red before: "read memory that nobody had written", where it was used.
        ("DeepCopied", "buffers", "forward", "aten::mul"),
        seldom("UsesACopy", "buffers", "forward", "aten::mul"),
        ("Loads", "buffers", "forward", "aten::mm"),
    ],
)
def test_the_fault_is_named_and_nothing_beside_it(tmp_path, module, quantity, phase, op):
    found, location = audit(tmp_path, module=module, faults="faults_in_a_step")
    assert found["first_difference"]["quantity"] == quantity
    named = location["op"]
    assert (location["answer"], named["phase"], named["op"]) == ("located", phase, op)
    (line,) = faulty_lines(module)
    assert named["source"].endswith(f"faults_in_a_step.py:{line}")
    assert location["fired"] == location["repeats"]
    assert named["differs_in"] != "unwritten"
    # Its position is its row of the table; what the record alone has done stands in none.
    is_left_out = module.startswith(("MissingBranch", "LongerCatByABranch"))
    assert (named["position"] is None) == is_left_out
    if named["position"] is not None:
        (table,) = tmp_path.rglob("*operations.csv")
        row = pd.read_csv(table, keep_default_na=False).set_index("position").loc[named["position"]]
        assert all(row[part] == named[part] for part in KEY)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("module", ["Throughput", "Memory"])
def test_what_differs_and_reaches_nothing_is_no_difference(tmp_path, module):
    found, location = audit(tmp_path, module=module, faults="faults_in_a_step")
    assert (found["answer"], location["answer"]) == ("equal", "equal")


def test_what_a_process_counts_from_repeat_to_repeat_is_not_named(tmp_path):
    """Red before: the first repeat was equal, and in the others the count was named."""
    _, location = audit(tmp_path, module="CountsInAClosure", faults="faults_in_a_step")
    (line,) = faulty_lines("CountsInAClosure")
    assert location["op"]["source"].endswith(f"faults_in_a_step.py:{line}")
    assert (location["fired"], location["repeats"]) == (2, 3)
    assert "another operation was the first" not in location["sentence"]


def test_a_fault_that_is_hidden_by_an_earlier_one_is_kept_too(tmp_path):
    """Red before: only the first, and what mends it was said to mend all."""
    _, location = audit(tmp_path, module="OneBehindTheOther", faults="faults_in_a_step")
    first, second = faulty_lines("OneBehindTheOther")
    assert location["op"]["source"].endswith(f"faults_in_a_step.py:{first}")
    (other,) = location["others"]
    assert other["source"].endswith(f"faults_in_a_step.py:{second}")


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("module", "op", "words"),
    [
        ("DrawsOfTheRecordAlone", "aten::randint", "The step did other operations in 3 of 3"),
        ("DrawsInOrder", "", "the step does the same draws in another order"),
        ("Reseeds", "aten::bernoulli_", "torch's own, with which the step begins alike, was seed"),
    ],
)
def test_who_draws_from_a_state_that_is_another_one_is_not_blamed(tmp_path, module, op, words):
    """Red before: "seed its generator from the run's seed", of a dropout."""
    _, location = audit(tmp_path, module=module, faults="faults_in_a_step")
    assert op in location["op"]["op"]
    assert words in location["sentence"]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("module", "is_read"),
    [
        ("ReadsARace", True),
        ("ReadsARaceByNumPy", False),
        ("BranchesOnARace", True),
        ("CopiesARace", False),
    ],
)
def test_what_python_gives_may_be_computed_from_what_an_operation_gave(tmp_path, module, is_read):
    """Red before: "from outside of torch (a clock, ...)", and no word of the race that decided."""
    _, location = audit(tmp_path, module=module, faults="faults_in_a_step")
    (line,) = faulty_lines(module)
    assert location["op"]["source"].endswith(f"faults_in_a_step.py:{line}")
    (line,) = faulty_lines(module, "RACE")
    suspect = location["suspect"]
    assert (suspect["op"]["op"], suspect["op"]["differs_in"]) == ("faults::race", "outputs")
    assert suspect["op"]["source"].endswith(f"faults_in_a_step.py:{line}")
    assert suspect["is_read"] == is_read
    assert (suspect["fired"], location["fired"]) == (3, 3)
    assert f"faults_in_a_step.py:{line}, gave other values from equal i" in location["sentence"]


def test_what_was_changed_unseen_may_be_computed_from_what_an_operation_gave(tmp_path):
    _, location = audit(tmp_path, module="MovesByARace", faults="faults_in_a_step")
    assert (location["answer"], location["differed"]) == ("not located", 3)
    assert location["suspect"]["op"]["op"] == "faults::race"


@pytest.mark.one_in(3)
@pytest.mark.parametrize("module", ["LogsARace", "Forward"])
def test_what_comes_behind_or_from_python_itself_is_not_suspected(tmp_path, module):
    _, location = audit(tmp_path, module=module, faults="faults_in_a_step")
    assert (location["answer"], location["suspect"]) == ("located", None)


def test_what_is_rounded_away_in_a_replay_is_a_likely_origin(tmp_path):
    """Red before: "by data flow it does not reach the loss", and a cause outside of the step."""
    _, location = audit(tmp_path, module="LostByRounding", faults="faults_in_a_step")
    assert (location["answer"], location["op"]) == ("not located", None)
    (line,) = faulty_lines("LostByRounding")
    assert location["likely"]["source"].endswith(f"faults_in_a_step.py:{line}")
    assert (location["fired"], location["repeats"]) == (3, 3)
    assert "gave the same loss every time" in location["sentence"]
    assert "By data flow it leads to the loss" in location["sentence"]
    # That it never reached the loss speaks against it.
    assert "Or it is this, which was not seen to do it" in location["sentence"]
    (table,) = tmp_path.rglob("*operations.csv")
    row = pd.read_csv(table, keep_default_na=False).set_index("position")
    assert row.loc[location["likely"]["position"]]["op"] == location["likely"]["op"]


def test_what_was_equal_in_the_pair_alone_is_no_proof_of_another_cause(tmp_path):
    """Red before: "the repeats differ by something that is not put back for each of them"."""
    found, location = audit(tmp_path, module="EqualInThePair", faults="faults_in_a_step")
    assert found["first_difference"]["quantity"] == "gradients"
    (line,) = faulty_lines("EqualInThePair")
    assert (location["answer"], location["op"]) == ("not located", None)
    assert location["likely"]["source"].endswith(f"faults_in_a_step.py:{line}")
    assert "also what was equal in the pair: equal by rounding there, or" in location["sentence"]


def test_the_step_in_which_the_pair_diverged_is_replayed(tmp_path):
    """Red before: step 1, and no word that it is another one."""
    found, location = audit(tmp_path, module="DivergesEarlierAgain", faults="faults_in_a_step")
    assert found["first_difference"]["step"] == location["step"] == 3
    (line,) = faulty_lines("DivergesEarlierAgain")
    assert location["op"]["source"].endswith(f"faults_in_a_step.py:{line}")
    assert "had diverged from the first run at step 1 (loss)" in location["sentence"]


def test_a_training_that_ends_before_the_step_leads_to_no_replay(tmp_path):
    _, location = audit(tmp_path, module="EndsEarlierAgain", faults="faults_in_a_step")
    assert (location["answer"], location["repeats"]) == ("not located", 0)
    said = "because the training that was to repeat the run ended before step 3."
    assert location["sentence"].endswith(said)


def test_memory_that_something_else_has_filled_is_not_said_to_be_unwritten(tmp_path):
    """Red before: "read memory that nobody had written"."""
    _, location = audit(tmp_path, module="FilledByNumPy", faults="faults_in_a_step")
    (line,) = faulty_lines("FilledByNumPy")
    assert location["op"]["source"].endswith(f"faults_in_a_step.py:{line}")
    assert "read memory that no operation had written" in location["sentence"]
    assert "what filled it (NumPy, another library" in location["sentence"]


def test_an_operation_of_the_record_alone_is_told_where_nothing_else_differs(tmp_path):
    """Red before: the step "gave the same every time"."""
    _, location = audit(tmp_path, module="OfTheRecordAlone", faults="faults_in_a_step")
    (line,) = faulty_lines("OfTheRecordAlone")
    assert location["answer"] == "not located"
    assert f"faults_in_a_step.py:{line}, which one process alone did" in location["sentence"]


def test_where_nothing_can_have_done_it_nothing_is_named(tmp_path):
    found, location = audit(tmp_path, module="PythonGenerator", faults="faults_in_a_step")
    assert found["first_difference"]["tensor"] == "python"
    assert (location["answer"], location["op"]) == ("not located", None)
    assert "changed outside of the operations that are traced" in location["sentence"]
    # What was seen is said, and that it has not done it.
    assert "aten::lift_fresh in the forward pass" in location["sentence"]
    assert "no data flow that is traced leads from it to the RNG states" in location["sentence"]


def test_every_fault_of_the_module_is_tried():
    cases = [case for mark in MARKS if mark.name == "parametrize" for case in mark.args[1]]
    tried = {getattr(case, "values", case)[0] for case in cases}
    classes = {
        name
        for name, value in vars(faults_in_a_step).items()
        if isinstance(value, type) and issubclass(value, faults_in_a_step.Base)
    }
    clean = {"Base", "Throughput", "Memory", "PythonGenerator", "CountsInAClosure"}
    clean |= {"Chooses", "LostByRounding", "EqualInThePair", "DivergesEarlierAgain"}
    clean |= {"FilledByNumPy", "OfTheRecordAlone", "EndsEarlierAgain", "OneBehindTheOther"}
    clean |= {"DrawsOfTheRecordAlone", "DrawsInOrder", "Reseeds", "LogsARace"}
    clean |= {"ReadsARace", "ReadsARaceByNumPy", "BranchesOnARace", "CopiesARace", "MovesByARace"}
    assert classes - clean == tried


MARKS = test_the_fault_is_named_and_nothing_beside_it.pytestmark


def test_what_a_module_compiles_by_itself_is_replayed_without_and_said(tmp_path):
    """A whole graph is an error where operations are watched."""
    found, location = audit(tmp_path, module="CompilesItself", faults="faults_in_a_step")
    assert found["compiler_cache"] is not None
    assert location["fired"] == location["repeats"]
    assert "was not compiled in the repeats" in location["sentence"]
