"""Verdicts say what was measured: each answer, its figure in words, and its evidence."""

import doctest
import math

import pandas as pd
import pytest
from example_runs import example_parameters, write_run

from twinrun import artifacts
from twinrun.comparison.compare import compare_seeds
from twinrun.verdicts import equality, speed, studies
from twinrun.verdicts.judge import collect, judge, summary_lines
from twinrun.verdicts.rows import ANSWERS, COLUMNS
from twinrun.verdicts.studies import reproducibility

PLACE = {"repeat": 2, "step": 3, "epoch": 1, "quantity": "gradients", "tensor": "user_factors"}


def counts(elements, differing):
    return {
        "tensors": 2,
        "elements": elements,
        "tensors_differing": min(differing, 2),
        "elements_differing": differing,
    }


def comparison(*, seed=1, **changes):
    equal = {
        "workload": "denoiser",
        "variant": "deterministic",
        "seed": seed,
        "answer": "equal",
        "reason": None,
        "repeats": 2,
        "steps": 95,
        "parameters": counts(12609, 0),
        "buffers": counts(0, 0),
        "max_abs": 0.0,
        "max_ulp": 0,
        "relative_l2": 0.0,
        "first_difference": None,
        "path": "comparisons/reproducibility/denoiser/deterministic.json",
    }
    return equal | changes


def differing(**changes):
    found = {
        "answer": "differs",
        "parameters": counts(12609, 12001),
        "max_abs": 3.1e-5,
        "max_ulp": 41,
        "relative_l2": 1e-6,
        "first_difference": PLACE,
    }
    return comparison(**found | changes)


def refused(**changes):
    reason = "data.sha256 is 'a' in repeat 1 and 'b' in repeat 2: the runs are no pair"
    nothing = dict.fromkeys(["max_abs", "max_ulp", "relative_l2"])
    return comparison(**nothing | {"answer": "not comparable", "reason": reason} | changes)


def timing(**changes):
    ratio = {"variant": "deterministic", "size": None, "phase": "train"}
    ratio |= {"time_ratio": 1.03, "low": 1.01, "high": 1.05} | changes
    medians = [
        {"variant": name, "size": None, "phase": "train", "unstable": False}
        for name in ("nondeterministic", "deterministic")
    ]
    return {
        "workload": "denoiser",
        "baseline": "nondeterministic",
        "medians": medians,
        "ratios": [ratio],
        "skipped": [],
        "trainer": [],
        "agreement": [],
        "path": "timings/determinism_denoiser.json",
    }


def only(rows):
    (row,) = rows
    return row


@pytest.mark.parametrize("module", [equality, speed])
def test_examples_in_the_docstrings_hold(module):
    found = doctest.testmod(module)
    assert found.attempted > 0
    assert found.failed == 0


# Where does it begin?


def test_a_located_seed_speaks_for_its_variant_and_an_equal_one_is_silent():
    names = {"workload": "denoiser", "variant": "nondeterministic"}
    found = [
        names | {"answer": "not located", "sentence": "It did not happen again.", "path": "a.json"},
        names | {"answer": "located", "sentence": "aten::index_put did it.", "path": "b.json"},
        names | {"variant": "deterministic", "answer": "equal", "sentence": "", "path": "c.json"},
    ]
    assert only(equality.located(found)) == names | {
        "question": "Was the operation found in which the runs part?",
        "answer": "yes",
        "figure": "aten::index_put did it.",
        "evidence": "b.json",
    }
    assert only(equality.located(found[:1]))["answer"] == "no"


# Does it repeat?


def test_an_equal_pair():
    assert only(reproducibility([comparison()], [], [])) == {
        "workload": "denoiser",
        "variant": "deterministic",
        "question": "Are all learnable parameters equal, bit for bit?",
        "answer": "equal",
        "figure": "0 of 12,609 parameters differ (2 runs, 95 steps)",
        "evidence": "comparisons/reproducibility/denoiser/deterministic.json",
    }


def test_a_pair_that_differs_says_how_much_and_where_it_began():
    row = only(reproducibility([differing()], [], []))
    assert row["answer"] == "differs"
    assert row["figure"] == (
        "12,001 of 12,609 parameters differ by up to 3.10×10⁻⁵ (41 ULP), first at step 3 in the "
        "gradients of user_factors (2 runs, 95 steps)"
    )


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ({"quantity": "batch", "tensor": None}, "first at step 3 in the batch ("),
        ({"quantity": "loss", "tensor": None, "step": 1200}, "first at step 1,200 in the loss ("),
        (
            {"quantity": "initial parameters", "step": 0},
            "first before training in the initial parameters of user_factors (",
        ),
        (
            {"quantity": "number of steps", "tensor": None, "step": 96},
            "first at step 96, which not every run has (",
        ),
    ],
)
def test_where_a_pair_parted_is_said_in_words(place, words):
    row = only(reproducibility([differing(first_difference=PLACE | place)], [], []))
    assert words in row["figure"]


def test_parameters_changed_after_the_last_step():
    row = only(reproducibility([differing(first_difference=None)], [], []))
    assert "(41 ULP), at no step, so after the last one (" in row["figure"]


def test_distances_beyond_counting_are_rounded():
    found = differing(max_ulp=1778014040, max_abs=float("inf"), parameters=counts(12609, 1))
    row = only(reproducibility([found], [], []))
    assert row["figure"].startswith("1 of 12,609 parameters differs by up to ∞ (1.78×10⁹ ULP)")


def test_equal_parameters_with_other_buffers_are_no_answer_to_the_usual_question():
    found = differing(
        parameters=counts(12609, 0), buffers=counts(2, 1), relative_l2=0.0, first_difference=None
    )
    row = only(reproducibility([found], [], []))
    assert row["question"] == "Is everything equal, bit for bit: parameters, buffers, every step?"
    assert row["answer"] == "differs"
    assert row["figure"].startswith(
        "0 of 12,609 parameters differ, 1 of 2 buffer elements differs, at no step"
    )


def test_equal_parameters_with_another_loss_are_no_answer_to_the_usual_question():
    place = PLACE | {"quantity": "loss", "tensor": None}
    found = differing(parameters=counts(12609, 0), relative_l2=0.0, first_difference=place)
    row = only(reproducibility([found], [], []))
    assert row["question"].startswith("Is everything equal")
    assert row["figure"].startswith("0 of 12,609 parameters differ, first at step 3 in the loss (")


def test_a_refused_pair_gives_the_reason():
    row = only(reproducibility([refused()], [], []))
    assert (row["answer"], row["figure"]) == ("not comparable", refused()["reason"])


@pytest.mark.parametrize(
    ("seeds", "answer", "figure"),
    [
        (
            [comparison(seed=1), comparison(seed=2)],
            "equal",
            "2 seeds: 0 of 12,609 parameters differ (2 runs, 95 steps)",
        ),
        (
            [comparison(seed=1), differing(seed=2), differing(seed=3, relative_l2=1e-3)],
            "differs",
            "2 of 3 seeds differ; seed 3: 12,001 of 12,609 parameters differ by up to",
        ),
        (
            [differing(seed=1, relative_l2=0.0), differing(seed=2, parameters=counts(12609, 0))],
            "differs",
            "2 of 2 seeds differ; seed 2: 0 of 12,609",
        ),
        (
            [comparison(seed=1), refused(seed=2)],
            "not comparable",
            "1 of 2 seeds not comparable; seed 2: data.sha256 is 'a' in",
        ),
        (
            [refused(seed=1), differing(seed=2), comparison(seed=3)],
            "differs",
            "1 of 3 seeds differ; 1 of 3 seeds not comparable; seed 2: 12,001 of",
        ),
    ],
)
def test_seeds_are_summed_up_by_the_worst(seeds, answer, figure):
    row = only(reproducibility(seeds, [], []))
    assert row["answer"] == answer
    assert row["figure"].startswith(figure)


def test_each_workload_and_variant_has_its_row():
    pairs = [("denoiser", "a"), ("denoiser", "b"), ("factorization", "a")]
    rows = reproducibility([comparison(workload=w, variant=v) for w, v in pairs], [], [])
    assert [(row["workload"], row["variant"]) for row in rows] == pairs


def test_a_variant_that_cannot_run_here_has_its_row():
    missing = {"workload": "denoiser", "variant": "on_gpu", "reason": "no GPU on this machine"}
    for timings, cost in (
        ([timing()], "Does it cost time, against nondeterministic?"),
        ([], "Does it cost time?"),
    ):
        found = reproducibility([], timings, [missing])
        rows = [row for row in found if row["variant"] == "on_gpu"]
        assert {(r["answer"], r["figure"]) for r in rows} == {("not run", "no GPU on this machine")}
        equal = "Are all learnable parameters equal, bit for bit?"
        assert [row["question"] for row in rows] == [equal, cost]


# What does it cost?


@pytest.mark.parametrize(
    ("interval", "answer", "figure"),
    [
        (
            (1.03, 1.01, 1.05),
            "yes",
            "1.03 times the time a step (95% interval 1.01 to 1.05): slower",
        ),
        (
            (1.02, 0.98, 1.07),
            "no",
            "1.02 times the time a step (95% interval 0.980 to 1.07): no difference measured",
        ),
        (
            (0.912, 0.9, 0.95),
            "no",
            "0.912 times the time a step (95% interval 0.900 to 0.950): faster",
        ),
        (
            (1.0, 1.0, 1.0),
            "no",
            "1.00 times the time a step (95% interval 1.00 to 1.00): no difference measured",
        ),
    ],
)
def test_cost_is_signed_and_its_interval_decides(interval, answer, figure):
    middle, low, high = interval
    measured = timing(time_ratio=middle, low=low, high=high)
    row = only(reproducibility([], [measured], []))
    assert row == {
        "workload": "denoiser",
        "variant": "deterministic",
        "question": "Does it cost time, against nondeterministic?",
        "answer": answer,
        "figure": figure,
        "evidence": "timings/determinism_denoiser.json",
    }


@pytest.mark.parametrize(
    ("unstable", "phase", "words"),
    [
        (["deterministic"], "train", "; unstable: rounds of deterministic spread by more than 10%"),
        (["nondeterministic", "deterministic"], "train", "nondeterministic and deterministic"),
        (["deterministic"], "first_call", None),
        (["another"], "train", None),
    ],
)
def test_an_unstable_measurement_says_so(unstable, phase, words):
    measured = timing()
    measured["medians"] += [
        {"variant": name, "size": None, "phase": phase, "unstable": True} for name in unstable
    ]
    figure = only(reproducibility([], [measured], []))["figure"]
    assert (words in figure) if words else figure.endswith("slower")


def test_prediction_is_no_cost_of_training():
    assert reproducibility([], [timing(phase="predict")], []) == []


def test_a_variant_that_could_not_be_timed_has_its_row():
    measured = timing() | {"ratios": []}
    measured["skipped"] = [{"variant": "compiled", "size": None, "reason": "no compiler"}]
    row = only(reproducibility([], [measured], []))
    assert (row["variant"], row["answer"], row["figure"]) == ("compiled", "not run", "no compiler")


# Files


@pytest.fixture
def judged(tmp_path):
    """Give the verdicts of two workloads, one of which differs, and a variant that cannot run."""
    results = tmp_path / "results"
    other = example_parameters()
    other["head.weight"] = other["head.weight"] * 2
    comparisons = []
    for workload, second in (("factorization", other), ("denoiser", example_parameters())):
        folder = results / f"runs/{workload}/plain/seed1"
        changes = {"workload": workload, "variant": "plain"}
        runs = [write_run(folder, 1, changes=changes)]
        runs.append(write_run(folder, 2, changes=changes, parameters=second))
        place = results / f"comparisons/reproducibility/{workload}"
        summary = place / "plain.json"
        tables = {name: place / f"plain.{name}.csv" for name in ("tensors", "steps")}
        compare_seeds(runs, summary=summary, **tables)
        comparisons.append(str(summary))
    measured = results / "timings/determinism_denoiser.json"
    artifacts.write_json(measured, timing())
    output = results / "verdicts/reproducibility.csv"
    judge(
        "reproducibility",
        comparisons=comparisons,
        timings=[str(measured)],
        not_run={"on_gpu": "no GPU on this machine"},
        workloads=["denoiser", "factorization"],
        output=str(output),
    )
    return output


def test_verdicts_of_a_study(judged):
    table = pd.read_csv(judged, keep_default_na=False)

    assert list(table.columns) == COLUMNS
    assert table["study"].unique().tolist() == ["reproducibility"]
    assert table[["workload", "variant", "answer"]].to_numpy().tolist() == [
        ["denoiser", "plain", "equal"],
        ["denoiser", "on_gpu", "not run"],
        ["denoiser", "deterministic", "yes"],
        ["denoiser", "on_gpu", "not run"],
        ["factorization", "plain", "differs"],
        ["factorization", "on_gpu", "not run"],
        ["factorization", "on_gpu", "not run"],
    ]
    assert set(table["answer"]) <= set(ANSWERS)


def test_evidence_is_a_file_in_the_results(judged):
    for evidence in pd.read_csv(judged, keep_default_na=False)["evidence"]:
        assert not evidence or (judged.parents[1] / evidence).is_file()


def test_verdicts_of_all_studies_are_joined(judged, tmp_path):
    second = tmp_path / "second.csv"
    artifacts.write_csv(second, pd.read_csv(judged).assign(study="devices"))

    collect([str(judged), str(second)], output=str(tmp_path / "verdicts.csv"))

    table = pd.read_csv(tmp_path / "verdicts.csv", keep_default_na=False)
    assert list(table.columns) == COLUMNS
    assert table["study"].tolist() == ["reproducibility"] * 7 + ["devices"] * 7
    assert table["evidence"][1] == ""


def test_lines_for_the_terminal_go_by_question(judged):
    lines = summary_lines(str(judged))
    assert lines == [
        "Are all learnable parameters equal, bit for bit?",
        "  denoiser       plain          equal    0 of 36 parameters differ (2 runs, 6 steps)",
        "  denoiser       on_gpu         not run  no GPU on this machine",
        "  factorization  plain          differs  12 of 36 parameters differ by up to 3.00 "
        "(8.39×10⁶ ULP), at no step, so after the last one (2 runs, 6 steps)",
        "  factorization  on_gpu         not run  no GPU on this machine",
        "Does it cost time, against nondeterministic?",
        "  denoiser       deterministic  yes      1.03 times the time a step "
        "(95% interval 1.01 to 1.05): slower",
        "  denoiser       on_gpu         not run  no GPU on this machine",
        "Does it cost time?",
        "  factorization  on_gpu         not run  no GPU on this machine",
    ]


# Is it faster?


def speeds(**changes):
    summary = timing(variant="gpu", time_ratio=0.005, low=0.004, high=0.008, size=40000)
    settings = {"timing": {"size": "points"}}
    return summary | {"workload": "peaks", "baseline": "cpu", "settings": settings} | changes


def test_a_device_is_faster_at_a_size():
    row = only(studies.devices([], [speeds()], []))
    assert (row["question"], row["answer"]) == ("Is it faster than cpu at 40,000 points?", "yes")
    assert row["figure"] == "200 times as fast (95% interval 125 to 250)"


@pytest.mark.parametrize(
    ("low", "high", "words"), [(0.9, 1.1, ": no difference"), (2, 4, " to 0.500)")]
)
def test_what_is_not_measured_to_be_faster_is_not(low, high, words):
    ratio = {"variant": "gpu", "size": 100, "phase": "train", "time_ratio": 1.0}
    row = only(studies.devices([], [speeds(ratios=[ratio | {"low": low, "high": high}])], []))
    assert row["answer"] == "no"
    assert words in row["figure"]


def test_a_missing_device_has_its_row():
    missing = {"workload": "peaks", "variant": "gpu", "reason": "no GPU on this machine"}
    row = only(studies.devices([], [speeds(ratios=[])], [missing]))
    assert (row["answer"], row["figure"]) == ("not run", "no GPU on this machine")


def test_training_prediction_and_what_was_learned_are_asked_apart():
    ratio = {"variant": "compiled", "size": None, "time_ratio": 0.5, "low": 0.4, "high": 0.625}
    found = speeds(
        baseline="eager", ratios=[ratio | {"phase": phase} for phase in ("train", "predict")]
    )
    contrast = differing(variant="compiled", against="eager", workload="peaks")
    rows = studies.acceleration([contrast], [found], [])
    assert [(row["question"], row["answer"]) for row in rows] == [
        ("Does it train faster than eager?", "yes"),
        ("Does it predict faster than eager?", "yes"),
        ("Are the parameters those of eager, bit for bit?", "differs"),
    ]


def test_the_loop_is_held_against_the_bare_step_at_the_largest_size():
    ratio = {"variant": "cpu", "size": 100, "time_ratio": 2.0, "low": 1.9, "high": 2.1}
    largest = {"variant": "cpu", "size": 40000, "time_ratio": 1.2, "low": 1.1, "high": 1.3}
    row = only(studies.devices([], [speeds(ratios=[], trainer=[ratio, largest])], []))
    assert row["question"] == "Does the Trainer's loop cost time, against the bare step?"
    assert (row["answer"], row["figure"][:10]) == ("yes", "1.20 times")


@pytest.mark.parametrize(("distance", "answer"), [(9e-6, "yes"), (2e-5, "no"), (math.nan, "no")])
def test_a_fast_variant_predicts_the_same_or_not(distance, answer):
    rows = [{"variant": "fast", "size": size, "tolerance": 1e-5} for size in (100, 200)]
    rows = [row | {"distance": d} for row, d in zip(rows, (1e-7, distance), strict=True)]
    row = only(studies.acceleration([], [speeds(ratios=[], agreement=rows)], []))
    assert row["question"] == "Does it predict what cpu predicts, but for rounding?"
    assert row["answer"] == answer


def test_a_variant_that_cannot_be_compiled_has_a_row_for_each_question():
    skipped = {"variant": "compiled", "size": None, "reason": "Unsupported: a graph break"}
    rows = studies.acceleration([], [speeds(ratios=[], skipped=[skipped])], [])
    assert [row["answer"] for row in rows] == ["not run", "not run"]
    assert {row["figure"] for row in rows} == {"Unsupported: a graph break"}


def test_resuming_has_a_row_for_each_checkpoint():
    def stops(**answers):
        return [
            {"stop": stop, "resume": resume, "answer": answer, "resumed_at": 9, "lost": "?"}
            for resume, of_stops in answers.items()
            for stop, answer in of_stops.items()
        ]

    lightnings = {"mid_epoch": "differs", "last_batch": "equal", "before_validation": "not run"}
    found = {
        "workload": "digits",
        "variant": "serial",
        "steps": 27,
        "path": "resumes/digits/serial.json",
        "stops": stops(lightning=lightnings, twinrun=dict.fromkeys(lightnings, "equal")),
    }
    rows = studies.resume([found], [], [])
    assert [(row["answer"], row["figure"]) for row in rows] == [
        (
            "differs",
            "1 of 2 kinds of stop lose nothing; differs: between two mini-batches of an epoch",
        ),
        ("equal", "3 of 3 kinds of stop lose nothing"),
    ]
    assert rows[1]["question"].endswith("does it go on to the same bits from Twinrun's checkpoint?")
