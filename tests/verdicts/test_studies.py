"""Each study asks its questions, each verdict has its key, and what is missing has its row."""

import pytest
from example_comparisons import compared, median, timed

from twinrun.verdicts import studies
from twinrun.verdicts.evidence import Evidence

MISSING = {"workload": "denoiser", "variant": "on_gpu", "reason": "no GPU on this machine"}


def summed_up(rows):
    return [(row["key"], row["variant"], row["answer"]) for row in rows]


def test_reproducibility_asks_for_repeats_and_cost():
    rows = studies.reproducibility([compared()], [timed()], [MISSING])
    assert summed_up(rows) == [
        ("repeats", "deterministic", "equal"),
        ("repeats", "on_gpu", "not run"),
        ("cost", "deterministic", "yes"),
        ("cost", "on_gpu", "not run"),
    ]
    assert {row["measured"] for row in rows[1::2]} == {"no GPU on this machine"}
    assert rows[3]["question"] == "Does it cost time, compared with nondeterministic?"
    alone = studies.reproducibility([], [], [MISSING])
    assert [row["question"] for row in alone][1] == "Does it cost time?"


def test_devices_ask_for_speed_and_what_was_learned():
    contrast = compared(variant="gpu", against="cpu")
    found = timed("gpu", (0.5, 0.4, 0.6), baseline="cpu")
    assert summed_up(studies.devices([contrast], [found], [MISSING])) == [
        ("speed", "gpu", "yes"),
        ("speed", "on_gpu", "not run"),
        ("same_parameters", "gpu", "equal"),
    ]


def test_acceleration_asks_for_training_and_prediction_apart():
    found = timed("compiled", (0.5, 0.4, 0.6), baseline="eager").found
    for measured in (found["ratios"], found["medians"]):
        measured += [row | {"phase": "predict"} for row in measured]
    rows = studies.acceleration([], [Evidence(path="timings/x.json", found=found)], [])
    assert summed_up(rows) == [
        ("speed", "compiled", "yes"),
        ("prediction_speed", "compiled", "yes"),
    ]
    assert [row["question"] for row in rows] == [
        "Does it train faster than eager?",
        "Does it predict faster than eager?",
    ]


def test_parallel_asks_no_question_about_determinism():
    """Red at b8e0cc1: a missing variant was asked what it costs, and not whether it is faster."""
    scaling = {
        "workload": "digits",
        "baseline": "one",
        "medians": [median("one"), median("two")],
        "ratios": [{"variant": "two", "time_ratio": 0.6, "low": 0.5, "high": 0.7}],
        "skipped": [],
    }
    rows = studies.parallel(
        [compared(), compared(variant="two", against="one")],
        [Evidence(path="scaling/digits.json", found=scaling)],
        [MISSING],
    )
    assert summed_up(rows) == [
        ("repeats", "deterministic", "equal"),
        ("repeats", "on_gpu", "not run"),
        ("speed", "two", "yes"),
        ("speed", "on_gpu", "not run"),
        ("same_parameters", "two", "equal"),
    ]


class TestMatrix:
    def matrix(self, *answers, **changes):
        """A matrix whose changes have these answers."""
        cells = [
            {"cell": f"change-{number}", "label": f"change {number}", "answer": answer}
            | {"reason": "no GPU" if answer == "not run" else None}
            for number, answer in enumerate(answers, start=1)
        ]
        cells.append(
            {
                "cell": "seed",
                "label": "seed: 2",
                "answer": "differs",
                "reason": None,
                "same_weights": False,
            }
        )
        for cell in cells:
            cell["conditions"] = []
        found = {
            "workload": "digits",
            "baseline": "plain",
            "answer": "equal",
            "reason": None,
            "steps": 30,
            "cells": cells,
        }
        return Evidence(path="matrix/digits.json", found=found | changes)

    @pytest.mark.parametrize(
        ("answers", "answer", "measured"),
        [
            (["equal", "equal"], "yes", "2 of 2 changes leave it equal"),
            (["equal", "differs"], "no", "1 of 2 changes leave it equal; differs: change 2"),
            (
                ["equal", "not comparable"],
                "undecided",
                "1 of 1 change leave it equal; not comparable: change 2",
            ),
            (["equal", "not run"], "yes", "1 of 1 change leave it equal; not run: change 2"),
            (["not run", "not run"], "not run", "no GPU"),
            (["not comparable"], "not comparable", "no setting was changed"),
        ],
    )
    def test_changes_are_counted_and_the_others_named(self, answers, answer, measured):
        repeats, withstands = studies.matrix([self.matrix(*answers)], [], [])
        found = repeats["key"], repeats["answer"], repeats["measured"]
        assert found == ("repeats", "equal", "2 runs, 30 steps")
        assert withstands["key"] == "withstands_changes"
        assert (withstands["answer"], withstands["measured"]) == (answer, measured)

    def test_a_baseline_that_could_not_be_trained_says_why(self):
        repeat = {"cell": "repeat", "label": "repeat", "answer": "not run", "reason": "no GPU"}
        repeat["conditions"] = []
        found = self.matrix(answer="not run", steps=None, cells=[repeat])
        repeats, _ = studies.matrix([found], [], [])
        assert (repeats["answer"], repeats["measured"]) == ("not run", "no GPU")


class TestResume:
    def table(self, **checkpoints):
        """A table of stops, by checkpoint: the answer after each kind of stop."""
        stops = [
            {"stop": stop, "resume": checkpoint, "answer": answer, "outputs": []}
            | {"lost": f"lost at {stop}"}
            for checkpoint, of_stops in checkpoints.items()
            for stop, answer in of_stops.items()
        ]
        found = {"workload": "digits", "variant": "serial", "stops": stops}
        return Evidence(path="resumes/digits/serial.json", found=found)

    def test_each_checkpoint_has_its_key(self):
        answers = {"mid_epoch": "differs", "last_batch": "equal", "before_validation": "not run"}
        found = self.table(lightning=answers, twinrun=dict.fromkeys(answers, "equal"))
        lightning, twinrun = studies.resume([found], [], [])
        assert (lightning["key"], lightning["answer"]) == ("resumes_lightning", "differs")
        assert lightning["question"] == (
            "Does resuming from Lightning's checkpoint reproduce the uninterrupted run, bit for "
            "bit?"
        )
        assert lightning["measured"] == (
            "1 of 2 kinds of stop lose nothing; differs: between two mini-batches of an epoch; not "
            "run: just before validation"
        )
        assert (twinrun["key"], twinrun["answer"]) == ("resumes_twinrun", "equal")
        assert twinrun["measured"] == "3 of 3 kinds of stop lose nothing"

    @pytest.mark.parametrize(
        ("answers", "answer", "measured"),
        [
            (["equal", "not comparable"], "not comparable", "1 of 2 kinds of stop lose nothing"),
            (["not comparable", "not run"], "not comparable", "0 of 1 kind of stop loses nothing"),
            (["not comparable", "differs"], "differs", "0 of 2 kinds of stop lose nothing"),
            (["not run", "equal"], "equal", "1 of 1 kind of stop loses nothing"),
        ],
    )
    def test_a_stop_that_could_not_be_compared_is_never_equal(self, answers, answer, measured):
        stops = ("mid_epoch", "last_batch")
        (row,) = studies.resume(
            [self.table(twinrun=dict(zip(stops, answers, strict=True)))], [], []
        )
        assert row["answer"] == answer
        assert row["measured"].startswith(measured)
        named = {word for word in answers if word != "equal"}
        assert all(f"; {word}: " in row["measured"] for word in named)

    def test_a_stop_that_never_happened_is_no_answer(self):
        """Red at b8e0cc1: no row at all."""
        found = self.table(lightning={"last_batch": "not run"}, twinrun={"last_batch": "not run"})
        for row in studies.resume([found], [], []):
            assert (row["answer"], row["measured"]) == ("not run", "lost at last_batch")

    def test_a_missing_variant_has_a_row_for_each_checkpoint(self):
        rows = studies.resume([], [], [MISSING])
        assert [row["key"] for row in rows] == ["resumes_lightning", "resumes_twinrun"]


class TestSweep:
    def ranking(self, *trials):
        """A ranking of trials `(lr, seed, value)`, the best first; a value None has no rank."""
        rows = [
            {
                "rank": None if value is None else rank,
                "point": {"lr": lr, "seed": seed},
                "label": f"lr {lr}, seed {seed}",
                "value": value,
            }
            for rank, (lr, seed, value) in enumerate(trials, start=1)
        ]
        found = {"workload": "digits", "metric": "acc", "best": "highest", "trials": rows}
        found["finished"] = sum(value is not None for *_, value in trials)
        found["same"] = []
        return Evidence(path="sweeps/digits.json", found=found)

    @pytest.mark.parametrize(
        ("trials", "answer", "ground"),
        [
            (
                [(1, 1, 0.9), (2, 1, 0.8)],
                "undecided",
                "from one seed only, so this order may be luck",
            ),
            (
                [(1, 1, 0.9), (1, 2, 0.8)],
                "undecided",
                "there is no other trial to compare it with",
            ),
            (
                [(1, 1, 0.9), (1, 2, 0.8), (2, 1, 0.7), (2, 2, 0.6)],
                "yes",
                "these hyperparameters come first for 2 of 2 seeds",
            ),
            (
                [(1, 1, 0.9), (2, 2, 0.8), (1, 2, 0.7), (2, 1, 0.6)],
                "no",
                "these hyperparameters come first for 1 of 2 seeds",
            ),
            (
                [(1, 1, 0.9), (2, 1, 0.9), (1, 2, 0.9), (2, 2, 0.8)],
                "no",
                "these hyperparameters come first for 1 of 2 seeds",
            ),
        ],
    )
    def test_the_first_is_the_best_only_if_every_seed_says_so(self, trials, answer, ground):
        """The first was seen red at b8e0cc1: the winner of one seed was called the best."""
        finished, best = studies.sweep([self.ranking(*trials)], [], [])
        assert (finished["key"], finished["answer"]) == ("finished", "yes")
        assert (best["key"], best["answer"]) == ("best", answer)
        lr, seed, value = trials[0]
        assert best["measured"] == f"highest acc: {value:.3f} with lr {lr}, seed {seed}; {ground}"

    @pytest.mark.parametrize(
        ("trials", "answer", "ground"),
        [
            # Nobody is second to a trial that alone has a number.
            ([(1, 1, 0.9), (2, 1, None)], "undecided", "there is no other trial to compare it"),
            # A seed of which no trial has a number is none that could confirm or deny.
            (
                [(1, 1, 0.9), (2, 1, 0.8), (1, 2, None), (2, 2, None)],
                "undecided",
                "from one seed only",
            ),
            # One that failed is beaten by each that has a number, under every seed.
            (
                [(1, 1, 0.9), (1, 2, 0.8), (2, 1, 0.7), (2, 2, None)],
                "yes",
                "these hyperparameters come first for 2 of 2 seeds; 1 of 4 trials gave no number",
            ),
            # Seen red: the seed without a number was not counted, "yes" for 2 of 2 seeds.
            (
                [(1, 1, 0.9), (1, 2, 0.8), (2, 1, 0.7), (2, 2, 0.6), (1, 3, None), (2, 3, None)],
                "undecided",
                "these hyperparameters come first for 2 of 3 seeds; 2 of 6 trials gave no number",
            ),
        ],
    )
    def test_trials_without_a_number_confirm_nothing(self, trials, answer, ground):
        finished, best = studies.sweep([self.ranking(*trials)], [], [])
        assert finished["answer"] == "no"
        assert best["answer"] == answer
        assert f"; {ground}" in best["measured"]

    def test_when_none_has_a_rank_there_is_no_best(self):
        (row,) = studies.sweep([self.ranking((1, 1, None))], [], [])
        assert row["measured"] == "0 of 1 trial finished"
