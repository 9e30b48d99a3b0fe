"""Verdicts on time: what the interval decides, what unstable rounds leave open, what is explained.

The answers of TestCost were seen red at b8e0cc1.
"""

import math
from dataclasses import replace

import pytest
from example_comparisons import median, timed
from example_trainings import VARIANT
from msgspec import convert

from twinrun.config.definitions import Variant
from twinrun.verdicts import computation, speed
from twinrun.verdicts.evidence import Evidence

NO_INTEGERS = {"integers": 0, "integers_differing": 0}
UNSTABLE = {"unstable": True, "iqr_share": 0.31}


def only(rows):
    (row,) = rows
    return row


def cost(*interval, **changes):
    """Judge what a training step costs whose ratio and interval these are."""
    row = only(speed.costs(timed(interval=interval, **changes)))
    return row["answer"], row["measured"]


class TestCost:
    def test_a_whole_row(self):
        assert only(speed.costs(timed())) == {
            "key": "cost",
            "workload": "denoiser",
            "variant": "deterministic",
            "question": "Does it cost time, compared with nondeterministic?",
            "answer": "yes",
            "measured": "slower, 8% more time: 1.08 times the time a step (95% interval 1.06 to "
            "1.10)",
            "evidence": "timings/determinism_denoiser.json",
        }

    def test_what_is_faster_is_not_answered_by_a_plain_no(self):
        answer, measured = cost(0.67, 0.65, 0.69)
        assert answer == "no"
        assert measured.startswith("faster, 33% less time: 0.670 times the time a step")

    def test_a_hundredth_is_no_cost(self):
        answer, measured = cost(1.01, 1.002, 1.04)
        assert answer == "no"
        assert measured.startswith("no difference that matters (at most 5%): 1.01 times")

    def test_an_interval_that_prints_as_holding_1_decides_nothing(self):
        answer, measured = cost(1.10, 1.001, 1.12)
        assert answer == "undecided"
        assert "no difference measured: 1.10 times" in measured
        assert "1.00 to 1.12" in measured

    def test_a_wide_interval_is_no_evidence_that_it_costs_nothing(self):
        assert cost(1.2, 0.7, 1.6)[0] == "undecided"

    @pytest.mark.parametrize("whose", ["of_variant", "of_baseline"])
    def test_an_unstable_timing_gives_no_flat_yes(self, whose):
        answer, measured = cost(1.08, 1.06, 1.10, **{whose: UNSTABLE})
        assert answer == "undecided"
        name = "deterministic" if whose == "of_variant" else "nondeterministic"
        doubt = f"; unstable: rounds of {name} spread by up to 31%, as much as the difference"
        assert measured.endswith(doubt)

    def test_nor_a_flat_no(self):
        assert cost(1.01, 0.99, 1.03, of_variant=UNSTABLE)[0] == "undecided"

    def test_a_difference_beyond_the_spread_stands(self):
        answer, measured = cost(6.24, 5.44, 6.95, of_variant=UNSTABLE, of_baseline=UNSTABLE)
        assert answer == "yes"
        assert measured.endswith(
            "; unstable: rounds of deterministic and nondeterministic spread by up to 31%, less "
            "than the difference"
        )

    @pytest.mark.parametrize(
        ("interval", "spread", "expected"),
        [
            ((0.6, 0.55, 0.65), 0.5, "faster"),  # 0.65 · 1.5 < 1, but 0.65 + 0.5 is not
            ((0.6, 0.55, 0.65), 0.6, "undecided"),
            ((3.0, 2.0, 4.0), 0.9, "slower"),
            ((3.0, 2.0, 4.0), 1.1, "undecided"),
        ],
    )
    def test_a_ratio_and_its_inverse_are_widened_alike(self, interval, spread, expected):
        middle, low, high = interval
        unstable = {"unstable": True, "iqr_share": spread}
        answers = {
            "cost": cost(middle, low, high, of_variant=unstable)[0],
            "inverse": cost(1 / middle, 1 / high, 1 / low, of_variant=unstable)[0],
        }
        assert (
            answers
            == {
                "faster": {"cost": "no", "inverse": "yes"},
                "slower": {"cost": "yes", "inverse": "no"},
                "undecided": {"cost": "undecided", "inverse": "undecided"},
            }[expected]
        )

    def test_the_rounds_of_another_variant_or_phase_do_not_matter(self):
        found = timed()
        found.found["medians"] += [
            median("deterministic", phase="first_call", **UNSTABLE),
            median("another", **UNSTABLE),
        ]
        assert "unstable" not in only(speed.costs(found))["measured"]

    def test_medians_that_say_another_thing_are_explained(self):
        measured = cost(1.08, 1.06, 1.10, of_variant={"seconds_per_step": 0.97})[1]
        assert measured.endswith(
            "; the two medians alone give 0.970: the ratio is taken within each round, where what "
            "slows the machine slows both"
        )
        assert "medians" not in cost(1.08, 1.06, 1.10)[1]

    def test_what_a_timing_leaves_out_beside_what_it_measures_is_said(self):
        """Red before: data workers were taken for a part of what was measured."""
        base = convert(VARIANT, Variant)
        both = replace(base, data_workers=2, logging=not base.logging, compile="module")
        settings = {**timed().found["settings"], "variants": {"base": base, "both": both}}
        found = timed("both", baseline="base", settings=settings)
        said = "; timed without data_workers (2, under base 0) and logging (true, under base false)"
        for rows in (speed.costs(found), speed.training_speeds(found)):
            assert only(rows)["measured"].endswith(said)
        settings["variants"]["both"] = replace(base, compile="module")
        assert "without" not in only(speed.costs(found))["measured"]

    def test_prediction_is_no_cost_of_training(self):
        assert speed.costs(timed(phase="predict")) == []

    def test_a_variant_that_could_not_be_timed_has_its_row(self):
        skipped = [{"variant": "compiled", "size": None, "phase": None, "reason": "no compiler"}]
        row = only(speed.costs(timed(medians=[], ratios=[], skipped=skipped)))
        found = row["variant"], row["answer"], row["measured"]
        assert found == ("compiled", "not run", "no compiler")

    def test_where_the_baseline_could_not_be_timed_the_others_keep_their_seconds(self):
        found = timed(ratios=[], medians=[median("deterministic", seconds_per_step=0.002)])
        row = only(speed.costs(found))
        assert row["answer"] == "not comparable"
        assert row["measured"] == "nondeterministic was not measured; a step took 2.00 ms"


class TestSpeed:
    def gpu(self, *interval, **changes):
        return timed("gpu", interval, baseline="cpu", workload="peaks", **changes)

    def test_a_device_is_faster_at_a_size(self):
        found = self.gpu(0.005, 0.004, 0.008, size=40000)
        settings = found.found["settings"]
        settings["timing"] = replace(settings["timing"], size="points")
        row = only(speed.training_speeds(found))
        assert (row["key"], row["answer"]) == ("speed", "yes")
        assert row["question"] == "Does it train faster than cpu at 40,000 points?"
        assert row["measured"] == (
            "faster, 99.5% less time: 200 times as fast (95% interval 125 to 250)"
        )

    @pytest.mark.parametrize(
        ("interval", "answer", "words"),
        [
            ((1.0, 0.9, 1.1), "undecided", "no difference measured: 1.00 times as fast"),
            ((1.0, 0.98, 1.02), "no", "no difference that matters (at most 5%): 1.00 times"),
            ((3.0, 2.0, 4.0), "no", "slower: 0.333 times as fast (95% interval 0.250 to 0.500)"),
        ],
    )
    def test_what_is_not_measured_to_be_faster_is_not(self, interval, answer, words):
        row = only(speed.training_speeds(self.gpu(*interval)))
        assert row["answer"] == answer
        assert row["measured"].startswith(words)

    def test_prediction_has_a_key_of_its_own(self):
        row = only(speed.prediction_speeds(self.gpu(0.5, 0.4, 0.625, phase="predict")))
        assert (row["key"], row["answer"]) == ("prediction_speed", "yes")
        assert row["question"] == "Does it predict faster than cpu?"

    def test_a_variant_that_cannot_be_compiled_has_a_row_for_each_question(self):
        skipped = [
            {
                "variant": "compiled",
                "size": None,
                "phase": None,
                "reason": "Unsupported: a graph break",
            }
        ]
        found = timed(medians=[], ratios=[], skipped=skipped)
        for rows in (speed.training_speeds(found), speed.prediction_speeds(found)):
            row = only(rows)
            assert (row["answer"], row["measured"]) == ("not run", "Unsupported: a graph break")


class TestTrainer:
    def trainer(self, overheads, **changes):
        """A timing through the Trainer of a variant of which the step alone takes 1 s."""
        medians = [
            median("cpu", phase=phase, size=overhead["size"], seconds_per_step=seconds, **changes)
            for overhead in overheads
            for phase, seconds in (("train", 1.0), ("trainer", overhead["time_ratio"]))
        ]
        return timed(medians=medians, ratios=[], trainer=overheads)

    def overhead(self, size, middle, low, high):
        found = {"variant": "cpu", "size": size}
        return found | {"time_ratio": middle, "low": low, "high": high}

    def test_the_largest_size_speaks(self):
        overheads = [self.overhead(40000, 1.2, 1.1, 1.3), self.overhead(100, 2.0, 1.9, 2.1)]
        row = only(speed.trainer_costs(self.trainer(overheads)))
        assert (row["key"], row["answer"]) == ("trainer_cost", "yes")
        assert row["question"] == (
            "Does Lightning's Trainer cost time, compared with the bare training step?"
        )
        assert row["measured"].startswith("slower, 20% more time: 1.20 times")

    def test_what_was_compiled_in_the_rounds_is_said(self):
        reason = "___check_type_id(self.metric._update_count), 7"
        told = {"compiled": {"graphs": 12, "reason": reason}}
        _, measured = cost(1.08, 1.06, 1.10, of_variant={**UNSTABLE, **told})
        assert measured.endswith(
            f", as much as the difference; torch compiled 12 graphs inside the clock of "
            f"deterministic (in torch's words: {reason}), so its rounds are no time of steps alone"
        )
        steady = {"compiled": {"graphs": 1, "reason": None}}
        _, measured = cost(1.08, 1.06, 1.10, of_baseline=steady)
        assert "torch compiled 1 graph inside the clock of nondeterministic, so its" in measured

    def test_the_reason_of_the_phase_in_question_comes_first(self):
        row = {"variant": "x", "size": None, "phase": None, "reason": "no loader; it raises"}
        row["reasons"] = {"predict": "no loader", "train": "it raises"}
        found = timed(medians=[], ratios=[], skipped=[row])
        assert only(speed.costs(found))["measured"] == "it raises; no loader"
        assert only(speed.prediction_speeds(found))["measured"] == "no loader; it raises"

    def test_unstable_rounds_are_a_doubt_here_too(self):
        """Red at b8e0cc1: a flat yes."""
        found = self.trainer([self.overhead(None, 1.2, 1.1, 1.3)], **UNSTABLE)
        assert only(speed.trainer_costs(found))["answer"] == "undecided"


class TestAgreement:
    @pytest.mark.parametrize(
        ("distance", "answer"), [(9e-6, "yes"), (2e-5, "no"), (math.nan, "no"), (math.inf, "no")]
    )
    def test_a_fast_variant_predicts_the_same_or_not(self, distance, answer):
        rows = [
            {"variant": "fast", "size": size, "tolerance": 1e-5, "distance": found, **NO_INTEGERS}
            for size, found in ((100, 1e-7), (200, distance))
        ]
        row = only(computation.agreements(timed(baseline="cpu", agreement=rows)))
        assert row["question"] == (
            "Before training, does it predict what cpu predicts, except for rounding?"
        )
        assert (row["key"], row["answer"]) == ("same_predictions", answer)
        assert ("not a number" in row["measured"]) == math.isnan(distance)

    @pytest.mark.parametrize(
        ("distance", "differing", "answer", "words"),
        [
            (None, 1, "undecided", "1 of 100 predicted integers differs on the first batch: round"),
            (None, 0, "yes", "0 of 100 predicted integers differ on the first batch"),
            (1e-7, 3, "yes", "; 3 of 100 predicted integers differ, as rounding may turn over"),
            (0.5, 3, "no", "; 3 of 100 predicted integers differ, as rounding may turn over"),
        ],
    )
    def test_integers_are_counted_and_judge_nothing(self, distance, differing, answer, words):
        """Red before: a label that rounding turned over was another computation."""
        found = {"distance": distance, "integers": 100, "integers_differing": differing}
        rows = [{"variant": "fast", "size": None, "tolerance": 1e-5, **found}]
        row = only(computation.agreements(timed(baseline="cpu", agreement=rows)))
        assert row["answer"] == answer
        assert words in row["measured"]

    def test_a_prediction_that_failed_has_its_reason(self):
        row = only(computation.agreements(timed(skipped=[skipped("predict")])))
        assert (row["key"], row["answer"]) == ("same_predictions", "not run")
        assert row["measured"] == "no predict_step"


def skipped(phase):
    return {"variant": "compiled", "size": None, "phase": phase, "reason": "no predict_step"}


class TestLostPhases:
    @pytest.mark.parametrize(
        ("phase", "keys"),
        [
            ("train", ["speed"]),
            ("predict", ["prediction_speed", "same_predictions"]),
            ("trainer", ["trainer_cost"]),
        ],
    )
    def test_a_lost_phase_is_said_where_it_would_answer_and_nowhere_else(self, phase, keys):
        found = timed(medians=[], ratios=[], skipped=[skipped(phase)])
        rows = [
            row
            for of in (
                speed.training_speeds,
                speed.prediction_speeds,
                speed.trainer_costs,
                computation.agreements,
            )
            for row in of(found)
        ]
        assert [row["key"] for row in rows] == keys
        assert {row["answer"] for row in rows} == {"not run"}


class TestComputation:
    def proof(self, distance, size=None, **changes):
        share = {"judged": 6, "of": 6}
        leg = {"unrepeated": 0, "fixed": 8, "losses": share, "parameters": {"judged": 3, "of": 4}}
        exact = {**leg, "precision": "64-true", "bound": 1e-8, "judged": 41, "left_out": 0}
        exact["parameters"] = {"judged": 4, "of": 4}
        leg |= {"precision": "32-true", "bound": 1e-3, "judged": 19, "left_out": 2}
        proof = {
            "steps": 6,
            "shapes": 2,
            "in_parts": None,
            "legs": [{**exact, "distance": 0.0}, {**leg, "distance": distance}],
            "not_in_float64": None,
            "seed": 1,
            "seconds": 12.0,
            "key": None,
            "is_remembered": False,
        }
        return {"variant": "fast", "size": size, "proof": {**proof, **changes}, "refused": None}

    def row(self, *proofs):
        return only(computation.computations(timed(proofs=list(proofs))))

    def test_a_proof_says_what_it_rests_on(self):
        row = self.row(self.proof(1.5e-7))
        assert (row["key"], row["answer"]) == ("same_computation", "yes")
        assert row["question"] == (
            "Does its training step compute what the plain step computes, except for rounding?"
        )
        assert row["measured"] == (
            "6 steps with 2 shapes of batch: in 64-true all 6 losses, all 4 parameters that "
            "training moves and 31 other values, with a relative L2 distance of at most 0 (bound "
            "1.00×10⁻⁸); in 32-true all 6 losses, 3 of 4 parameters that training moves and 10 "
            "other values, with a relative L2 distance of at most 1.50×10⁻⁷ (bound 0.00100), 2 "
            "values left out, which rounding alone moves too far"
        )

    def test_one_of_a_kind_is_no_plural(self):
        """Red before: "1 values left out", "1 of 1 losses"."""
        proof = self.proof(0.0, steps=1, shapes=1)
        (leg, *_) = proof["proof"]["legs"]
        one = {"judged": 1, "of": 1}
        leg |= {"judged": 3, "left_out": 1, "losses": one, "parameters": one}
        proof["proof"]["legs"] = [leg]
        assert self.row(proof)["measured"] == (
            "1 step with 1 shape of batch: in 64-true 1 of 1 loss, 1 of 1 parameter that training "
            "moves and 1 other value, with a relative L2 distance of at most 0 (bound "
            "1.00×10⁻⁸), 1 value left out, which rounding alone moves too far"
        )

    def test_what_was_not_done_as_asked_is_said(self):
        row = self.row(self.proof(0.0, in_parts="clipping", not_in_float64="no kernel"))
        assert (
            "; done in parts, because of clipping; not tried in float64 (no kernel)"
            in (row["measured"])
        )

    def test_of_several_sizes_the_worst_speaks(self):
        sizes = [self.proof(d, size) for d, size in ((1e-7, 1), (9e-4, 2), (0.0, 3))]
        assert "at most 9.00×10⁻⁴ (bound" in self.row(*sizes)["measured"]
        refused = {"variant": "fast", "size": 4, "proof": None, "refused": "the loss is off"}
        row = self.row(*sizes, refused)
        assert (row["answer"], row["measured"]) == ("no", "the loss is off")

    def test_predictions_before_training_are_no_such_evidence(self):
        rows = [
            {"variant": "fast", "size": None, "tolerance": 1e-5, "distance": 0.0, **NO_INTEGERS}
        ]
        assert computation.computations(timed(agreement=rows)) == []


class TestEpochs:
    def scaling(self, *interval, **changes):
        names = ("one", "two")
        medians = [
            {"variant": name, "iqr_share": 0.02, "unstable": False, "samples": 160} | changes
            for name in names
        ]
        middle, low, high = interval
        ratio = {"variant": "two", "time_ratio": middle, "low": low, "high": high}
        ratio["per"] = "samples"
        found = {"workload": "digits", "baseline": "one", "medians": medians, "ratios": [ratio]}
        found["skipped"] = []
        return Evidence(path="scaling/digits.json", found=found)

    def test_epochs_are_faster_or_not(self):
        row = only(speed.epoch_speeds(self.scaling(0.625, 0.5, 0.8)))
        assert (row["key"], row["answer"]) == ("speed", "yes")
        assert row["question"] == "Does it train an epoch faster than one?"

    def test_epochs_without_a_baseline_have_their_own_seconds(self):
        found = self.scaling(0.625, 0.5, 0.8, seconds=3.5)
        found.found["skipped"] = [
            {"variant": "one", "size": None, "phase": None, "reason": "no memory"}
        ]
        found.found["ratios"] = []
        del found.found["medians"][0]
        rows = {row["variant"]: row for row in speed.epoch_speeds(found)}
        assert (rows["one"]["answer"], rows["one"]["measured"]) == ("not run", "no memory")
        assert rows["two"]["answer"] == "not comparable"
        assert rows["two"]["measured"] == "one was not measured; an epoch took 3.50 s"

    def test_too_few_epochs_leave_it_open(self):
        row = only(speed.epoch_speeds(self.scaling(0.5, None, None)))
        assert row["answer"] == "undecided"
        assert "2.00 times as fast (without a 95% interval)" in row["measured"]

    def test_epochs_that_spread_leave_it_open(self):
        row = only(speed.epoch_speeds(self.scaling(0.9, 0.8, 0.95, **UNSTABLE)))
        assert row["answer"] == "undecided"
        assert "; unstable: epochs of two and one spread by up to 31%" in row["measured"]
