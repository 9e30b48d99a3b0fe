"""A run on a GPU and one on a CPU are compared by what both hash alike, and no further."""

import numpy as np
import pandas as pd
import pytest
from comparing import compared
from example_runs import NAMES, OF_TENSORS, example_parameters, seal, write_run

from twinrun import artifacts, run_files
from twinrun.comparison.comparable import equal_as_far_as_known
from twinrun.comparison.conditions import conditions
from twinrun.comparison.difference_words import clause_of
from twinrun.comparison.not_held import is_untrained
from twinrun.comparison.tables import read_tables
from twinrun.comparison.trace_words import HASHED_APART
from twinrun.trace.hash_kinds import ARRAY, HASHED, ON_HOST
from twinrun.verdicts.equality import repeats
from twinrun.verdicts.evidence import Evidence

STEPS = 6
OF_BATCH = ("before", "buffers_before", "batch")
# Every tensor has another fingerprint from the second step on, by another hash.
UNLIKE = [
    *((step, name, None) for step in range(2, STEPS + 1) for name in OF_BATCH),
    *((step, name, t) for step in range(2, STEPS + 1) for name in OF_TENSORS[3:] for t in NAMES),
]


def on_gpu(run):
    """Say of a run's trace that it was taken on a GPU."""
    changes = [(1 if name in ("samples", "batch") else 2, HASHED.index(name), 1) for name in HASHED]
    # The first batch has its fingerprint on a CPU beside another one.
    steps = pd.read_csv(run.with_name("steps.csv"), dtype=str)
    changes.append((1, ON_HOST, int(steps.loc[0, "batch"], 16)))
    steps.loc[0, "batch"] = "1" * 16
    artifacts.write_csv(run.with_name("steps.csv"), steps)
    file = run.with_name("fingerprints.npz")
    arrays = artifacts.read_arrays(file)
    artifacts.write_arrays(file, arrays | {ARRAY: np.array(changes, dtype=np.uint64)})
    seal(run.parent)
    return run


def pair(folder, planted=(), is_said=True, **second):
    """Write a run on a CPU and one on a GPU that differ in what is planted besides."""
    runs = [write_run(folder), write_run(folder, 2, planted=[*UNLIKE, *planted], **second)]
    return [runs[0], on_gpu(runs[1])] if is_said else runs


def test_equal_runs_on_a_cpu_and_a_gpu_are_equal_as_far_as_they_can_be_compared(tmp_path):
    summary, _, steps = compared(tmp_path, *pair(tmp_path))
    assert (summary["answer"], summary["first_difference"]) == ("equal", None)
    assert HASHED_APART in conditions(summary)
    assert steps["parameters_equal"].all()
    assert steps["loss_equal"].all()
    assert list(steps["batch_equal"].isna()) == [False, *[True] * (STEPS - 1)]
    # What would be said of fingerprints that were compared in silence.
    told = compared(tmp_path / "2", *pair(tmp_path / "2", is_said=False))[0]["first_difference"]
    assert clause_of(told) == "at step 2 in the parameters before the step"


@pytest.mark.parametrize(
    ("quantity", "tensor", "cause", "words"),
    [
        ("batch", None, "data order or content", "at step 1 in the content of the batch"),
        ("loss", None, "forward", "at step 1 in the loss"),
        ("gradients", "head.weight", "backward", "at step 1 in the gradients of head.weight"),
    ],
)
def test_what_differs_in_the_step_that_both_hash_alike_is_named(
    tmp_path, quantity, tensor, cause, words
):
    summary, _, _ = compared(tmp_path, *pair(tmp_path, [(1, quantity, tensor)]))
    assert summary["first_difference"]["cause"] == cause
    assert clause_of(summary["first_difference"]) == words
    assert "traced" not in summary


def test_what_differs_later_may_have_begun_in_any_step_since(tmp_path):
    summary, _, _ = compared(tmp_path, *pair(tmp_path, [(5, "loss", None)]))
    first = summary["first_difference"]
    assert clause_of(first) == "between step 2 and 5, seen in the loss"
    assert first["cause"] == "not traced"


def test_sampled_parameters_tell_where_fingerprints_cannot(tmp_path):
    sample = np.ones((STEPS, 4))
    sample[3:] += 1e-6
    summary, _, steps = compared(tmp_path, *pair(tmp_path, sample=sample))
    assert list(steps["parameters_equal"]) == [True] * 3 + [False] * 3
    assert clause_of(summary["first_difference"]) == "between step 2 and 4, seen in the parameters"


def test_other_weights_at_the_end_are_no_equal_pair(tmp_path):
    moved = {name: tensor + 1 for name, tensor in example_parameters().items()}
    summary, _, _ = compared(tmp_path, *pair(tmp_path, parameters=moved))
    assert (summary["answer"], summary["first_difference"]) == ("differs", None)
    (verdict, *_) = repeats([Evidence(found=summary, path="")])
    assert "at no step that was traced" in verdict["measured"]
    assert HASHED_APART in verdict["measured"]


def test_two_runs_on_gpus_are_compared_at_every_step(tmp_path):
    runs = [write_run(tmp_path, n, planted=[(4, "loss", None)] * (n == 2)) for n in (1, 2)]
    summary, _, steps = compared(tmp_path, *map(on_gpu, runs))
    assert clause_of(summary["first_difference"]) == "at step 4 in the loss"
    assert not steps.isna().any(axis=None)


@pytest.mark.parametrize("is_trained", [False, True])
def test_a_training_on_a_gpu_that_changes_nothing_is_known(tmp_path, is_trained):
    run = on_gpu(write_run(tmp_path, began={}))
    tables = read_tables(run, run_files.read_run(run))
    # The first step by one hash, the others by another.
    same = np.array([7, *[9] * (STEPS - 1)], dtype=np.uint64)
    steps = tables.steps.assign(before=same, parameters=same + np.uint64(is_trained))
    found = type(tables)(**{**vars(tables), "steps": steps})
    assert is_untrained(found) is not is_trained


def test_what_is_unknown_is_as_before():
    equal = np.array([True, False, True, False, True, True])
    known = np.array([True, False, True, True, False, True])
    assert list(equal_as_far_as_known(equal, known)) == [True, True, True, False, False, True]
    apart = np.array([np.nan, 1.0, np.nan, 0.0, np.nan, np.nan])
    found = equal_as_far_as_known(equal, known, apart)
    assert list(found) == [True, False, True, False, False, True]
