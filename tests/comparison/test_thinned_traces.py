"""What a comparison says where not every step was traced, or not every tensor kept."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from comparing import compared
from example_comparisons import compared as example_pair
from example_results import ACTUAL
from example_runs import example_parameters, thinned, write_run

from twinrun.comparison.conditions import conditions
from twinrun.comparison.difference_size import losses_apart, size_of
from twinrun.comparison.difference_words import clause_of
from twinrun.comparison.locate import _why_not_replayed
from twinrun.comparison.location_words import beginning
from twinrun.comparison.not_held import is_untrained
from twinrun.comparison.tables import read_tables
from twinrun.comparison.trace_words import traced_clause
from twinrun.config.traced_steps import traced_steps
from twinrun.run_files import read_run, variant_of
from twinrun.trace.fingerprints import fingerprint
from twinrun.verdicts.equality import repeats
from twinrun.verdicts.evidence import Evidence

STEPS = 24
TENTH = {"every": 10}


def runs_of(
    folder, trace, planted=(), *, detailed=None, second=None, other=None, ends=STEPS, changes=None
):
    """Write two runs that are traced as a variant asks for; the second one does `ends` steps."""
    runs = []
    for repeat, own, tensors in ((1, (), None), (2, planted, other)):
        asked = second if repeat == 2 and second is not None else trace
        run = write_run(
            folder,
            repeat,
            num_steps=ends if repeat == 2 else STEPS,
            planted=own,
            parameters=tensors,
            changes={"settings.variant.trace": asked, **(changes or {})},
        )
        runs.append(thinned(run, traced_steps(asked), detailed))
    return runs


def found(folder, *runs):
    """Compare; give the summary and what is said of it."""
    summary, _, _ = compared(folder, *runs)
    (verdict, *_) = repeats([Evidence(found=summary, path="")])
    return summary, verdict["measured"]


def test_equal_runs_say_which_steps_were_traced(tmp_path):
    summary, measured = found(tmp_path, *runs_of(tmp_path, TENTH))
    assert summary["answer"] == "equal"
    assert measured == "0 of 36 parameters differ (2 runs, 24 steps); traced every 10th step"


def test_a_training_shorter_than_its_thinning_was_not_traced(tmp_path):
    """Red at da7ce76: "traced every 100th step", of 24 steps."""
    _, measured = found(tmp_path, *runs_of(tmp_path, {**TENTH, "every": 100}))
    assert measured.endswith("not traced, as every 100th step is none of 24")


@pytest.mark.parametrize(
    ("trace", "steps", "clause"),
    [
        ({"every": None, "first": 1000}, (40,), None),
        ({"every": None, "first": 1000}, (40, 1000), None),
        ({"every": 10, "first": 1000}, (40,), None),
        ({"every": None, "first": 1000}, (40, 1001), "traced at the first 1,000 steps alone"),
        ({"every": 100, "first": 5}, (40,), "traced at the first 5 steps alone"),
        ({"every": 100, "first": 1}, (40, 99), "traced at the first step alone"),
        ({"every": 10, "first": 15}, (40,), "traced at the first 15 steps and every 10th step"),
        ({"every": 10, "first": 15}, (12, 19), "traced at the first 15 steps alone"),
        ({"every": 30}, (40, 20), "not traced, as every 30th step is none of 20"),
    ],
)
def test_steps_are_told_as_they_were_traced(trace, steps, clause):
    """Red before: "at the first 1,000 steps alone", of 40 that were all traced."""
    said = traced_clause(traced_steps(trace), *steps)
    assert (said or "").endswith(clause or "")
    assert (said is None) is (clause is None)


def test_runs_shorter_than_their_first_steps_were_traced_at_every_step(tmp_path):
    summary, measured = found(tmp_path, *runs_of(tmp_path, {"every": None, "first": 1000}))
    assert "traced" not in summary
    assert measured.endswith("(2 runs, 24 steps)")


def test_runs_without_a_trace_are_compared_at_the_end(tmp_path):
    summary, measured = found(tmp_path, *runs_of(tmp_path, None))
    assert summary["answer"] == "equal"
    assert measured.endswith(
        "parameters and buffers compared before the first step and at the end only; not traced"
    )
    moved = {name: tensor + 1 for name, tensor in example_parameters().items()}
    summary, measured = found(tmp_path / "2", *runs_of(tmp_path / "2", None, other=moved))
    assert (summary["answer"], summary["first_difference"]) == ("differs", None)
    assert "at no step that was traced" in measured


# What differs at step 20 alone of the traced ones, its class, and whether it can be replayed.
SEEN = [
    ("before", None, "parameters before the step", "not traced", False),
    ("random", "numpy", "RNG states", "not traced", False),
    ("optimizer", "head.weight", "optimizer state", "not traced", False),
    ("batch", None, "content of the batch", "data order or content", False),
    ("loss", None, "loss", "forward", True),
    ("gradients", "encoder.bias", "gradients", "backward", True),
    ("parameters", "encoder.bias", "parameters", "optimizer", True),
]


@pytest.mark.parametrize(("planted", "tensor", "quantity", "cause", "is_replayed"), SEEN)
def test_between_which_steps_a_difference_began(
    tmp_path, planted, tensor, quantity, cause, is_replayed
):
    runs = runs_of(tmp_path, TENTH, [(20, planted, tensor)])
    summary, measured = found(tmp_path, *runs)
    first = summary["first_difference"]
    assert (first["step"], first["since"]) == (20, 11)
    assert (first["quantity"], first["tensor"], first["cause"]) == (quantity, tensor, cause)
    of_tensor = f" of {tensor}" if tensor else ""
    clause = f"between step 11 and 20, seen in the {quantity}{of_tensor}"
    assert clause_of(first) == clause
    assert f"{clause} (2 runs, 24 steps); traced every 10th step" in measured
    assert beginning(first) == f"First to differ, {clause}"
    hindrance = _why_not_replayed(first, variant_of(read_run(runs[0])))
    assert (hindrance is None) is is_replayed
    if cause == "not traced":
        assert "trace every step" in hindrance
    steps = tmp_path / "seed1.steps.csv"
    assert size_of(summary, steps).size == "undecided"
    assert "the steps from 11 on were not traced" in size_of(summary, steps).sentence()
    assert losses_apart(summary, steps) is None


def test_the_first_steps_are_traced_without_a_gap(tmp_path):
    trace = {"every": 10, "first": 5}
    runs = runs_of(tmp_path, trace, [(4, "gradients", "head.weight"), (5, "before", None)])
    summary, measured = found(tmp_path, *runs)
    first = summary["first_difference"]
    assert (first["step"], first["tensor"]) == (4, "head.weight")
    assert "since" not in first
    assert measured.endswith("traced at the first 5 steps and every 10th step")


def test_a_step_without_single_tensors_names_none(tmp_path):
    planted = [(7, "gradients", "head.weight"), (8, "before", None)]
    runs = runs_of(tmp_path, {"every": 1}, planted, detailed=[1, 2, 3])
    summary, _, steps = compared(tmp_path, *runs)
    first = summary["first_difference"]
    assert (first["step"], first["quantity"], first["tensor"]) == (7, "gradients", None)
    assert conditions(summary) == []
    # Distances of the sample are of the same three steps.
    assert steps["relative_l2"].notna().tolist() == [True] * 3 + [False] * (STEPS - 3)


def test_runs_with_other_generators_are_equal_where_single_ones_are_not_kept(tmp_path):
    """A run on a GPU has one more, and so another joined fingerprint."""
    first = write_run(tmp_path, 1)
    second = write_run(tmp_path, 2)
    thinned(first, range(1, 7), [1, 2])
    with np.load(second.with_name("fingerprints.npz")) as arrays:
        assert arrays["rng_state_names"].tolist() == ["python", "numpy", "torch"]
    thinned(second, range(1, 7), [1, 2])
    assert compared(tmp_path, first, second)[0]["answer"] == "equal"


@pytest.mark.parametrize("across", [False, True])
def test_runs_that_are_not_traced_alike_are_no_pair(tmp_path, across):
    runs = runs_of(tmp_path, {"every": 10}, second={"every": 5})
    if across:
        runs[1] = write_run(
            tmp_path,
            3,
            num_steps=STEPS,
            changes={"variant": "other", "settings.variant.trace": {"every": 5}},
        )
        thinned(runs[1], traced_steps({"every": 5}))
    summary, _, _ = compared(tmp_path, *runs, across=across)
    assert summary["answer"] == "not comparable"
    assert "trace.every is 10 in" in summary["reason"]
    assert "and 5 in" in summary["reason"]


# By which the gradients of a step may hold those of steps before it.
GATHERED = [
    {"settings.workload.trainer": {"accumulate_grad_batches": 4}},
    {"settings.workload.trainer": {"accumulate_grad_batches": {"1": 2}}},
    {"actual": ACTUAL | {"gathers_gradients": True}},
]


@pytest.mark.parametrize("changes", GATHERED)
@pytest.mark.parametrize("of", [("gradients", "head.weight"), ("own_gradients", None)])
def test_gathered_gradients_may_be_those_of_steps_that_were_not_traced(tmp_path, of, changes):
    """Red before: another batch of step 6 was `backward`, seen in the gradients of step 8."""
    runs = runs_of(tmp_path, {"every": 4}, [(8, *of)], changes=changes)
    first = found(tmp_path, *runs)[0]["first_difference"]
    assert (first["step"], first["since"], first["cause"]) == (8, 5, "not traced")
    assert "trace every step" in _why_not_replayed(first, variant_of(read_run(runs[0])))


@pytest.mark.parametrize("changes", GATHERED)
def test_gathered_gradients_are_their_own_where_every_step_is_traced(tmp_path, changes):
    runs = runs_of(tmp_path, {"every": 1}, [(8, "gradients", "head.weight")], changes=changes)
    first = found(tmp_path, *runs)[0]["first_difference"]
    assert ("since" in first, first["cause"]) == (False, "backward")


# How the trace is thinned, the steps of the second run, the step that it lacks, and since which
# one nobody looked.
ENDS = [
    ({"every": 10}, 18, 19, 11),
    ({"every": 7}, 16, 17, 15),
    ({"every": 10}, 22, 23, 21),
    ({"every": None, "first": 5}, 16, 17, 6),
    ({"every": 100}, 16, 17, 1),
    (None, 16, 17, 1),
    ({"every": 10}, 5, 6, 1),
]


@pytest.mark.parametrize(("trace", "ends", "step", "since"), ENDS)
def test_another_end_does_not_hide_the_steps_that_were_not_traced(
    tmp_path, trace, ends, step, since
):
    """Red before: "first at step 30, which not every run has", of runs that end at 40 and 28."""
    runs = runs_of(tmp_path, trace, ends=ends)
    summary, measured = found(tmp_path, *runs)
    first = summary["first_difference"]
    assert (first["quantity"], first["step"], first["since"]) == ("number of steps", step, since)
    assert (first["cause"], summary["answer"]) == ("not traced", "differs")
    assert f"first between step {since} and {step}, seen in the number of steps" in measured
    assert "the runs end at steps" in measured
    size = size_of(summary, tmp_path / "seed1.steps.csv")
    assert size.sentence().endswith(f"the steps from {since} on were not traced")
    assert "trace every step" in _why_not_replayed(first, variant_of(read_run(runs[0])))


@pytest.mark.parametrize(
    ("trace", "ends"),
    [({"every": 10}, 20), ({"every": None, "first": 5}, 5), ({"every": 1}, 16), (TENTH, 10)],
)
def test_an_end_behind_a_step_that_was_traced_is_what_differs(tmp_path, trace, ends):
    summary, measured = found(tmp_path, *runs_of(tmp_path, trace, ends=ends))
    first = summary["first_difference"]
    assert (first["step"], first["cause"]) == (ends + 1, "end of the training")
    assert "since" not in first
    assert f"first at step {ends + 1}, which not every run has" in measured


def test_of_a_step_that_was_not_traced_the_epoch_is_that_of_the_last_one_that_was(tmp_path):
    """Step 20 is of epoch 7, step 17 of epoch 6, step 10 of epoch 4."""
    runs = runs_of(tmp_path, TENTH, ends=16)
    assert found(tmp_path, *runs)[0]["first_difference"]["epoch"] == 4


def untouched(folder, trace, began):
    """Read a run of which no traced step changes a parameter, and that began with some."""
    changes = {"settings.variant.trace": trace}
    run = thinned(write_run(folder, num_steps=STEPS, changes=changes), traced_steps(trace))
    tables = read_tables(run, read_run(run))
    initial = np.array([fingerprint(tensor) for tensor in began.values()], dtype=np.uint64)
    same = np.full(len(tables.steps), 7, dtype=np.uint64)
    return replace(
        tables,
        steps=tables.steps.assign(before=same, parameters=same),
        fingerprints={**tables.fingerprints, "initial": initial},
    )


@pytest.mark.parametrize("trace", [{"every": None, "first": 2}, {"every": 10}, None])
@pytest.mark.parametrize("is_trained", [False, True])
def test_a_training_that_learns_where_nobody_looks_is_not_said_to_change_nothing(
    tmp_path, trace, is_trained
):
    """Red before: of a warm-up from a rate of 0, the first two steps traced alone."""
    began = {name: tensor + is_trained for name, tensor in example_parameters().items()}
    assert is_untrained(untouched(tmp_path, trace, began)) is not is_trained


def test_a_tensor_that_was_not_kept_may_have_been_trained(tmp_path):
    run = untouched(tmp_path, TENTH, example_parameters())
    names = np.array([*run.fingerprints["names"], "beside.weight"])
    initial = np.append(run.fingerprints["initial"], np.uint64(5))
    more = {**run.fingerprints, "names": names, "initial": initial}
    assert not is_untrained(replace(run, fingerprints=more))


def test_what_was_seen_of_an_untrained_network_is_said():
    found = example_pair(is_untrained=True).found
    assert "no step changes a parameter" in conditions(found)
    found["traced"] = "traced every 10th step"
    assert "the parameters end as they began" in conditions(found)
    assert "no step changes a parameter" not in conditions(found)


BROKEN = [
    # How the trace is thinned, the steps without a loss that is a number, and what is said.
    ({"every": None, "first": 5}, range(4, 25), "at every traced step from step 4 on;"),
    (TENTH, range(15, 25), "at step 20, if not since step 11;"),
    (
        {"every": 5},
        range(9, 16),
        "at 2 traced steps, the first of them step 10, if not",
    ),
    ({"every": 5}, range(14, 25), "at every traced step from step 15 on, if not since step 11;"),
    ({"every": 1}, range(14, 25), "from step 14 on"),
]


@pytest.mark.parametrize(("trace", "steps", "words"), BROKEN)
def test_a_loss_that_is_no_number_is_told_of_the_traced_steps(tmp_path, trace, steps, words):
    """Red before: "from step 4 on", of a trace that ends at step 5."""
    losses = [float("nan") if step in steps else 1.0 for step in range(1, STEPS + 1)]
    runs = []
    for repeat in (1, 2):
        changes = {"settings.variant.trace": trace}
        run = write_run(tmp_path, repeat, num_steps=STEPS, losses=losses, changes=changes)
        runs.append(thinned(run, traced_steps(trace)))
    summary, _ = found(tmp_path, *runs)
    assert f"the loss is not finite {words}" in "; ".join([*conditions(summary), ""])


def test_weights_that_differ_alone_are_told_from_a_step(tmp_path):
    moved = {name: torch.zeros_like(t) for name, t in example_parameters().items()}
    summary, measured = found(tmp_path, *runs_of(tmp_path, TENTH, other=moved))
    assert summary["first_difference"] is None
    assert "at no step that was traced" in measured
