"""Each study asks its questions, each verdict has its key, and what is missing has its row."""

import pytest
from example_comparisons import compared, median, timed
from ranked import OF_TRIAL, ranking

from twinrun.gate.costs import costs
from twinrun.verdicts import studies
from twinrun.verdicts.evidence import Evidence
from twinrun.verdicts.judge import verdicts_of

MISSING = {"workload": "denoiser", "variant": "on_gpu", "reason": "no GPU on this machine"}


def noise(*of_seeds):
    """Return a scale of a metric, by seed."""
    return {
        "workload": "digits",
        "variant": "serial",
        "seed": 1,
        "steps": 60,
        "reason": None,
        "measures": [{"name": "acc", "kind": "metric", "floor": 0.0}],
        "runs": [
            {
                "kind": "seed" if number else "reference",
                "label": f"seed {number + 1}",
                "study": "noise",
                "run": "",
                "answer": "differs",
                "reason": None,
                "values": {"acc": value},
                "lacks": {},
                "not_finite": [],
            }
            for number, value in enumerate(of_seeds)
        ],
        "not_measured": {},
        "left_out": [],
        "other_data": [],
        "samples": [1000],
        "half_a_seed": None,
    }


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


@pytest.mark.parametrize(
    ("study", "keys"),
    [
        ("reproducibility", ["cost"]),
        ("devices", ["speed"]),
        ("acceleration", ["speed", "prediction_speed"]),
    ],
)
def test_a_variant_that_no_timing_measures_has_its_rows(study, keys, tmp_path):
    """Red at a14b1c7: none, and a gate on the cost passed without it."""
    rows = verdicts_of(
        study,
        comparisons=[],
        timings=[],
        locations=[],
        not_run={},
        untimed={"cut": "a timing does whole steps"},
        workloads=["denoiser"],
        results=tmp_path,
    )
    assert summed_up(rows) == [(key, "cut", "not run") for key in keys]
    assert {row["measured"] for row in rows} == {"a timing does whole steps"}
    judged = costs([], "<= 1.25", rows, ["denoiser"])
    of_cost = [("not comparable", "denoiser cut: a timing does whole steps")]
    assert [*judged] == of_cost * (study == "reproducibility")


def test_parallel_asks_no_question_about_determinism():
    """Red at b8e0cc1: a missing variant was asked what it costs, and not whether it is faster."""
    scaling = {
        "workload": "digits",
        "baseline": "one",
        "medians": [median(name) | {"samples": 640, "steps": 10} for name in ("one", "two")],
        "ratios": [
            {"variant": "two", "time_ratio": 0.6, "low": 0.5, "high": 0.7, "per": "samples"}
        ],
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
            {"cell": f"change-{number}", "label": f"change {number}"}
            | {"answer": answer, "reason": "no GPU" if answer == "not run" else None}
            | ({"answer": "not run", "tried": True} if answer == "failed" else {})
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
            (["equal", "differs"], "no", "1 of 2 changes leaves it equal; differs: change 2"),
            (
                ["equal", "not comparable"],
                "undecided",
                "1 of 1 change leaves it equal; not comparable: change 2",
            ),
            (["equal", "not run"], "yes", "1 of 1 change leaves it equal; not run: change 2"),
            # Red before: "yes", beside a change under which training had failed.
            (["equal", "failed"], "undecided", "1 of 1 change leaves it equal; not run: change 2"),
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

    def test_a_whole_run_that_was_resumed_itself_is_said(self):
        """Red before: nothing said that both sides may have lost the same."""
        table = self.table(twinrun={"mid_epoch": "equal"})
        table.found["whole_resumed_at"] = [6]
        (verdict,) = studies.resume([table], [], [])
        assert (
            "was itself resumed after step 6, so that what both lose alike" in verdict["measured"]
        )

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
            "1 of 2 kinds of stop loses nothing; differs: between two mini-batches of an epoch; "
            "not run: just before validation (lost at before_validation)"
        )
        assert (twinrun["key"], twinrun["answer"]) == ("resumes_twinrun", "equal")
        assert twinrun["measured"] == "3 of 3 kinds of stop lose nothing"

    @pytest.mark.parametrize(
        ("answers", "answer", "measured"),
        [
            (["equal", "not comparable"], "not comparable", "1 of 2 kinds of stop loses nothing"),
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

    def test_why_a_stop_never_happened_is_said_and_what_failed_is_not_equal(self):
        """Red before: `equal`, and of refused checkpoints and a failed training their names."""
        stops = ("mid_epoch", "last_batch", "before_validation", "after_validation")
        found = self.table(twinrun=dict.fromkeys(stops, "not run") | {"epoch_end": "equal"})
        for stop, why in zip(stops, ("refused", "refused", "no validation", "x"), strict=True):
            next(row for row in found.found["stops"] if row["stop"] == stop)["lost"] = why
        (row,) = studies.resume([found], [], [])
        assert (row["answer"], row["measured"]) == (
            "equal",
            "1 of 1 kind of stop loses nothing; not run: between two mini-batches of an epoch and "
            "after the last mini-batch of an epoch (refused), just before validation (no "
            "validation), just after validation (x)",
        )
        found.found["stops"][3]["failed"] = True
        (row,) = studies.resume([found], [], [])
        assert row["answer"] == "not run"

    def test_a_stop_that_never_happened_is_no_answer(self):
        """Red at b8e0cc1: no row at all."""
        found = self.table(lightning={"last_batch": "not run"}, twinrun={"last_batch": "not run"})
        for row in studies.resume([found], [], []):
            assert (row["answer"], row["measured"]) == ("not run", "lost at last_batch")

    def test_a_missing_variant_has_a_row_for_each_checkpoint(self):
        rows = studies.resume([], [], [MISSING])
        assert [row["key"] for row in rows] == ["resumes_lightning", "resumes_twinrun"]


class TestSweep:
    def rows(self, values, **others):
        return studies.sweep([Evidence(path="x.json", found=ranking(values, **others))], [], [])

    def test_trials_that_are_trained_shorter_than_the_workload_say_it(self):
        """Red before: the answer was that of a whole training."""
        _, best = self.rows({1: [0.9], 2: [0.8]}, trained="after 2 of 60 epochs")
        assert best["measured"].startswith("highest acc in the test after 2 of 60 epochs: 0.900")

    @pytest.mark.parametrize(
        ("values", "answer", "ground"),
        [
            ({1: [0.9], 2: [0.8]}, "undecided", "from one seed only, so this order may be luck"),
            ({1: [0.9, 0.8]}, "undecided", "there is no other choice to compare it with"),
            (
                {1: [0.9, 0.91, 0.92], 2: [0.7, 0.72, 0.71], 3: [0.8, 0.8, 0.81]},
                "yes",
                "best: lr 1 with 0.910 (0.885 to 0.935); highest acc in the test, mean over 3 "
                "seeds; all others are told from it (p < 0.001), the next is lr 3 with 0.803",
            ),
            (
                {1: [0.9, 0.91, 0.92], 2: [0.7, 0.72, 0.71], 3: [0.89, 0.92, 0.9]},
                "undecided",
                "undecided between lr 1 with 0.910 (0.885 to 0.935) and lr 3 with 0.903 (0.865 to "
                "0.941); highest acc in the test, mean over 3 seeds; 60 seeds would probably tell "
                "such a difference (57 more)",
            ),
            # A difference that no seed moves is not significant: luck was not measured.
            (
                {1: [0.9, 0.9, 0.9], 2: [0.8, 0.8, 0.8]},
                "undecided",
                "no seed changes these values, so how much of the order is luck was not measured",
            ),
            # Red before: "how much of the order is luck", of equals in the order of the config.
            (
                {1: [0.9, 0.9], 2: [0.9, 0.9]},
                "undecided",
                "no seed changes these values, and none is ahead",
            ),
            (
                {1: [0.9, 0.9, 0.9], 2: [0.9, 0.9, 0.9], 3: [0.7, 0.71, 0.72]},
                "undecided",
                "undecided between lr 1 with 0.900 and lr 2 with 0.900; highest acc in the test, "
                "mean over 3 seeds; no seed changes these values, and none is ahead",
            ),
            # Red before: 0.983 of all three, and an order of them.
            (
                {1: [0.98312] * 2, 2: [0.98349] * 2, 3: [0.98312] * 2},
                "undecided",
                "undecided between lr 2 with 0.98349, lr 1 with 0.98312 and lr 3 with 0.98312; ",
            ),
            # Red before: it was said of all three that no number of seeds would tell.
            (
                {1: [0.9, 0.9, 0.9], 2: [0.85, 0.85, 0.85], 3: [0.8, 0.95, 0.9]},
                "undecided",
                "no seed changes the values of lr 1 and lr 2; of the others 167 seeds would",
            ),
            # Red before: "no number of seeds", of what may be one training.
            (
                {1: [0.8, 0.9], 2: [0.8, 0.9]},
                "undecided",
                "each of these seeds gives all of these the same value",
            ),
            # Equal values are those of two trainings all the same.
            ({1: [0.8, 0.9], 2: [0.9, 0.8]}, "undecided", "no number of seeds up to 10,000"),
            # One that diverged, however far, moves nobody else's interval.
            (
                {1: [0.9, 0.91, 0.92], 2: [0.7, 0.72, 0.71], 3: [float("nan"), 0.1, 1e30]},
                "yes",
                "lr 3 is not comparable (seed 1: nan)",
            ),
            (
                {1: [0.9, 0.91, 0.92], 2: [0.7, 0.72, 0.71], 3: [-1e30, -2e30, -1.5e30]},
                "yes",
                "best: lr 1 with 0.910 (0.885 to 0.935)",
            ),
            # Nobody is second to a choice that alone has a number for every seed.
            ({1: [0.9, 0.8], 2: [0.7, "failed: x"]}, "undecided", "there is no other choice"),
            (
                {1: [0.9, "failed: x"], 2: ["failed: y", 0.8]},
                "not comparable",
                "no choice has a number for every seed; lr 1 is not comparable (seed 2: failed: x)",
            ),
            (
                {1: [0.9, "failed: x"], 2: [0.8, "failed: x"]},
                "undecided",
                "left aside: seed 2, which gave none a number",
            ),
        ],
    )
    def test_the_first_is_the_best_only_where_luck_is_told_from_it(self, values, answer, ground):
        _, best = self.rows(values)
        assert (best["key"], best["answer"]) == ("best", answer)
        assert ground in best["measured"]

    @pytest.mark.parametrize("tables", [[], [0.9, 0.905, 0.9, 0.895, 0.9]])
    @pytest.mark.parametrize(
        ("values", "with_noise", "without"),
        [
            (
                {1: [1.0], 2: [1.0], 3: [1.0]},
                "1.00 with lr 1, lr 2 and lr 3; from one seed only, by which none is ahead: list",
                "1.00 with lr 1, lr 2 and lr 3; from one seed only, by which none is ahead: list",
            ),
            (
                {1: [0.7], 2: [0.9], 3: [0.9]},
                "0.900 with lr 2 and lr 3; the next, lr 1, is apart by 0.200; by the study noise",
                "0.900 with lr 2 and lr 3; from one seed only, so this order may be luck",
            ),
            (
                {choice: [1.0] for choice in range(1, 9)},
                "1.00 with lr 1, lr 2, lr 3, lr 4, lr 5 and 3 more; from one seed only, by which",
                "1.00 with lr 1, lr 2, lr 3, lr 4, lr 5 and 3 more; from one seed only, by which",
            ),
        ],
    )
    def test_choices_that_share_the_first_rank_are_named_together(
        self, tables, values, with_noise, without
    ):
        """Red before: the first of the config alone, and an order of equals."""
        noises = [Evidence(path="noise/digits/serial.json", found=noise(*tables))] if tables else []
        found = Evidence(path="sweeps/x.json", found=ranking(values))
        rows = studies.sweep([found], noises, [])
        (best,) = [row for row in rows if row["key"] == "best"]
        assert best["answer"] == "undecided"
        ground = with_noise if tables else without
        assert best["measured"].startswith(f"highest acc in the test: {ground}")

    @pytest.mark.parametrize(
        ("values", "still", "ground"),
        [
            # Red before: "yes", and all others told from the first (p = 0.004).
            (
                {1: [0.9] * 4, 2: [0.8, 0.81, 0.82, 0.83], 3: [0.7, 0.72, 0.71, 0.7]},
                {1},
                "no seed moves lr 1 (its result is the same from each of 4 seeds, so it may seed "
                "itself), so its luck is not measured",
            ),
            # Red before: "yes", too.
            (
                {1: [0.9, 0.91, 0.92, 0.9], 2: [0.8] * 4, 3: [0.7, 0.72, 0.71, 0.7]},
                {2},
                "undecided between lr 1 with 0.908 (0.892 to 0.923) and lr 2 with 0.800; highest "
                "acc in the test, mean over 4 seeds; no seed moves lr 2 (",
            ),
            # Red before: "of the others 4 seeds would", of all three.
            (
                {1: [0.9, 0.9], 2: [0.85, 0.85], 3: [0.8, 0.85]},
                {1, 2},
                "no seed moves lr 1 and lr 2 (the result of each is the same from each of 2 seeds, "
                "so they may seed themselves), so their luck is not measured",
            ),
            (
                {1: [0.9, 0.91, 0.92], 2: [0.89, 0.92, 0.9], 3: [0.8, 0.8, 0.8]},
                {3},
                "no seed moves lr 3 (its result is the same from each of 3 seeds, so it may seed "
                "itself), so its luck is not measured; of the others 60 seeds would probably tell",
            ),
        ],
    )
    def test_what_no_seed_moves_is_told_from_nothing_that_seeds_move(self, values, still, ground):
        _, best = self.rows(values, still=still)
        assert best["answer"] == "undecided"
        assert ground in best["measured"]
        # Its weights differ: seeds move it, and a metric of few values alone stands still.
        assert "may seed" not in self.rows(values)[1]["measured"]

    def test_of_values_that_no_seed_changes_one_sentence_is_said(self):
        """Red before: three more, and that seeds differ in what may be no luck of theirs."""
        values = {1: [0.9, 0.9, 0.9], 2: [0.8, 0.8, 0.8]}
        begun = {key: ["weights", "batches"] for key in values}
        _, best = self.rows(values, begun=begun, drawn=[])
        assert best["answer"] == "undecided"
        one = "no seed changes these values, so how much of the order is luck was not measured"
        assert best["measured"].endswith(f"mean over 3 seeds; {one}")

    def test_of_choices_that_begin_alike_from_all_seeds_none_is_best(self):
        """Red before: "yes" where a part of luck was the same for all seeds."""
        values = {1: [0.9, 0.91, 0.92], 2: [0.7, 0.72, 0.71], 3: [0.8, 0.8, 0.81]}
        all_three = ["weights", "batches", "random"]
        _, best = self.rows(values, begun={1: all_three, 2: all_three[:1]})
        assert best["answer"] == "undecided"
        assert (
            "no seed moves the initial weights, the first batches and torch's RNG state of lr 1 "
            "(they are the same from each of 3 seeds, so it may seed itself in part), so the luck "
            "of these is not measured; no seed moves the initial weights of lr 2, so"
        ) in best["measured"]
        _, best = self.rows(values, begun=dict.fromkeys(values, all_three[1:2]))
        assert best["answer"] == "yes"
        assert best["measured"].endswith(
            "; no seed moves the first batches of any, so their luck is not counted"
        )

    def test_a_mean_has_as_many_digits_as_its_interval_needs(self):
        """Red before: 1.00 (1.00 to 1.00), and all of 1.23×10⁶ (1.23×10⁶ to 1.23×10⁶)."""
        _, best = self.rows({1: [0.99991, 0.99992, 0.99991], 2: [0.99949, 0.9995, 0.9995]})
        assert "lr 1 with 0.999913 (0.999899 to 0.999928)" in best["measured"]
        large = {1: [1234567.2, 1234568.9, 1234565.1], 2: [1234577.2, 1234578.9, 1234577.9]}
        _, best = self.rows(large, best="lowest")
        assert "lr 1 with 1.2345671×10⁶ (1.2345623×10⁶ to 1.2345718×10⁶)" in best["measured"]
        _, best = self.rows({1: [1.5e308, -1.5e308, 1.4e308], 2: [0.0, 1e308, 0.0]})
        assert "to ∞" in best["measured"]

    @pytest.mark.parametrize(
        ("second", "others", "ground"),
        [
            (
                0.895,
                {},
                "differences of acc below 0.014 (1.4 points) are luck: list more under sweep.seeds",
            ),
            (0.7, {}, "are luck; but that is of the workload's own hyperparameters, and with oth"),
            (0.895, {"metric": "loss"}, "from one seed only, so this order may be luck"),
            (0.895, {"measured_in": "epoch", "epoch": 2}, "from one seed only"),
            (0.895, {"workload": "others"}, "from one seed only"),
        ],
    )
    def test_of_one_seed_the_noise_of_its_workload_says_what_may_be_luck(
        self, second, others, ground
    ):
        """Red before: what the study noise had measured was not asked for."""
        found = {**ranking({1: [0.9], 2: [second]}), **others}
        measured = {name: noise(0.9, 0.905, 0.9, 0.895, 0.9) for name in ("digits", "peaks")}
        tables = [
            Evidence(path=f"noise/{name}/serial.json", found={**table, "workload": name})
            for name, table in measured.items()
        ]
        rows = studies.sweep([Evidence(path="sweeps/x.json", found=found)], tables, [])
        (best,) = [row for row in rows if row["key"] == "best"]
        assert best["answer"] == "undecided"
        assert ground in best["measured"]

    def test_no_difference_is_called_luck_that_is_larger_than_any_value(self):
        """Red before: "differences below 1.6 are luck" of an accuracy."""
        scale = Evidence(path="noise/digits/serial.json", found=noise(0.501, 0.203, 0.71))
        for run in scale.found["runs"]:
            run["begun"] = OF_TRIAL["begun"] | {"weights": "a"}
        found = Evidence(path="sweeps/x.json", found=ranking({1: [0.9], 2: [0.2]}))
        (best,) = (r for r in studies.sweep([found], [scale], []) if r["key"] == "best")
        assert best["answer"] == "undecided"
        assert (
            "by the study noise, with one run a side, 3 seeds tell no difference of acc from luck: "
            "it would have to be 1.6, and of a share of samples none is above 1: list more under "
            "sweep.seeds; no seed moves the initial weights there, whose luck is not counted"
        ) in best["measured"]

    def test_runs_of_two_machines_have_no_best(self):
        """Red before: a sweep did not ask; its winner may have been the machine's."""
        values = {1: [0.9, 0.91, 0.92], 2: [0.7, 0.72, 0.71]}
        _, best = self.rows(values, conflict="environment.cpu is 'a' in x and 'b' in y")
        assert best["answer"] == "not comparable"
        assert best["measured"].startswith("environment.cpu is 'a' in x and 'b' in y; best: lr 1")

    @pytest.mark.parametrize("of_second", [[0.88, 0.93, 0.9], [0.7, 0.72, float("nan")]])
    def test_runs_of_two_machines_are_not_undecided_either(self, of_second):
        """Red before: so many seeds would probably tell, and not a word of the machines."""
        _, best = self.rows({1: [0.9, 0.91, 0.92], 2: of_second}, conflict="environment.cpu")
        assert best["answer"] == "not comparable"
        assert best["measured"].startswith("environment.cpu")
        assert "would probably tell" not in best["measured"]

    def test_a_trial_without_a_number_is_named_where_all_have_finished(self):
        """Red before: 3 of 3 trials finished, of which one has become NaN."""
        broken = float("nan")
        finished, _ = self.rows({1: [0.9], 2: [broken], 3: [0.8]})
        assert (finished["answer"], finished["measured"]) == (
            "yes",
            "3 of 3 trials finished; but without a number: lr 2, seed 1 (nan)",
        )
        finished, _ = self.rows({1: [broken] * 7})
        assert finished["measured"].endswith("lr 1, seed 5 (nan) and 2 more")

    def test_the_lowest_may_be_best(self):
        _, best = self.rows({1: [0.9, 0.91, 0.92], 2: [0.7, 0.72, 0.71]}, best="lowest")
        assert best["measured"].startswith("best: lr 2 with 0.710")

    def test_when_none_has_a_rank_there_is_no_best(self):
        (row,) = self.rows({1: ["failed: no memory"]})
        assert row["measured"] == "0 of 1 trial finished"


class TestContest:
    A, B = "wide/serial", "narrow/serial"

    def test_who_was_resumed_is_said(self):
        """Red before: no contest said so."""
        values = {self.A: [0.9, 0.8], self.B: [0.7, 0.75]}
        found = ranking(values, contestants=values)
        found["trials"][-1]["resumed_at"] = [6]
        (row,) = studies.contest([Evidence(path="x.json", found=found)], [], [])
        assert row["measured"].endswith("; resumed: lr narrow/serial, seed 2 after step 6")

    def test_a_run_is_named_by_its_candidate(self):
        """Red before: of two that differ by their variants "of seed 1 and seed 1"."""
        values = {self.A: [0.9, 0.8], self.B: [0.7, 0.75]}
        found = ranking(values, contestants=values)
        for choice in found["choices"]:
            choice["label"] = "wide" if choice["name"] == self.A else "small"
        for trial in found["trials"]:
            trial["label"], trial["doubts"] = f"seed {trial['seed']}", ["it is in doubt"]
        (row,) = studies.contest([Evidence(path="x.json", found=found)], [], [])
        for label in ("small", "wide"):
            assert f"{label}, seed 1" in row["measured"].partition("; but of ")[2]

    @pytest.mark.parametrize(
        ("a", "b", "answer", "measured"),
        [
            ([0.9, 0.91, 0.92], [0.7, 0.72, 0.71], "better", "apart by 0.200 (0.177 to 0.223)"),
            ([0.7, 0.72, 0.71], [0.9, 0.91, 0.92], "worse", "apart by −0.200 (−0.223 to −0.177)"),
            # Red before: probability 1.00.
            ([0.7, 0.72, 0.71], [0.9, 0.91, 0.92], "worse", "with probability > 0.99"),
            (
                [0.9, 0.91, 0.92],
                [0.9, 0.92, 0.92],
                "undecided",
                "would probably tell such a difference (",
            ),
            ([0.9], [0.8], "undecided", "from one seed only, so this may be luck"),
            ([0.9, 0.9], [0.8, 0.8], "undecided", "how much is luck was not measured"),
            # Red before: "but for a millionth", and of one seed nothing that they are equal.
            ([0.9, 0.9], [0.9, 0.9], "undecided", "both give the same from each of these seeds"),
            ([0.9, 0.9], [0.9, 0.9 + 1e-8], "undecided", "the same, but for a millionth"),
            # Red before: 0.983 of both, and how much of that is luck.
            ([0.98312], [0.98349], "undecided", "0.98312 of wide/serial, 0.98349 of narrow/serial"),
            ([0.98312] * 2, [0.98349] * 2, "undecided", "0.98312 of wide/serial, 0.98349 of"),
            ([0.0], [1e-300], "undecided", "0 of wide/serial, 1.00×10⁻³⁰⁰ of narrow/serial"),
            ([0.9], [0.9], "undecided", "from one seed only, by which none is ahead"),
            ([0.9, "failed: x"], [0.8, 0.7], "not comparable", "wide/serial: seed 2: failed: x"),
            ([float("inf"), 0.9], [0.8, 0.7], "not comparable", "wide/serial: seed 1: nan"),
            (["failed: x"], ["failed: y"], "not comparable", "narrow/serial: seed 1: failed: y"),
            # What one seed has in common for both is no noise between them.
            ([0.9, 0.8, 0.7], [0.8, 0.7, 0.6], "undecided", "takes away 100% of the variance"),
            ([0.9, 0.8, 0.7], [0.8, 0.7, 0.8], "undecided", "nothing shows that pairing by seed"),
            # Red before: a share of these few, which equals have as well.
            ([0.9, 0.8, 0.7], [0.9, 0.7, 0.8], "undecided", "nothing shows that pairing by seed"),
            # Red before: that it buys nothing, where it would say that the answer errs more often.
            (
                [0.9, 0.8, 0.7],
                [0.6, 0.7, 0.8],
                "undecided",
                "to the variance: what is lucky for one is unlucky for the other",
            ),
        ],
    )
    def test_the_answer_is_of_the_first(self, a, b, answer, measured):
        values = {self.A: a, self.B: b}
        found = Evidence(path="x.json", found=ranking(values, contestants=values))
        (row,) = studies.contest([found], [], [])
        assert (row["key"], row["workload"], row["variant"]) == ("contest", "wide", "serial")
        assert row["answer"] == answer
        assert measured in row["measured"]

    @pytest.mark.parametrize(
        ("a", "b", "margin", "answer", "measured"),
        [
            # Red before: "undecided", or "worse"; "not worse" passed only what is better.
            ([0.9, 0.91, 0.92], [0.9, 0.92, 0.92], 0.05, "not worse", "margin of 0.05"),
            ([0.9, 0.901, 0.902], [0.91, 0.911, 0.912], 0.05, "not worse", "by −0.01"),
            # Red before: "not worse", of a metric that takes few values, or has come to its end.
            ([0.9, 0.91, 0.92], [0.9, 0.91, 0.92], 0, "undecided", "not shown to be within the"),
            ([0.9, 0.9], [0.9, 0.9], 0, "undecided", "both give the same"),
            ([0.9, 0.91, 0.92], [0.9, 0.92, 0.92], 0.02, "undecided", "would probably show that"),
            ([0.9, 0.91, 0.92], [0.9, 0.92, 0.92], 0, "undecided", "not shown to be within the"),
            # Red before: nothing of the margin.
            (
                [0.9, 0.901, 0.902],
                [0.91, 0.911, 0.912],
                0.005,
                "worse",
                "; by more than the margin",
            ),
            ([0.9, 0.901, 0.902], [0.91, 0.911, 0.912], 0.009, "worse", "; perhaps by less than"),
            ([0.9, 0.91, 0.92], [0.7, 0.72, 0.71], 0.05, "better", "apart by 0.200"),
            ([0.9, 0.9], [0.91, 0.91], 0.5, "undecided", "how much is luck was not measured"),
            ([0.9], [0.9], 0.5, "undecided", "from one seed only"),
        ],
    )
    def test_with_a_margin_it_may_be_not_worse(self, a, b, margin, answer, measured):
        for sign, best in ((-1, "lowest"), (1, "highest")):
            values = {self.A: [sign * v for v in a], self.B: [sign * v for v in b]}
            found = ranking(values, contestants=values, margin=margin, best=best)
            (row,) = studies.contest([Evidence(path="x.json", found=found)], [], [])
            assert row["answer"] == answer
        assert measured in row["measured"]

    @pytest.mark.parametrize("margin", [None, 0, 0.05])
    def test_one_training_under_two_names_is_not_worse(self, margin):
        values = {self.A: [0.9, 0.8], self.B: [0.9, 0.8]}
        found = ranking(values, contestants=values, margin=margin, are_same=True)
        (row,) = studies.contest([Evidence(path="x.json", found=found)], [], [])
        assert row["answer"] == ("undecided" if margin is None else "not worse")
        # Red before: without a margin it was told of the seeds that would be needed.
        # And that they are one training, which two seeds do not show.
        assert (
            "same weights, predictions and test metrics from each of these 2 seeds"
            in (row["measured"])
        )
        assert "from other seeds they may diverge, in up to 78% of trainings" in row["measured"]
        assert "would probably" not in row["measured"]

    @pytest.mark.parametrize("margin", [None, 0.5])
    @pytest.mark.parametrize("is_first", [True, False])
    def test_the_luck_of_what_no_seed_moves_is_not_measured(self, is_first, margin):
        """Red before: better (worse), p = 0.038, of one network of which one seeds itself."""
        names = [self.A, self.B] if is_first else [self.B, self.A]
        values = dict(zip(names, ([23.1652] * 4, [26.4654, 27.5541, 24.909, 24.2868]), strict=True))
        still, of = names[0], {"best": "lowest", "margin": margin}
        found = ranking(values, contestants=[self.A, self.B], still=[still], **of)
        (row,) = studies.contest([Evidence(path="x", found=found)], [], [])
        assert row["answer"] == "undecided"
        assert (
            f"; no seed moves {still} (its result is the same from each of 4 seeds, so it may seed "
            f"itself), so its luck is not measured"
        ) in row["measured"]
        # Weights that differ say that seeds move it: a metric of few values alone stands still.
        found = ranking(values, contestants=[self.A, self.B], **of)
        (row,) = studies.contest([Evidence(path="x", found=found)], [], [])
        assert row["answer"] == ("better" if is_first else "worse")
        # Where nothing is known of the weights, it may be either.
        for trial in found["trials"]:
            trial["weights_sha256"] = None
        (row,) = studies.contest([Evidence(path="x", found=found)], [], [])
        assert row["answer"] == "undecided"

    def test_the_luck_of_a_beginning_that_no_seed_moves_is_not_measured(self):
        """Red before: better, p < 0.001, of one class with two numbers that it seeds torch by."""
        values = {self.A: [0.635, 0.645, 0.63], self.B: [0.435, 0.425, 0.44]}
        found, same = {}, ["weights", "batches", "random"]
        for name, begun in {
            "both": {self.A: same, self.B: same},
            "one": {self.B: [*same[:2], "random_after"]},  # torch is seeded in the first step
            "weights": {self.A: same[:1]},
            "none": {},
        }.items():
            table = ranking(values, contestants=values, margin=0.5, begun=begun)
            (found[name],) = studies.contest([Evidence(path="x", found=table)], [], [])
        answers = {name: row["answer"] for name, row in found.items()}
        assert answers == {
            "both": "undecided",
            "one": "undecided",
            "weights": "better",
            "none": "better",
        }
        assert (
            f"; no seed moves the initial weights, the first batches and torch's RNG state of "
            f"{self.A} and {self.B} (they are the same for each from each of 3 seeds, so each may "
            f"seed itself in part), so the luck of these is not measured"
        ) in found["both"]["measured"]
        assert f"torch's RNG state of {self.B} (they are the same" in found["one"]["measured"]
        # Ordinary, as of weights that were trained before: said beside the answer.
        assert found["weights"]["measured"].endswith(
            f"; no seed moves the initial weights of {self.A}, so their luck is not counted"
        )
        assert "no seed" not in found["none"]["measured"]
        assert all("not counted" not in found[name]["measured"] for name in ("both", "one"))

    def test_dropout_in_a_network_that_was_trained_before_is_luck_that_is_measured(self):
        """Red before: undecided, of the same weights and batches under other random numbers."""
        values = {self.A: [0.635, 0.645, 0.63], self.B: [0.435, 0.425, 0.44]}
        begun = {name: ["weights", "batches"] for name in values}
        table = ranking(values, contestants=values, begun=begun)
        (row,) = studies.contest([Evidence(path="x", found=table)], [], [])
        assert row["answer"] == "better"
        assert row["measured"].endswith(
            f"; no seed moves the initial weights of {self.A} and {self.B}, so their luck is not "
            f"counted; no seed moves the first batches of {self.A} and {self.B}, so their luck is "
            f"not counted"
        )
        # Where nobody knows it may be either.
        for trial in table["trials"]:
            trial["begun"] |= {"random": None, "random_after": None}
        (row,) = studies.contest([Evidence(path="x", found=table)], [], [])
        assert row["answer"] == "undecided"
        assert (
            f"; no seed moves the initial weights and the first batches of {self.A} and {self.B} "
            f"(they are the same for each from each of 3 seeds, and whether torch's RNG state is, "
            f"too, was not traced, so each may seed itself in part), so the luck of these is not "
            f"measured"
        ) in row["measured"]

    @pytest.mark.parametrize(
        ("others", "drawn", "said"),
        [
            # Red before: better, p < 0.001, by the luck of seeds alone.
            (
                {"since": "torch", "and": "cuda"},
                ["torch"],
                "the initial weights, the first batches and from step 2 on torch's RNG state of "
                "{} (they are the same from each of 3 seeds, so it may seed itself in part), so",
            ),
            # Noise of a generator that the operating system seeds, or rounding.
            (
                {},
                [],
                "the initial weights and the first batches of {} (they are the same from each of 3 "
                "seeds, and no traced step draws from a global generator, so its results may owe "
                "nothing to seeds), so the luck of these is not measured",
            ),
            # A GPU's alone is seeded: torch's of the CPU moves, and nobody draws from it.
            (
                {"since": "cuda"},
                ["cuda"],
                "and from step 2 on torch's RNG state of the GPU of {} (they are the same from "
                "each of 3 seeds, and no traced step draws from another global generator, so",
            ),
            (
                {"since": "python"},
                ["python"],
                "and from step 2 on Python's RNG state of {} (they are the same from each of 3 "
                "seeds, and no traced step draws from another global generator, so",
            ),
        ],
    )
    def test_the_luck_of_what_no_seed_moves_in_later_steps_is_not_measured(
        self, others, drawn, said
    ):
        values = {self.A: [0.635, 0.645, 0.63], self.B: [0.435, 0.425, 0.44]}
        since = {self.A: dict.fromkeys(others.values(), 2)}
        table = ranking(
            values,
            contestants=values,
            begun={self.A: ["weights", "batches"]},
            since=since,
            drawn=drawn,
        )
        (row,) = studies.contest([Evidence(path="x", found=table)], [], [])
        assert row["answer"] == "undecided"
        assert said.format(self.A) in row["measured"]

    @pytest.mark.parametrize("drawn", [["torch"], ["numpy"], ["python", "torch"]])
    def test_what_steps_draw_from_a_global_generator_is_luck_that_is_measured(self, drawn):
        """Weights that were trained before, samples in their order, noise of NumPy's generator."""
        values = {self.A: [0.635, 0.645, 0.63], self.B: [0.435, 0.425, 0.44]}
        begun = {name: ["weights", "batches"] for name in values}
        table = ranking(values, contestants=values, begun=begun, drawn=drawn)
        (row,) = studies.contest([Evidence(path="x", found=table)], [], [])
        assert row["answer"] == "better"
        assert "draws from" not in row["measured"]

    def test_what_validation_seeds_is_said_beside_the_answer(self):
        """Red before: not a word of later shuffles and masks that are the same from each seed."""
        values = {self.A: [0.635, 0.645, 0.63], self.B: [0.435, 0.425, 0.44]}
        since = {self.B: {"torch": 3, "cuda": 2, "numpy": 1}}
        table = ranking(values, contestants=values, since=since)
        (row,) = studies.contest([Evidence(path="x", found=table)], [], [])
        assert row["answer"] == "better"
        assert row["measured"].endswith(
            f"; no seed moves from step 3 on torch's RNG state of {self.B}, so its luck is not "
            f"counted"
        )

    def test_a_generator_of_a_modules_own_that_no_seed_moves_is_said_beside_the_answer(self):
        """Red before: not a word of noise that is the same from each seed."""
        values = {self.A: [0.635, 0.645, 0.63], self.B: [0.435, 0.425, 0.44]}
        table = ranking(values, contestants=values, own={self.B: "Noisy.rng"})
        (row,) = studies.contest([Evidence(path="x", found=table)], [], [])
        assert row["answer"] == "better"
        assert row["measured"].endswith(
            f"; no seed moves the generator Noisy.rng of {self.B}, so its luck is not counted"
        )

    def test_of_a_loss_the_lowest_is_better(self):
        values = {self.A: [0.7, 0.72, 0.71], self.B: [0.9, 0.91, 0.92]}
        found = Evidence(path="x", found=ranking(values, contestants=values, best="lowest"))
        (row,) = studies.contest([found], [], [])
        assert row["answer"] == "better"
        assert row["measured"].startswith("lowest acc in the test is best, mean over 3 seeds")

    def test_runs_of_other_data_are_not_comparable(self):
        values = {self.A: [0.7, 0.72], self.B: [0.9, 0.91]}
        found = Evidence(
            path="x", found=ranking(values, contestants=values, conflict="data.sha256")
        )
        (row,) = studies.contest([found], [], [])
        assert (row["answer"], row["measured"]) == ("not comparable", "data.sha256")
