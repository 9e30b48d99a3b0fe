"""Weights that no module holds are compared at the end; nothing trained is nothing equal."""

import pandas as pd
import pytest
import torch
from comparing import compared, pair, verdicts
from example_runs import example_parameters, seal, write_run

from twinrun import artifacts
from twinrun.comparison.advice import ADVICE
from twinrun.comparison.causes import CAUSES
from twinrun.comparison.compare import compare_seeds
from twinrun.comparison.difference_words import clause_of
from twinrun.comparison.pair_records import read_comparisons
from twinrun.run_files import end_of, read_run


def held(*prints, is_reached=True, is_still=False):
    return {"prints": list(prints), "is_reached": is_reached, "is_still": is_still}


ONE, OTHER = ({"agent.net.weight": held(print_), "scale": held("0a")} for print_ in ("0b", "0c"))


def untrained(folder, repeat, **options):
    """Write a run of which no step changes a parameter or a buffer."""
    run = write_run(folder, repeat, **{"began": {}, **options})
    table = pd.read_csv(run.with_name("steps.csv"), dtype=str)
    for name in ("before", "parameters", "buffers_before", "buffers"):
        table[name] = table["before"][0]
    artifacts.write_csv(run.with_name("steps.csv"), table)
    seal(run.parent)
    return run


def test_weights_outside_the_module_that_end_alike_are_named_beside_equal(tmp_path):
    row = verdicts(tmp_path, *pair(tmp_path, changes={"not_held": ONE}))["repeats"]
    assert row["answer"] == "equal"
    words = "was compared at the end alone, and is equal there (2 tensors: agent.net.weight, scale)"
    assert row["measured"].endswith(words)
    assert "at the end alone" not in verdicts(tmp_path, *pair(tmp_path))["repeats"]["measured"]


def test_what_was_not_trained_is_no_condition_and_counts_if_it_differs(tmp_path):
    """Red before: `equal` on a condition, of inputs that no training changes."""
    still = [{"points": held(print_, is_still=True)} for print_ in ("0a", "0b")]
    row = verdicts(tmp_path, *pair(tmp_path, changes={"not_held": still[0]}))["repeats"]
    assert row["answer"] == "equal"
    assert "requires gradients" not in row["measured"]
    runs = [write_run(tmp_path, of, changes={"not_held": still[of - 1]}) for of in (1, 2)]
    assert verdicts(tmp_path, *runs)["repeats"]["answer"] == "differs"


@pytest.mark.parametrize("other", [OTHER, {"scale": held("0a")}])
def test_weights_outside_the_module_that_end_otherwise_differ(tmp_path, other):
    """Red before: `equal`, and that they were not compared."""
    runs = [write_run(tmp_path, 1, changes={"not_held": ONE})]
    runs.append(write_run(tmp_path, 2, changes={"not_held": other}))
    row = verdicts(tmp_path, *runs)["repeats"]
    assert row["answer"] == "differs"
    assert row["question"] == "Is everything equal, bit for bit?"
    where = "first by the end of step 6, seen in the weights outside the module of agent.net.weight"
    assert row["measured"].startswith(f"0 of 36 parameters differ, {where} (2 runs, 6 steps); but")
    assert "differs at the end (1 tensor: agent.net.weight)" in row["measured"]


def test_of_a_pair_without_parameters_none_is_counted(tmp_path):
    """Red before: `equal, 0 of 0 parameters differ; no step changes a parameter`."""
    changes = [{"not_held": beside} for beside in (ONE, OTHER)]
    first = untrained(tmp_path, 1, parameters={}, changes=changes[0])
    second = untrained(tmp_path, 2, parameters={}, changes=changes[1])
    row = verdicts(tmp_path, first, second)["repeats"]
    assert row["answer"] == "differs"
    assert row["measured"].startswith("there are no parameters, first by the end of step 6")
    assert "no step changes" not in row["measured"]
    assert "; more of the kind was compared at the end alone" in row["measured"]


def test_what_cannot_be_looked_at_is_said_not_to_be_compared(tmp_path):
    row = verdicts(tmp_path, *pair(tmp_path, changes={"not_held": {"odd": held("")}}))["repeats"]
    assert row["answer"] == "equal"
    assert row["measured"].endswith("could not be compared (1 tensor: odd)")


@pytest.mark.parametrize("other", [{}, {"a tensor": held("0a", "0b", is_reached=False)}])
def test_tensors_whose_number_may_be_chance_are_named_and_no_difference(tmp_path, other):
    """Red before: `differs`, since a thread of one of the runs still held a tensor."""
    one = {"a tensor": held("0a", is_reached=False)}
    runs = [write_run(tmp_path, 1, changes={"not_held": one})]
    runs.append(write_run(tmp_path, 2, changes={"not_held": other}))
    row = verdicts(tmp_path, *runs)["repeats"]
    assert row["answer"] == "equal"
    assert row["measured"].endswith("could not be compared (1 tensor: a tensor)")


def test_what_could_not_be_compared_makes_no_other_training_of_one(tmp_path):
    """Red before: a tensor that is there by chance let an expected fingerprint fail."""
    chance = {"a tensor": held("", is_reached=False)}
    runs = [write_run(tmp_path, 1, changes={"not_held": of}) for of in ({}, chance)]
    assert len({end_of(read_run(run)) for run in runs}) == 1


@pytest.mark.parametrize("buffers", [{}, {"codes": torch.ones(3)}])
def test_a_pair_that_no_step_changes_is_not_run(tmp_path, buffers):
    """Red before: `equal ... no step changes a parameter`, whatever was trained elsewhere."""
    options = {"buffers": buffers, "changes": {"not_held": ONE}}
    row = verdicts(tmp_path, *(untrained(tmp_path, of, **options) for of in (1, 2)))["repeats"]
    assert row["answer"] == "not run"
    begin = "nothing that was trained was compared: no step changes a parameter or a buffer; make"
    assert row["measured"].startswith(begin)
    assert row["measured"].endswith("is equal there (2 tensors: agent.net.weight, scale)")


@pytest.mark.parametrize(
    "began", [{"head.weight": torch.zeros(1)}, {"codes": torch.zeros(3)}], ids=list
)
def test_what_is_set_behind_the_last_step_was_trained(tmp_path, began):
    """Red before: "nothing that was trained was compared", of a fit of what the steps gathered."""
    options = {"buffers": {"codes": torch.ones(3)}, "began": began}
    row = verdicts(tmp_path, *(untrained(tmp_path, of, **options) for of in (1, 2)))["repeats"]
    assert row["answer"] == "equal"
    assert ("no step changes a parameter" in row["measured"]) == ("codes" in began)


def test_a_pair_without_a_tensor_is_not_run(tmp_path):
    """Red before: `equal, 0 of 0 parameters differ`, and every seed led to the same training."""
    runs = [
        write_run(tmp_path / str(seed), repeat, parameters={}, changes={"seed": seed})
        for seed in (1, 2)
        for repeat in (1, 2)
    ]
    rows = verdicts(tmp_path, *runs)
    assert rows["repeats"]["answer"] == "not run"
    assert "holds no parameter and no buffer" in rows["repeats"]["measured"]
    assert "seed_matters" not in rows
    assert end_of(read_run(runs[0])) is None
    # What such a training logs is there all the same.
    assert rows["repeats_logged"]["answer"] == "equal"


def test_buffers_alone_are_compared(tmp_path):
    """Red before: `0 of 0 parameters differ`, as if there were nothing else."""
    runs = pair(tmp_path, parameters={}, buffers={"codes": torch.ones(3)})
    row = verdicts(tmp_path, *runs)["repeats"]
    assert (row["answer"], row["question"][:17]) == ("equal", "Is everything equ")
    assert row["measured"].startswith("0 of 3 buffer elements differ (2 runs")


def test_seeds_that_end_in_other_weights_outside_the_module_are_other_trainings(tmp_path):
    runs = [
        write_run(tmp_path / str(seed), repeat, changes={"seed": seed, "not_held": beside})
        for seed, beside in ((1, ONE), (2, OTHER))
        for repeat in (1, 2)
    ]
    files = {key: tmp_path / key for key in ("summary", "tensors", "steps")}
    compare_seeds(runs, **files)
    assert [found["same_as_seeds"] for found in read_comparisons(files["summary"])] == [[], []]


def test_a_difference_in_a_step_comes_before_them(tmp_path):
    first = write_run(tmp_path, 1, changes={"not_held": ONE})
    planted = [(3, "gradients", next(iter(example_parameters())))]
    second = write_run(tmp_path, 2, planted=planted, changes={"not_held": OTHER})
    found = compared(tmp_path, first, second)[0]["first_difference"]
    assert clause_of(found) == "at step 3 in the gradients of encoder.weight"


def test_the_cause_has_its_advice():
    assert "not held" in CAUSES
    assert "submodule" in ADVICE["not held"]
