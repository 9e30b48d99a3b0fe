"""Verdicts on equality: the worst seed speaks, and says how much, how far, and where it began."""

import doctest
import math

import pytest
from example_comparisons import DIVERGENCE, compared, counts, differing, refused

from twinrun.verdicts import equality
from twinrun.verdicts.equality import first_operations, repeats, same_parameters
from twinrun.verdicts.evidence import Evidence

PARAMETERS = "Are all learnable parameters equal, bit for bit?"
EVERYTHING = "Is everything equal, bit for bit: parameters, buffers and every step?"
LOSS = DIVERGENCE | {"quantity": "loss", "tensor": None}


def only(rows):
    (row,) = rows
    return row


def test_examples_in_the_docstrings_hold():
    found = doctest.testmod(equality)
    assert found.attempted > 0
    assert found.failed == 0


def test_an_equal_pair():
    assert only(repeats([compared()])) == {
        "key": "repeats",
        "workload": "denoiser",
        "variant": "deterministic",
        "question": PARAMETERS,
        "answer": "equal",
        "measured": "0 of 12,609 parameters differ (2 runs, 95 steps)",
        "evidence": "comparisons/reproducibility/denoiser/deterministic.json",
    }


def test_a_pair_that_differs_says_how_much_and_where_it_began():
    row = only(repeats([differing()]))
    assert row["answer"] == "differs"
    assert row["measured"] == (
        "12,001 of 12,609 parameters differ by up to 3.10×10⁻⁵ (41 ULP), first at step 3 in the "
        "gradients of user_factors (2 runs, 95 steps)"
    )


@pytest.mark.parametrize(
    ("first", "words"),
    [
        (
            {"quantity": "content of the batch", "tensor": None},
            "first at step 3 in the content of the batch (",
        ),
        ({"quantity": "loss", "tensor": None, "step": 1200}, "first at step 1,200 in the loss ("),
        (
            {"quantity": "initial parameters", "step": 0},
            "ULP), before the first step in the initial parameters of user_factors (",
        ),
        (
            {"quantity": "initial buffers", "step": 0, "tensor": "norm.mean"},
            "ULP), before the first step in the initial buffers of norm.mean (",
        ),
        (
            {
                "quantity": "optimizer settings",
                "step": 1,
                "tensor": "learning rate of group 0",
                "values": [0.01, 0.0100003],
            },
            "first from step 1: the learning rate of group 0 is 0.01 in one run and 0.0100003 in "
            "the other (",
        ),
        (
            {"quantity": "optimizer settings", "step": 7, "tensor": None},
            "first at step 7 in the optimizer settings (",
        ),
        (
            {"quantity": "number of steps", "tensor": None, "step": 96},
            "first at step 96, which not every run has (",
        ),
    ],
)
def test_where_a_pair_diverged_is_said_in_words(first, words):
    row = only(repeats([differing(first_difference=DIVERGENCE | first)]))
    assert words in row["measured"]


def test_parameters_changed_after_the_last_step():
    row = only(repeats([differing(first_difference=None)]))
    assert "(41 ULP), at no step, so after the last one (" in row["measured"]


def test_distances_beyond_counting_are_left_out():
    found = differing(max_ulp=1778014040, max_abs=math.inf, parameters=counts(12609, 1))
    row = only(repeats([found]))
    assert row["measured"].startswith("1 of 12,609 parameters differs by up to ∞, first at")


@pytest.mark.parametrize(
    ("ulp", "words"),
    [(1_000, "(1,000 ULP)"), (999_999, "(999,999 ULP)"), (1_000_000, "10⁻⁵, first")],
)
def test_up_to_a_million_ulp_every_one_is_counted(ulp, words):
    assert words in only(repeats([differing(max_ulp=ulp)]))["measured"]


def test_equal_parameters_with_other_buffers_are_no_answer_to_the_usual_question():
    found = differing(
        parameters=counts(12609, 0), buffers=counts(2, 1), relative_l2=0.0, first_difference=None
    )
    row = only(repeats([found]))
    assert (row["key"], row["question"], row["answer"]) == ("repeats", EVERYTHING, "differs")
    assert row["measured"].startswith(
        "0 of 12,609 parameters differ, 1 of 2 buffer elements differs, at no step"
    )


def test_equal_parameters_with_another_loss_are_no_answer_to_the_usual_question():
    found = differing(parameters=counts(12609, 0), relative_l2=0.0, first_difference=LOSS)
    row = only(repeats([found]))
    assert row["question"] == EVERYTHING
    assert row["measured"].startswith("0 of 12,609 parameters differ, first at step 3 in the loss")


def test_a_variant_with_the_parameters_of_the_baseline_and_other_buffers():
    """Red at b8e0cc1: the parameters "are those of eager: differs", of which none did."""
    found = differing(
        variant="compiled",
        against="eager",
        parameters=counts(12609, 0),
        buffers=counts(2, 1),
        relative_l2=0.0,
    )
    row = only(same_parameters([found]))
    assert row["key"] == "same_parameters"
    assert row["question"].startswith("Is everything equal to eager, bit for bit:")


def test_a_refused_pair_gives_the_reason():
    row = only(repeats([refused()]))
    assert (row["answer"], row["measured"]) == ("not comparable", refused().found["reason"])


@pytest.mark.parametrize(
    ("seeds", "answer", "measured"),
    [
        (
            [compared(seed=1), compared(seed=2)],
            "equal",
            "2 seeds: 0 of 12,609 parameters differ (2 runs, 95 steps)",
        ),
        (
            [compared(seed=1), differing(seed=2), differing(seed=3, relative_l2=1e-3)],
            "differs",
            "2 of 3 seeds differ; seed 3: 12,001 of 12,609 parameters differ by up to",
        ),
        (
            [differing(seed=1, relative_l2=0.0), differing(seed=2, parameters=counts(12609, 0))],
            "differs",
            "2 of 2 seeds differ; seed 1: 12,001 of 12,609",
        ),
        (
            [compared(seed=1), refused(seed=2)],
            "not comparable",
            "1 of 2 seeds not comparable; seed 2: data.sha256 is 'a' in",
        ),
        (
            [refused(seed=1), differing(seed=2), compared(seed=3)],
            "differs",
            "1 of 3 seeds differs; 1 of 3 seeds not comparable; seed 2: 12,001 of",
        ),
    ],
)
def test_seeds_are_summed_up_by_the_worst(seeds, answer, measured):
    row = only(repeats(seeds))
    assert row["answer"] == answer
    assert row["measured"].startswith(measured)


LOSS_ONLY = {"parameters": counts(12609, 0), "relative_l2": 0.0, "first_difference": LOSS}


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("other", [LOSS_ONLY, {"relative_l2": 1e300}], ids=["loss", "parameters"])
def test_a_distance_that_is_no_number_is_the_worst_of_all_seeds(is_first, other):
    """Red at b8e0cc1: "0 of 12,609 parameters differ" of seeds of which one has NaN weights."""
    diverged = differing(seed=2, relative_l2=math.nan, max_abs=math.nan)
    seeds = [diverged, differing(**other)] if is_first else [differing(**other), diverged]
    row = only(repeats(seeds))
    assert row["question"] == PARAMETERS
    assert "seed 2: 12,001 of 12,609 parameters differ" in row["measured"]


def test_each_workload_and_variant_has_its_row():
    pairs = [("denoiser", "a"), ("denoiser", "b"), ("factorization", "a")]
    rows = repeats([compared(workload=w, variant=v) for w, v in pairs])
    assert [(row["workload"], row["variant"]) for row in rows] == pairs


def test_a_located_seed_speaks_for_its_variant_and_an_equal_one_is_silent():
    names = {"workload": "denoiser", "variant": "nondeterministic"}
    found = [
        ("a.json", names | {"answer": "not located", "sentence": "It did not happen again."}),
        ("b.json", names | {"answer": "located", "sentence": "aten::index_put did it."}),
        ("c.json", names | {"variant": "deterministic", "answer": "equal", "sentence": ""}),
    ]
    locations = [Evidence(path=path, found=location) for path, location in found]
    assert only(first_operations(locations)) == names | {
        "key": "first_operation",
        "question": "Which operation diverged first?",
        "answer": "differs",
        "measured": "aten::index_put did it.",
        "evidence": "b.json",
    }
    assert only(first_operations(locations[:1]))["answer"] == "undecided"


FAILED = "repeat 2 failed: no reproducible algorithm for put_"


def not_run(**changes):
    nothing = dict.fromkeys(["max_abs", "max_ulp", "relative_l2"])
    empty = {"parameters": counts(0, 0), "buffers": counts(0, 0), "steps": 0}
    return compared(**nothing | empty | {"answer": "not run", "reason": FAILED} | changes)


@pytest.mark.parametrize(
    ("seeds", "answer", "measured"),
    [
        ([not_run()], "not run", FAILED),
        ([compared(seed=1), not_run(seed=2)], "not run", f"1 of 2 seeds not run; seed 2: {FAILED}"),
        (
            [not_run(seed=1), refused(seed=2)],
            "not comparable",
            "1 of 2 seeds not comparable; 1 of 2 seeds not run; seed 2: data.sha256 is 'a'",
        ),
        ([not_run(seed=1), differing(seed=2)], "differs", "1 of 2 seeds differs; 1 of 2 seeds not"),
    ],
)
def test_a_training_that_failed_is_never_equal(seeds, answer, measured):
    row = only(repeats(seeds))
    assert row["answer"] == answer
    assert row["measured"].startswith(measured)


def test_what_was_not_compared_asks_for_no_operation():
    found = {"workload": "denoiser", "variant": "plain", "answer": "not compared", "sentence": ""}
    assert first_operations([Evidence(path="a.json", found=found)]) == []
