"""Whole trainings as they ran: what is an answer, what is none, and what is said beside both."""

import pytest
from example_comparisons import median, timed
from example_runs import CONTEXT, SECONDS
from example_trainings import WORKLOAD

from twinrun.verdicts import studies
from twinrun.verdicts.evidence import Evidence
from twinrun.verdicts.whole_speed import whole_speeds

PROOF = {"seconds": 31.0}


def run(variant, fit, *, seed=1, host="example", **changes):
    """Return what a run tells of its time; it had the machine for itself."""
    seconds = {key: changes.pop(key) for key in SECONDS if key in changes and key != "steps"}
    found = {
        "workload": "digits",
        "variant": variant,
        "seed": seed,
        "repeat": 1,
        "settings": {"workload": WORKLOAD},
        "steps": 3120,
        "epochs": 3,
        "whole_epochs": 3,
        "seconds": {**SECONDS, "fit": fit, "epochs": [fit], **seconds},
        "environment": {"context": {**CONTEXT, "host": host}},
        "proof": None,
        "resumed_at": [],
        "was_stopped": False,
        "ended": "finished",
    }
    return Evidence(
        path=f"runs/digits/{variant}/seed{seed}/repeat1/run.json", found=found | changes
    )


def judged(*runs):
    (row,) = whole_speeds(runs)
    assert (row["key"], row["workload"], row["variant"]) == ("whole_speed", "digits", "compiled")
    assert row["question"] == "Was the whole training faster than eager's, as both ran?"
    assert row["evidence"] == "runs/digits/compiled/seed1/repeat1/run.json"
    return row["answer"], row["measured"]


def two(own=147.0, base=116.0, *, of_both=None, **changes):
    """Judge a training of each; the seconds of the issue: faster steps, and a slower training."""
    both = of_both or {}
    return judged(run("eager", base, **both), run("compiled", own, **both | changes))


def test_compilation_makes_a_training_slower_whose_steps_are_faster():
    answer, measured = two(compiling=26.7, tracing=4.0, proof=PROOF, of_both={"tracing": 2.0})
    assert answer == "no"
    assert measured == (
        "0.797 times as fast without fingerprints: 2 min 23 s, eager 1 min 54 s (a training each, "
        "with them 2 min 27 s and 1 min 56 s); compiling 26.7 s of it; alone on the machine; the "
        "proof of its steps took 31.0 s apart, made once and remembered"
    )


def test_what_no_step_can_make_faster_is_said():
    """Red before: of a training that is all validation, nothing was said of it."""
    measured = two(38.8, 8.3, compiling=29.3, epochs=[30.5], of_both={"epochs": [0.3]})[1]
    assert (
        "; compiling 29.3 s of it; validation and the ends of epochs 8.30 s and 8.00 s of it; "
        in (measured)
    )
    assert "validation" not in two()[1]


def test_a_faster_training_is_one():
    answer, measured = two(50.0)
    assert answer == "yes"
    assert measured.startswith("2.32 times as fast: 50.0 s, eager 1 min 56 s (a training each)")


def test_a_ratio_stands_beside_the_seconds_that_it_is_of():
    """Red before: 0.823 times as fast: 18.7 s, eager 19.1 s."""
    measured = two(18.7, 19.1, tracing=1.4, of_both={"tracing": 4.86})[1]
    assert measured.partition("; ")[0] == (
        "0.823 times as fast without fingerprints: 17.3 s, eager 14.2 s (a training each, with "
        "them 18.7 s and 19.1 s)"
    )
    runs = [
        run(variant, fit, seed=seed, tracing=tracing)
        for variant, fits in (("eager", ((20.0, 9.0), (21.0, 1.0), (22.0, 2.0))),
                              ("compiled", ((10.0, 1.0), (11.0, 1.0), (12.0, 1.0))))
        for seed, (fit, tracing) in enumerate(fits, 1)
    ]  # fmt: skip
    assert judged(*runs)[1].startswith(
        "2.00 times as fast without fingerprints: 10.0 s, eager 20.0 s (medians of 3 each, with "
        "them 11.0 s and 21.0 s); "
    )


def test_two_trainings_of_about_the_same_time_say_nothing():
    """What one minute more or less is, two trainings of a side do not show."""
    answer, measured = two(110.0)
    assert answer == "undecided"
    assert measured.endswith("; undecided, since two such trainings may differ by 10%")


def test_what_waited_for_other_jobs_is_never_faster():
    for waiting in ({"waited": 20.0}, {"of_both": {"waited": 20.0}}):
        answer, measured = two(30.0, **waiting)
        assert answer == "undecided"
        assert "threads waited 20.0 s and " in measured
        assert measured.endswith(
            "; undecided, since a training a side that had to wait for others is no measurement"
        )


def test_what_is_slower_whatever_it_waited_is_not_faster():
    """A second of training, and two minutes to compile it; a third of that was waiting."""
    assert two(131.0, 2.5, waited=43.0)[0] == "no"
    assert two(131.0, 80.0, waited=60.0)[0] == "undecided"


def test_what_nobody_counted_is_no_answer():
    answer, measured = two(30.0, waited=None)
    assert answer == "undecided"
    assert measured.endswith("since nobody knows here how long they had to wait for others")


@pytest.mark.parametrize(("own", "expected"), [(90.0, "undecided"), (60.0, "yes")])
def test_beside_other_jobs_a_difference_must_be_larger(own, expected):
    answer, measured = two(own, of_both={"others": 0.9})
    assert answer == expected
    assert "; beside other jobs, which kept 0.90 and 0.90 of 2 cores busy" in measured
    assert two(90.0)[0] == "yes"


def test_epochs_that_spread_are_a_noise_of_this_machine():
    spread = [1.0, *([1.0] * 4), *([2.0] * 4)]
    assert two(90.0, epochs=spread)[0] == "undecided"
    assert two(90.0, epochs=[9.0, *([1.0] * 8)])[0] == "yes"


def test_of_several_seeds_the_medians_count_and_waiting_bounds_them():
    runs = [
        run(variant, fit + seed, seed=seed, waited=10.0)
        for variant, fit in (("eager", 116.0), ("compiled", 50.0))
        for seed in (1, 2, 3)
    ]
    answer, measured = judged(*runs)
    assert (answer, measured[:19]) == ("yes", "2.27 times as fast:")
    assert "(medians of 3 each)" in measured
    assert "threads waited 10.0 s and 10.0 s for a core" in measured
    # Without its waiting, eager may have taken as little as the other.
    runs = [*[run("eager", 116.0, seed=s, waited=70.0) for s in (1, 2, 3)], *runs[3:]]
    assert judged(*runs)[0] == "undecided"


def test_only_seeds_that_both_have_are_compared():
    runs = [run("eager", 116.0), run("eager", 1.0, seed=2), run("compiled", 50.0)]
    assert judged(*runs)[1].startswith("2.32 times as fast")
    apart = [run("eager", 116.0, seed=2), run("compiled", 50.0)]
    assert judged(*apart) == ("not comparable", "no seed has a whole training of both")


def test_fingerprints_stay_in_both_where_one_is_not_known():
    """On a GPU they wait for the step: to take them out of the CPU's alone would favour it."""
    answer, measured = two(100.0, tracing=None, of_both={"tracing": 60.0})
    assert answer == "yes" or "1.16 times as fast" in measured
    assert measured.startswith("1.16 times as fast: 1 min 40 s, eager 1 min 56 s")
    assert "; fingerprints in it; " in measured


@pytest.mark.parametrize(
    ("changes", "answer", "reason"),
    [
        ({"ended": "refused: the loss is off"}, "not run", "compiled has no whole training: refu"),
        ({"ended": "failed: no memory"}, "not run", "compiled has no whole training: failed: no m"),
        ({"resumed_at": [80]}, "not run", "compiled has no whole training: it was resumed"),
        ({"steps": 1000}, "not comparable", "1,000 steps of seed 1, and 3,120"),
        ({"samples": [64]}, "not comparable", "64 samples of seed 1 in as many steps, and 48"),
        ({"host": "other"}, "not comparable", "trained on two machines, other and example"),
    ],
)
def test_what_is_no_whole_training_of_both(changes, answer, reason):
    found = judged(run("eager", 116.0, samples=[48]), run("compiled", 50.0, **changes))
    assert found[0] == answer
    assert found[1].startswith(reason)


def test_without_the_baseline_there_is_nothing_to_compare():
    runs = [run("eager", 116.0, ended="failed: no memory"), run("compiled", 50.0)]
    assert judged(*runs) == (
        "not comparable",
        "eager has no whole training: failed: no memory",
    )


def test_a_study_asks_both_of_the_step_and_of_the_whole():
    """Red before: yes, 1.57 times, and not a word of the training that took longer."""
    once = [
        median("compiled", phase="first_call", seconds_per_step=26.7),
        median("eager", phase="first_call", seconds_per_step=0.05),
    ]
    found = timed(
        "compiled",
        (0.637, 0.61, 0.66),
        baseline="eager",
        of_baseline={"seconds_per_step": 0.03},
        of_variant={"seconds_per_step": 0.0191},
        workload="digits",
        extents=[{"size": None, "train": 700, "predict": 8}],
    )
    found.found["medians"] += once
    runs = [run("eager", 116.0), run("compiled", 147.0, compiling=30.0)]
    for study in (studies.acceleration, studies.devices):
        step, whole = study([], [found], [], [], runs)
        assert (step["key"], step["answer"]) == ("speed", "yes")
        assert step["measured"] == (
            "faster, 36.3% less time: 1.57 times as fast (95% interval 1.52 to 1.64); compiling in "
            "a training takes 30.0 s more, which pays above about 2,800 steps (2,600 to 3,000 by "
            "the interval of a step); this training has 2,100, which is too few"
        )
        assert (whole["key"], whole["answer"]) == ("whole_speed", "no")
