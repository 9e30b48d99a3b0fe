"""The advice at the top of the page: planted cases, each with the sentence that follows from it."""

import re
from dataclasses import replace
from typing import Any

import pytest
from example_comparisons import DIVERGENCE, compared
from example_runs import CONTEXT, SECONDS
from example_timings import timing_summary
from ranked import ranking
from standard_config import resolved

from twinrun.comparison.advice import ADVICE
from twinrun.comparison.causes import CAUSES
from twinrun.report.advice import MOST_SENTENCES, advice, chosen
from twinrun.report.advice_causes import OF_A_CHANGE, of_cell
from twinrun.report.measured_sizes import one_row_of_sizes
from twinrun.report.results import Results
from twinrun.report.sentence import Sentence
from twinrun.timing.summary import TimingSummary
from twinrun.verdicts import studies
from twinrun.verdicts.evidence import Evidence
from twinrun.verdicts.rows import not_run
from twinrun.verdicts.speed import epoch_speeds
from twinrun.verdicts.whole_speed import whole_speeds

LASTING = {"step": 3, "since": 3, "number": 2, "is_lasting": True}


def results(*rows, **found) -> Results:
    """Return results of these verdicts, each a study and its rows, and of what they rest on."""
    empty: dict[str, Any] = {
        name: [] for name in ("runs", "failed", "comparisons", "contrasts", "locations", "resumes")
    }
    maps = ("timings", "scalings", "rankings", "contests", "matrices", "noises", "datasets")
    empty |= {name: {} for name in (*maps, "figures", "not_run")}
    config = resolved(studies=["reproducibility"]).config
    verdicts = [{"study": study, **row} for study, of in rows for row in of]
    return Results(**{**empty, "config": config, "verdicts": verdicts, **found})


def says(found: Results) -> list[str]:
    """Return the advice as a reader sees it, without its code's backticks."""
    return [
        f"{' and '.join(name for name, _ in of.subjects)}: {of.says}".replace("`", "")
        for of in advice(found)
    ]


def ratio(variant, low, middle, high, *, size=None, phase="train"):
    interval = {"time_ratio": middle, "low": low, "high": high}
    return {"variant": variant, "size": size, "phase": phase, **interval}


def median(variant, seconds, *, phase="train", size=None, unstable=False):
    return {
        "variant": variant,
        "device": "cpu",
        "size": size,
        "phase": phase,
        "seconds_per_step": seconds,
        "iqr_share": 0.3 if unstable else 0.02,
        "rounds": 12,
        "steps": 5,
        "unstable": unstable,
    }


def timing(baseline, ratios, **changes) -> TimingSummary:
    """Return a timing whose medians follow from its ratios; a baseline's step takes 0.1 s."""
    unstable = changes.pop("unstable", ())
    medians = changes.pop("medians", [])
    for found in ratios:
        at = {"size": found["size"], "phase": found["phase"]}
        at["unstable"] = unstable is True or (bool(unstable) and found["size"] in unstable)
        medians = [*medians, median(found["variant"], 0.1 * found["time_ratio"], **at)]
        medians = [*medians, median(baseline, 0.1, **at)]
    return timing_summary(baseline=baseline, ratios=ratios, medians=medians, **changes)


def timed(study, found) -> Results:
    evidence = [Evidence(path="timings/it.json", found=found)]
    rows = getattr(studies, study)([], evidence, [])
    return results((study, rows), timings={"it": found})


def pair(variant, answer, **changes):
    """Return the comparison of a pair of runs; one that differs does so by 25 parameters."""
    if answer == "differs":
        counted = {"tensors": 2, "elements": 100, "tensors_differing": 1, "elements_differing": 25}
        changes = {"parameters": counted, "first_difference": DIVERGENCE, "max_abs": 0.1} | changes
    return compared(variant=variant, answer=answer, **changes)


def repeated(pairs, *, cost=None, locations=()) -> Results:
    """Return the results of a study of repeats, with what deterministic algorithms cost."""
    timings = [] if cost is None else [Evidence(path="timings/it.json", found=cost)]
    rows = studies.reproducibility(pairs, timings, [])
    comparisons = [{**of.found, "study": "reproducibility", "path": of.path} for of in pairs]
    return results(
        ("reproducibility", rows),
        comparisons=comparisons,
        timings={} if cost is None else {"it": cost},
        locations=list(locations),
    )


def cost(low, middle, high, **changes):
    return timing("nondeterministic", [ratio("deterministic", low, middle, high)], **changes)


def test_epochs_of_fewer_samples_are_said_to_be_so():
    """Red before: "parts trains 1.34 times as fast", whose epoch leaves a fourth out."""
    steady = {"iqr_share": 0.02, "unstable": False}
    medians = [
        {"variant": name, "samples": samples, **steady}
        for name, samples in (("one", 120), ("parts", 90))
    ]
    ratio = {"variant": "parts", "time_ratio": 0.75, "low": 0.7, "high": 0.8, "per": "samples"}
    found = {"workload": "denoiser", "baseline": "one", "medians": medians, "ratios": [ratio]}
    found |= {"skipped": []}
    rows = epoch_speeds(Evidence(path="scaling/it.json", found=found))
    (said,) = says(results(("parallel", rows), scalings={"it": found}))
    assert said.startswith("denoiser: parts trains 1.33 times as fast")
    assert said.endswith("; per sample, since an epoch of parts has 90 samples, one of one 120")


class TestRepeats:
    def test_an_equal_pair_needs_no_determinism(self):
        pairs = [pair("nondeterministic", "equal"), pair("deterministic", "equal")]
        assert says(repeated(pairs, cost=cost(1.05, 1.08, 1.1))) == [
            "denoiser: training repeats, bit for bit, without deterministic algorithms (2 runs, "
            "95 steps); with them it also repeats, and it is slower, 8% more time (1.08 times the "
            "time of a step, 95% interval 1.05 to 1.10)"
        ]

    def test_what_is_told_of_several_variants_holds_for_each(self):
        """Red before: "(2 runs, 95 steps)", the first one's alone."""
        pairs = [
            pair("deterministic", "equal"),
            pair("serial", "equal", steps=60, repeats=3),
            pair("serial", "equal", steps=70, repeats=3, seed=2, is_untrained=True),
        ]
        assert says(repeated(pairs)) == [
            "denoiser: training repeats, bit for bit, under deterministic and serial (2 to 3 runs "
            "of each of 1 to 2 seeds, 60 to 95 steps, on conditions that their verdicts name)"
        ]

    def test_determinism_mends_what_differs_and_its_cost_is_named(self):
        pairs = [pair("nondeterministic", "differs"), pair("deterministic", "equal")]
        at = [self.located()]
        first, second = says(repeated(pairs, cost=cost(0.65, 0.67, 0.69), locations=at))
        assert first == (
            "denoiser: training does not repeat under nondeterministic; switch deterministic "
            "algorithms on (deterministic: true), which mend the operation that differs first: "
            "under deterministic all repeats, bit for bit (2 runs, 95 steps), with the order of "
            "sets (PYTHONHASHSEED), cuBLAS's workspace (CUBLAS_WORKSPACE_CONFIG) and what is read "
            "of memory that no operation has written fixed, too; it is faster, 33% less time "
            "(0.670 times the time of a step, 95% interval 0.650 to 0.690)"
        )
        assert second == (
            "denoiser: the runs of nondeterministic diverge at aten::index_put at m.py:3 "
            "(backward): torch has a reproducible algorithm for it: set deterministic: true"
        )

    def test_where_no_operation_was_found_it_may_be_anything_that_the_variant_fixes(self):
        """Red before: "with them everything repeats", of a set's order in a training step."""
        pairs = [pair("nondeterministic", "differs"), pair("deterministic", "equal")]
        first, second = says(repeated(pairs, cost=cost(0.65, 0.67, 0.69)))
        assert first == (
            "denoiser: training does not repeat under nondeterministic, and does under "
            "deterministic (2 runs, 95 steps); it is faster, 33% less time (0.670 times the time "
            "of a step, 95% interval 0.650 to 0.690); but it need not be the algorithms that mend "
            "it: no operation was found with which the runs diverge, and deterministic: true also "
            "fixes the order of sets (PYTHONHASHSEED), cuBLAS's workspace "
            "(CUBLAS_WORKSPACE_CONFIG) and what is read of memory that no operation has written"
        )
        assert second == (
            "denoiser: the runs of nondeterministic diverge at step 3 in the gradients of "
            "user_factors: look for an operation of the backward pass that is not reproducible, or "
            "is given a value that the seed does not decide (a hook of a gradient, a clock)"
        )

    def test_what_the_other_variant_fixes_too_is_not_named(self):
        pairs = [pair("nondeterministic", "differs"), pair("deterministic", "equal")]
        found = repeated(pairs)
        for variant in ("nondeterministic", "deterministic"):
            found.config["variants"][variant]["environment"] = {"PYTHONHASHSEED": "7"}
        found.config["variants"]["deterministic"]["fill_uninitialized_memory"] = False
        assert says(found)[0].endswith(
            "diverge, and deterministic: true also fixes cuBLAS's workspace "
            "(CUBLAS_WORKSPACE_CONFIG)"
        )

    @pytest.mark.parametrize(
        "op",
        [
            {"op": "aten::lift_fresh", "differs_in": "inputs", "numbers": ["3", "4"]},
            {"op": "aten::index_put", "differs_in": "inputs"},
            {"op": "aten::index_put", "differs_in": "tensors"},
            {"op": "aten::index_put", "differs_in": "operations"},
            {"op": "aten::dropout", "draws": True},
            {"op": "aten::mm"},
            {"op": "aten::cumsum"},
        ],
    )
    def test_an_operation_that_no_algorithm_mends_is_named(self, op):
        """Red before: of all that was not given to the step, determinism was the remedy."""
        pairs, runs = self.doubted("abcc")
        said = says(replace(repeated(pairs, locations=[self.located(**op)]), runs=runs))[0]
        assert "switch deterministic algorithms on" not in said
        assert f"mend it: the runs diverge at {op['op']} at m.py:3, which they do not" in said
        assert "deterministic: true also fixes the order of sets (PYTHONHASHSEED)" in said

    def test_every_seed_must_diverge_at_an_operation_that_is_mended(self):
        """Red before: one such operation spoke for all seeds."""
        pairs = [pair("nondeterministic", "differs", seed=seed) for seed in (1, 2)]
        pairs += [pair("deterministic", "equal", seed=seed) for seed in (1, 2)]
        at = [self.located(), {**self.located(op="aten::mm"), "seed": 2}]
        said = says(repeated(pairs, locations=at))[0]
        assert "mend it: the runs of seed 2 diverge at aten::mm at m.py:3, which they do" in said
        at[1]["op"] = None
        assert (
            "no operation was found with which the runs of seed 2"
            in says(repeated(pairs, locations=at))[0]
        )
        at[1] = {**self.located(), "seed": 2}
        assert "all repeats, bit for bit" in says(repeated(pairs, locations=at))[0]

    def test_an_operation_behind_the_first_must_be_mended_too(self):
        """Red before: of a race with a set's order behind it, determinism was said to mend all."""
        pairs = [pair("nondeterministic", "differs"), pair("deterministic", "equal")]
        behind = {**self.located(op="aten::lift_fresh", differs_in="inputs")["op"], "numbers": []}
        at = {**self.located(), "others": [behind]}
        said = says(repeated(pairs, locations=[at]))[0]
        assert "mend it: the runs diverge at aten::lift_fresh at m.py:3, which they do" in said

    def test_a_seed_that_differs_and_was_not_tried_is_named(self):
        pairs = [pair("nondeterministic", "differs", seed=seed) for seed in (1, 2)]
        at = [self.located(), {**self.located(), "seed": 2}]
        said = says(repeated([*pairs, pair("deterministic", "equal")], locations=at))[0]
        assert "all repeats, bit for bit" not in said
        assert said.endswith("; but deterministic was not trained twice from seed 2")

    @staticmethod
    def doubted(weights, **changes):
        """Return the first advice on a pair that determinism seems to mend."""
        pairs = [pair("nondeterministic", "differs", **changes), pair("deterministic", "equal")]
        variants = ["nondeterministic"] * 2 + ["deterministic"] * 2
        runs = [
            {"workload": "denoiser", "variant": variant, "weights_sha256": hashed, "seed": 1}
            | {"tensors": [{"shape": [1]}], "not_held": {}}
            | {"perturbation": 0, "no_result": None}
            for variant, hashed in zip(variants, weights, strict=True)
        ]
        return pairs, runs

    @pytest.mark.parametrize("other", ["deterministic", "serial"])
    def test_runs_of_both_that_end_in_the_same_weights_leave_it_open(self, other):
        """Red before: "switch deterministic algorithms on", of a cache that a run had filled."""
        pairs, runs = self.doubted("abbb")
        pairs[1] = pair(other, "equal")
        for run_of in runs[2:]:
            run_of["variant"] = other
        said = says(replace(repeated(pairs), runs=runs))[0]
        assert "switch deterministic algorithms on" not in said
        assert said.endswith("may decide it, and not the settings: more repeats tell")

    def test_weights_are_shared_by_runs_of_one_seed(self):
        """Red before: a weight that seed 1 and seed 2 end in was shared, whoever of both ran."""
        pairs, runs = self.doubted("abbb")
        for run_of in runs[2:]:
            run_of["seed"] = 2
        assert "a run of each ended in" not in says(replace(repeated(pairs), runs=runs))[0]

    def test_runs_that_end_in_the_same_weights_themselves_share_none(self):
        """Red before: of a loss alone that differs, a run of each ended in the same weights."""
        pairs, runs = self.doubted("aaaa")
        assert "a run of each ended in" not in says(replace(repeated(pairs), runs=runs))[0]

    def test_a_value_that_python_gives_is_said_to_come_from_outside(self):
        """Red before: given other values that no operation before it made."""
        pairs = [pair("nondeterministic", "differs"), pair("deterministic", "equal")]
        op = self.located(op="aten::lift_fresh", differs_in="inputs", numbers=["3", "4"])
        assert says(repeated(pairs, locations=[op]))[1].endswith(
            "which Python gives another value, from outside of torch (a clock, a set, NumPy, "
            "another library, another thread, what Python has computed from a tensor's values)"
        )

    def test_runs_that_all_end_in_nan_share_no_weights(self):
        pairs, runs = self.doubted("abbb")
        for run_of in runs[1:]:
            run_of["no_result"] = "its weights are NaN or infinite (w)"
        assert "a run of each ended in" not in says(replace(repeated(pairs), runs=runs))[0]

    def test_an_operation_that_has_a_reproducible_algorithm_is_mended_by_it(self):
        """Though a race that did not fire leaves the weights that determinism has."""
        pairs, runs = self.doubted("abbb")
        found = replace(repeated(pairs, locations=[self.located()]), runs=runs)
        assert "switch deterministic algorithms on" in says(found)[0]

    def test_no_algorithm_decides_what_a_step_is_given(self):
        order = DIVERGENCE | {"quantity": "RNG states", "cause": "RNG state", "tensor": "torch"}
        pairs, runs = self.doubted("abcc", first_difference=order)
        said = says(replace(repeated(pairs), runs=runs))[0]
        assert said.startswith(
            "denoiser: training does not repeat under nondeterministic, and does under determ"
        )
        assert "no operation of a training step decides what differs first, at step 3 in" in said
        assert "also fixes the order of sets (PYTHONHASHSEED)" in said

    @staticmethod
    def located(**op):
        """Return the location of a pair of the nondeterministic variant."""
        found = {"op": "aten::index_put", "phase": "backward", "module": "", "source": "m.py:3"}
        found |= {"draws": False, "differs_in": "outputs", **op}
        of = {"study": "reproducibility", "workload": "denoiser", "variant": "nondeterministic"}
        of |= {"likely": None, "others": [], "repeats": 20, "differed": 0, "suspect": None}
        return {**of, "seed": 1, "op": found}

    def test_memory_that_nobody_wrote_has_a_remedy(self):
        """Red before: "torch documents no remedy for it"."""
        pairs, runs = self.doubted("abcc")
        op = self.located(op="aten::clamp", differs_in="unwritten")
        first, second = says(replace(repeated(pairs, locations=[op]), runs=runs))
        assert "switch deterministic algorithms on" not in first
        assert first.endswith(
            "; but the runs diverge at aten::clamp at m.py:3, which reads memory that no operation "
            "has written: write it before it is read (torch.zeros for torch.empty); deterministic: "
            "true fills it with NaN, as long as fill_uninitialized_memory is on"
        )
        assert (
            "which reads memory that no operation has written: write it before it is read" in second
        )

    @pytest.mark.parametrize("variant", ["deterministic", "serial"])
    @pytest.mark.parametrize(
        ("changes", "no_result", "says_of_it"),
        [
            ({}, "its loss is NaN in each step of its last epoch",
             "its loss is NaN in each step of its last epoch"),
            ({"non_finite_parameters": [100, 100]}, None, "its weights are not all finite"),
            ({"non_finite_loss": [LASTING] * 2}, None, "its loss is not finite"),
        ],
    )  # fmt: skip
    def test_a_variant_whose_runs_are_no_result_says_so(
        self, variant, changes, no_result, says_of_it
    ):
        """Red before: "with them everything repeats", of weights that are all NaN."""
        pairs, runs = self.doubted("abcc")
        pairs[1] = pair(variant, "equal", **changes)
        for run_of in runs[2:]:
            run_of |= {"no_result": no_result, "variant": variant}
        said = says(replace(repeated(pairs, locations=[self.located()]), runs=runs))[0]
        assert "switch deterministic algorithms on" not in said
        assert said.endswith(f"but a run of {variant} is no result: {says_of_it}")

    def test_what_repeats_anyway_says_so_of_no_result_too(self):
        pairs = [pair("nondeterministic", "equal", non_finite_parameters=[3, 3])]
        assert says(repeated(pairs))[0].endswith(
            "; but a run of nondeterministic is no result: its weights are not all finite"
        )

    def test_that_neither_of_two_is_a_result_is_said_of_both(self):
        """Red before: of the one that repeats alone, though the other was as broken."""
        broken = {"non_finite_parameters": [3, 3]}
        pairs = [
            pair(name, answer, **broken)
            for name, answer in (("nondeterministic", "differs"), ("deterministic", "equal"))
        ]
        said = says(repeated(pairs, locations=[self.located()]))[0]
        for name in ("deterministic", "nondeterministic"):
            assert f"a run of {name} is no result: its weights are not all finite" in said

    def test_of_two_that_repeat_the_one_whose_runs_are_results_is_named(self):
        pairs = [pair("nondeterministic", "differs")]
        pairs += [pair("deterministic", "equal", non_finite_parameters=[3, 3])]
        said = says(repeated([*pairs, pair("serial", "equal")], locations=[self.located()]))[0]
        assert said.startswith("denoiser: training repeats, bit for bit, under serial")

    def test_a_step_that_did_not_differ_again_is_not_blamed(self):
        """Red before: "look for an operation of the forward pass that is not reproducible"."""
        pairs, runs = self.doubted("abcc")
        again = {**self.located(), "op": None, "likely": None, "others": []}
        _, second = says(replace(repeated(pairs, locations=[again]), runs=runs))
        assert "no operation of that step was seen to do it, done again 20 times: look" in second

    def test_what_differed_again_in_the_step_is_not_outside_of_it(self):
        """Red before: "look outside of the step (a schedule, a callback, ...)"."""
        pairs, runs = self.doubted("abcc")
        again = {**self.located(), "op": None, "differed": 20}
        _, second = says(replace(repeated(pairs, locations=[again]), runs=runs))
        assert "outside of the step" not in second
        assert second.endswith(
            "it differed again in 20 of 20 repeats of that step, and no operation of it was seen "
            "to do it: look at what changes it there unseen (a clock, a set, NumPy, another "
            "library, another thread), and for memory that none has written"
        )

    @pytest.mark.parametrize("is_located", [True, False])
    def test_what_python_may_have_made_of_a_race_is_mended_with_the_race(self, is_located):
        """Red before: "from outside of torch (a clock, ...)", and no word of the race."""
        pairs, runs = self.doubted("abcc")
        race = self.located()["op"]
        at = self.located(op="aten::mul", source="m.py:4", differs_in="inputs", numbers=["3", "4"])
        at["suspect"] = {"op": race, "is_read": True, "fired": 9}
        if not is_located:
            at |= {"op": None, "differed": 9}
        first, second = says(replace(repeated(pairs, locations=[at]), runs=runs))
        why = "which they do not mend" if is_located else "found with which the runs diverge"
        race = "aten::index_put at m.py:3, before it, of whose values Python may have made what"
        assert f"{why}; but they mend {race} differs, and deterministic: true also" in first
        assert second.endswith(
            "; what decides it may be computed from what an operation before it gave, at "
            "aten::index_put at m.py:3 (backward): torch has a reproducible algorithm for it: set "
            "deterministic: true"
        )

    def test_a_race_that_was_seen_is_told_before_the_chance_that_it_is(self):
        """Red before: of runs that share their weights, chance was told and the race was not."""
        pairs, runs = self.doubted("abbb")
        at = self.located(op="aten::mul", source="m.py:4", differs_in="inputs", numbers=["3", "4"])
        at["suspect"] = {"op": self.located()["op"], "is_read": True, "fired": 9}
        said = says(replace(repeated(pairs, locations=[at]), runs=runs))[0]
        race, chance = "but they mend aten::index_put at m.py:3", "a run of each ended in the same"
        assert 0 < said.index(race) < said.index(chance)

    def test_the_operation_of_most_seeds_is_told_of_these_alone(self):
        """Red before: that of the first seed was said of all."""
        pairs = [pair("nondeterministic", "differs", seed=seed) for seed in (1, 2, 3)]
        at = [{**self.located(op=f"aten::{op}"), "seed": 1 + i} for i, op in enumerate("abb")]
        _, second = says(repeated([*pairs, pair("deterministic", "equal")], locations=at))
        assert "diverge at aten::b at m.py:3 (backward): torch documents no remedy" in second
        assert second.endswith("; so it is for 2 of the 3 seeds that differ")
        at[0]["op"]["op"] = "aten::b"
        assert (
            "seeds" not in says(repeated([*pairs, pair("deterministic", "equal")], locations=at))[1]
        )

    def test_a_cause_of_some_seeds_is_told_of_these_alone(self):
        order = DIVERGENCE | {"quantity": "order of the batch", "cause": "data order", "step": 1}
        pairs = [pair("nondeterministic", "differs", seed=seed) for seed in (1, 2)]
        pairs += [pair("nondeterministic", "differs", seed=3, first_difference=order)]
        _, second = says(repeated([*pairs, pair("deterministic", "equal")]))
        assert "user_factors: look for an operation of the backward pass" in second
        assert second.endswith("; so it is for 2 of the 3 seeds that differ")

    @pytest.mark.parametrize("cause", ["initial weights", "not held"])
    def test_weights_that_differ_from_the_start_need_not_be_drawn(self, cause):
        """Red before: draws alone were named, where nothing had written `torch.empty`."""
        first = DIVERGENCE | {"quantity": "initial parameters", "cause": cause}
        pairs = [pair("nondeterministic", "differs", first_difference=first)]
        _, second = says(repeated([*pairs, pair("deterministic", "equal")]))
        assert "weights that are drawn" in second
        assert "memory that nothing has written (torch.empty)" in second

    def test_an_operation_that_is_likely_to_have_done_it_is_named(self):
        """Red before: not at all; that it did not do it in any repeat speaks against it."""
        pairs, runs = self.doubted("abcc")
        located = self.located(op="aten::add")
        again = {**located, "op": None, "likely": located["op"]}
        _, second = says(replace(repeated(pairs, locations=[again]), runs=runs))
        assert (
            "no operation of that step was seen to do it, done again 20 times: look out" in second
        )
        assert (
            "or at aten::add at m.py:3 (backward), which leads to what differs, and dif" in second
        )

    @pytest.mark.parametrize(("at", "is_named"), [(2, True), (3, False)])
    def test_a_resumption_before_it_is_named_too(self, at, is_named):
        """Red before: the advice named the user's code alone."""
        pairs = [pair("nondeterministic", "differs", resumed_at=[[], [at]])]
        pairs += [pair("deterministic", "equal")]
        _, second = says(repeated(pairs, cost=cost(0.65, 0.67, 0.69)))
        end = f"; it may also be what a checkpoint does not hold: run 2 was resumed after step {at}"
        assert second.endswith(end) is is_named

    @pytest.mark.parametrize(
        ("found", "end"),
        [
            (cost(0.97, 1.0, 1.04), "it costs no time that matters (at most 5%)"),
            (cost(0.9, 1.0, 1.2), "whether it costs time is undecided"),
            (cost(1.5, 1.6, 1.7, unstable=True), "by how much is unsure: the clock was unstable)"),
            (cost(1.05, 1.08, 1.1, unstable=True), "whether it costs time is undecided"),
            (None, "no operation has written fixed, too"),
            # Compared with another baseline than the variant that differs.
            (
                timing("serial", [ratio("deterministic", 1.3, 1.4, 1.5)]),
                "no operation has written fixed, too",
            ),
        ],
    )
    def test_a_cost_is_said_as_sure_as_it_is(self, found, end):
        pairs = [pair("nondeterministic", "differs"), pair("deterministic", "equal")]
        at = [self.located()]
        assert says(repeated(pairs, cost=found, locations=at))[0].endswith(end)

    def test_what_differs_in_spite_of_determinism_names_the_cause(self):
        order = DIVERGENCE | {"quantity": "order of the batch", "cause": "data order"}
        order |= {"tensor": None, "step": 1}
        pairs = [
            pair("nondeterministic", "differs"),
            pair("deterministic", "differs", first_difference=order),
        ]
        first, second = says(repeated(pairs))
        assert first == (
            "denoiser: training does not repeat, not even with deterministic algorithms "
            "(deterministic)"
        )
        assert second.startswith("denoiser: the runs of deterministic diverge at step 1 in the or")
        assert second.endswith(
            "look for a shuffle, a sampler or a split (random_split) that draws from another "
            "source than the seed, for a set, a hash or a folder's listing that nothing fixes "
            "(sorted, PYTHONHASHSEED), and for threads"
        )

    def test_another_setting_that_mends_is_named(self):
        pairs = [pair("nondeterministic", "differs"), pair("serial", "equal")]
        assert says(repeated(pairs, locations=[self.located()]))[0] == (
            "denoiser: training repeats, bit for bit, under serial (deterministic: true, "
            "threads: 1) (2 runs, 95 steps), and not under nondeterministic"
        )

    def test_equal_weights_are_not_all_that_repeats(self):
        differ = {"answer": "differs", "compared": 9, "differing": 2, "measured": "2 of 9 differ"}
        pairs = [pair("nondeterministic", "equal", predictions=differ)]
        assert says(repeated(pairs)) == [
            "denoiser: the runs of nondeterministic have equal weights, and other predictions"
        ]

    def test_another_setting_that_also_fixes_the_order_of_sets_says_so(self):
        pairs = [pair("nondeterministic", "differs"), pair("serial", "equal")]
        assert (
            "deterministic: true also fixes the order of sets (PYTHONHASHSEED)"
            in says(repeated(pairs))[0]
        )

    def test_predictions_alone_are_mended_too(self):
        differ = {"answer": "differs", "compared": 9, "differing": 2, "measured": "2 of 9 differ"}
        pairs = [pair("nondeterministic", "equal", predictions=differ)]
        said = says(repeated([*pairs, pair("deterministic", "equal")]))
        assert said[0].startswith(
            "denoiser: predictions do not repeat under nondeterministic, and do under deterministic"
        )
        assert "but it need not be the algorithms that mend it: no operation was found" in said[0]

    @pytest.mark.parametrize("answer", ["not comparable", "not run"])
    def test_nothing_is_said_of_what_could_not_be_compared(self, answer):
        pairs = [pair("nondeterministic", answer, reason="other torch")]
        assert [said for said in says(repeated(pairs)) if "repeat" in said] == []

    def test_an_equal_pair_that_was_not_trained_as_asked_is_no_remedy(self):
        departure = {"sentence": "deterministic only warned"}
        pairs = [
            pair("nondeterministic", "differs"),
            pair("deterministic", "equal", departures=[departure]),
        ]
        assert says(repeated(pairs))[0].endswith("training does not repeat under nondeterministic")


def compiled(first_call=38.0, *, middle=0.5, batches=313, **changes):
    """Return a timing of a compiled step, with what its first call takes in seconds."""
    once = [median("compiled", first_call, phase="first_call")]
    once += [median("eager", 0.5, phase="first_call")]
    extents = [{"size": None, "train": batches, "predict": 32}]
    found = [ratio("compiled", 0.9 * middle, middle, 1.1 * middle)]
    return timed(
        "acceleration",
        timing("eager", found, medians=once, workload="digits", extents=extents, **changes),
    )


def run(variant, fit):
    """Return what a whole training tells of its time."""
    found = {"workload": "digits", "variant": variant, "seed": 1, "repeat": 1, "steps": 939}
    found |= {"seconds": {**SECONDS, "fit": fit}, "environment": {"context": CONTEXT}}
    found |= {"proof": None, "resumed_at": [], "was_stopped": False, "ended": "finished"}
    return Evidence(path="run.json", found=found)


class TestSpeed:
    def test_compilation_pays_only_above_some_steps(self):
        # 37.5 s more, and 0.05 s less a step.
        assert says(compiled()) == [
            "digits: compiled trains 2.00 times as fast as eager (95% interval 1.82 to 2.22); it "
            "pays only above about 690 to 840 steps, since its first call takes 37.5 s more, and "
            "this training has 939"
        ]

    def test_what_compiles_longer_than_its_steps_save_is_not_advised(self):
        """Red before: compiled trains 2.00 times as fast, and in a late clause that it pays not."""
        assert says(compiled(batches=100)) == [
            "digits: leave compiled out of this training: it pays only above about 690 to 840 "
            "steps, since its first call takes 37.5 s more, and this training has 300; a step of "
            "it is 2.00 times as fast as eager (95% interval 1.82 to 2.22)"
        ]

    @pytest.mark.parametrize(
        ("steps", "begins", "ends"),
        [
            (500, "digits: leave compiled out of this training: it pays only above about 690 to ",
             "since its first call takes 37.5 s more, and this training has at most 500; a step of "
             "it is 2.00 times as fast as eager (95% interval 1.82 to 2.22)"),
            (1000, "digits: compiled trains 2.00 times as fast as eager",
             "since its first call takes 37.5 s more, and this training has at most 1,000"),
        ],
    )  # fmt: skip
    def test_of_a_stream_the_most_steps_are_known(self, steps, begins, ends):
        """Red before: compiled trains 2.00 times as fast, whatever `max_steps` was."""
        found = compiled(batches=None)
        (summary,) = found.timings.values()
        settings = summary["settings"]
        told = replace(settings["workload"].trainer, max_steps=steps)
        settings["workload"] = replace(settings["workload"], trainer=told)
        (said,) = says(found)
        assert said.startswith(begins)
        assert said.endswith(ends)

    @pytest.mark.parametrize(
        ("fit", "begins", "ends"),
        [
            (120.0, "digits: leave compiled out of this training: it pays only above about 690 to ",
             "and this training has 939; the whole training, as it ran, was 0.500 times as fast: "
             "2 min 0 s, eager 60.0 s (a training each); a step of it is 2.00 times as fast as "
             "eager (95% interval 1.82 to 2.22)"),
            (30.0, "digits: compiled trains 2.00 times as fast as eager",
             "the whole training, as it ran, was 2.00 times as fast: 30.0 s, eager 60.0 s (a "
             "training each)"),
            # As both ran nothing is shown: the timing speaks.
            (60.0, "digits: compiled trains 2.00 times as fast as eager", "training has 939"),
        ],
    )  # fmt: skip
    def test_the_whole_training_as_it_ran_overrules_its_steps(self, fit, begins, ends):
        found = compiled()
        runs = [run("eager", 60.0), run("compiled", fit)]
        rows = [{"study": "acceleration", **row} for row in whole_speeds(runs)]
        (said,) = says(replace(found, verdicts=[*found.verdicts, *rows]))
        assert said.startswith(begins)
        assert said.endswith(ends)

    def test_what_predicts_faster_and_trains_not_is_for_prediction(self):
        found = [ratio("compiled", 0.45, 0.5, 0.55, phase=of) for of in ("train", "predict")]
        once = [median("compiled", 38.0, phase="first_call")]
        once += [median("eager", 0.5, phase="first_call")]
        extents = [{"size": None, "train": 100, "predict": 32}]
        settings = {"medians": once, "workload": "digits", "extents": extents}
        assert says(timed("acceleration", timing("eager", found, **settings))) == [
            "digits: compiled predicts 2.00 times as fast as eager (95% interval 1.82 to 2.22); "
            "for training leave it out: it pays only above about 690 to 840 steps, since its first "
            "call takes 37.5 s more, and this training has 300"
        ]

    def test_sizes_of_which_none_pays_are_not_advised(self):
        at = {"gpu": 40.0, "cpu": 0.1}
        once = [
            median(name, seconds, phase="first_call", size=size)
            for size in (100, 1000)
            for name, seconds in at.items()
        ]
        extents = [{"size": size, "train": 1, "predict": 1} for size in (100, 1000)]
        (said,) = says(self.sizes({100: 0.5, 1000: 0.2}, medians=once, extents=extents))
        assert said == (
            "peaks: leave gpu out of this training: it pays only above about 490 to 890 steps, "
            "since its first call takes 39.9 s more, and this training has 3; a step of it is 2.00 "
            "to 5.00 times as fast as cpu at every size, 100 to 1,000 points"
        )

    @pytest.mark.parametrize(
        ("trainer", "first_call", "sentence"),
        [
            (1.3, 0.51, "digits: leave compiled out of this training: through Lightning's Trainer "
             "its step is slower; its bare step is 2.00 times as fast as eager (95% interval 1.82 "
             "to 2.22)"),
            (1.3, 38.0, "digits: leave compiled out of this training: it never pays, since through "
             "Lightning's Trainer its step is slower, and its first call takes 37.5 s more; its "
             "bare step is 2.00 times as fast as eager (95% interval 1.82 to 2.22)"),
            (1.0, 0.51, "digits: compiled trains 2.00 times as fast as eager (95% interval 1.82 to "
             "2.22); through Lightning's Trainer its step shows no difference that matters"),
        ],
    )  # fmt: skip
    def test_a_step_that_only_the_bare_loop_has_faster_says_why(
        self, trainer, first_call, sentence
    ):
        """Red before: the reason was empty, or the steps were "not faster" that just were."""
        once = [median("compiled", first_call, phase="first_call")]
        once += [median("eager", 0.5, phase="first_call")]
        found = [ratio("compiled", 0.45, 0.5, 0.55)]
        found += [ratio("compiled", 0.99 * trainer, trainer, 1.01 * trainer, phase="trainer")]
        extents = [{"size": None, "train": 313, "predict": 32}]
        settings = {"medians": once, "workload": "digits", "extents": extents}
        assert says(timed("acceleration", timing("eager", found, **settings))) == [sentence]

    def test_sizes_that_pay_are_told_apart_from_those_that_never_do(self):
        """Red before: "it never pays" of all, since at one size it does not."""
        once = [
            median(name, seconds, phase="first_call", size=size)
            for size in (100, 1000)
            for name, seconds in {"gpu": 40.0, "cpu": 0.1}.items()
        ]
        extents = [{"size": size, "train": 1000, "predict": 1} for size in (100, 1000)]
        (said,) = says(
            self.sizes(
                {100: 0.5, 1000: 0.2},
                medians=once,
                extents=extents,
                trainer={100: 1.5, 1000: 0.2},
            )
        )
        assert "; through Lightning's Trainer its step is slower at 100 points" in said
        assert "; it pays only above about 490 to 520 steps" in said
        assert "never" not in said

    def test_few_slow_steps_pay_for_nothing(self):
        """Red before: less than ten steps of a baseline were free, and the page said nothing."""
        (said,) = says(compiled(1.4, middle=0.9, batches=1))
        assert said.startswith(
            "digits: leave compiled out of this training: it pays only above about 48 to 910 "
            "steps, since its first call takes 900 ms more, and this training has 3; "
        )

    def test_a_first_call_that_costs_nothing_is_not_named(self):
        (said,) = says(compiled(0.6))
        assert "pays" not in said

    def test_what_is_slower_has_its_interval_too(self):
        assert says(compiled(middle=1.25)) == [
            "digits: compiled is slower: it trains 0.800 times as fast as eager (95% interval "
            "0.727 to 0.889)"
        ]

    @pytest.mark.parametrize("middle", [0.95, 1.0, 1.05])
    def test_nothing_is_said_of_what_is_undecided(self, middle):
        assert says(compiled(middle=middle)) == []

    def test_an_unstable_clock_gives_no_speed_up(self):
        """Red before: a compiled variant was faster, without a word of its compilation."""
        (said,) = says(compiled(unstable=True))
        assert said == (
            "digits: compiled trains faster than eager (by how much is unsure: the clock was "
            "unstable); its first call takes 37.5 s more; how many steps pay for it is unsure"
        )
        assert says(compiled(unstable=True, middle=0.85)) == []

    def test_page_and_verdict_agree_on_when_it_pays_where_only_the_bare_step_is_unstable(self):
        """Red before: above about 750 steps by the verdict, and unsure at the top of the page."""
        once = [median("compiled", 38.0, phase="first_call")]
        once += [median("eager", 0.5, phase="first_call")]
        found = [ratio("compiled", 0.45, 0.5, 0.55, phase=of) for of in ("train", "trainer")]
        extents = [{"size": None, "train": 1000, "predict": 32}]
        of = timing("eager", found, medians=once, workload="digits", extents=extents)
        for each in of["medians"]:
            if each["phase"] == "train":
                each |= {"unstable": True, "iqr_share": 0.3}
        results_of = timed("acceleration", of)
        (speed,) = (row for row in results_of.verdicts if row["key"] == "speed")
        (said,) = says(results_of)
        assert (
            "pays above about 750 steps (690 to 840 by the interval of a step); "
            "this training has 3,000" in speed["measured"]
        )
        assert "it pays only above about 690 to 840 steps" in said

    def test_a_variant_that_predicts_otherwise_is_no_faster_one(self):
        other = {"variant": "compiled", "size": None, "distance": 0.5, "tolerance": 1e-5}
        other |= {"integers": 0, "integers_differing": 0}
        assert says(compiled(agreement=[other])) == []

    def sizes(self, ratios, *, trainer=(), **changes):
        found = [
            ratio("gpu", 0.9 * middle, middle, 1.1 * middle, size=size, phase=phase)
            for phase, of in (("train", ratios), ("trainer", dict(trainer)))
            for size, middle in of.items()
        ]
        return timed("devices", timing("cpu", found, size="points", workload="peaks", **changes))

    def test_the_size_from_which_on_something_is_faster(self):
        found = self.sizes({100: 3.0, 1000: 1.5, 10000: 0.5, 40000: 0.1})
        assert says(found) == [
            "peaks: gpu trains 2.00 to 10.0 times as fast as cpu from 10,000 points on; it trains "
            "slower up to 1,000 points"
        ]
        rows = one_row_of_sizes(found.verdicts, found)
        assert [(row["answer"], row["measured"]) for row in rows] == [
            ("no", "up to 1,000 points; 0.333 to 0.667 times as fast"),
            ("yes", "from 10,000 points on; 2.00 to 10.0 times as fast"),
        ]
        assert {row["question"] for row in rows} == {"Does it train faster than cpu?"}

    def test_an_unstable_size_is_left_out_of_the_numbers(self):
        found = self.sizes({100: 0.3, 1000: 0.2, 10000: 0.1}, unstable=(10000,))
        (said,) = says(found)
        assert (
            "trains 3.33 to 5.00 times as fast as cpu (where the clock was steady, at 2 of" in said
        )
        (row,) = one_row_of_sizes(found.verdicts, found)
        assert row["measured"].endswith("3.33 to 10.0 times as fast; unstable at 1 of 3 sizes")

    def test_a_size_of_its_own_answer_stays_as_it_is(self):
        found = self.sizes({100: 1.0, 1000: 0.5})
        assert one_row_of_sizes(found.verdicts, found) == found.verdicts

    @pytest.mark.parametrize(
        ("failed", "named"),
        [
            ([10000], "gpu at 10,000 points"),
            ([100, 10000], "gpu at 100 and 10,000 points"),
            ([100, 1000, 10000], "gpu"),
        ],
    )
    def test_sizes_that_did_not_run_are_named(self, failed, named):
        """Red before: "not run here: gpu", though it ran at other sizes."""
        skipped = [
            {"variant": "gpu", "size": size, "phase": None, "reason": "too large"}
            for size in failed
        ]
        ran = {100: 0.5, 1000: 0.5, 10000: 0.5}
        found = self.sizes({size: ran[size] for size in ran if size not in failed}, skipped=skipped)
        assert says(found)[-1] == f"peaks: not run here: {named} (too large)"


def test_what_could_not_run_is_named_with_its_reason():
    missing = [
        {"workload": "peaks", "variant": name, "reason": "no GPU on this machine"}
        for name in ("gpu", "gpu-fast")
    ]
    rows = not_run(missing, "speed", "Does it train faster?")
    assert says(results(("devices", rows))) == [
        "peaks: not run here: gpu and gpu-fast (no GPU on this machine)"
    ]


def test_a_variant_that_ran_is_not_said_not_to_have_run():
    """Red before: "not run here: whole", which was trained and timed, and predicts nothing."""
    reason = "it has no predict_dataloader"
    missing = [{"workload": "peaks", "variant": name, "reason": reason} for name in ("gpu", "fast")]
    rows = not_run(missing, "prediction_speed", "Does it predict faster?")
    trained = {**rows[1], "key": "whole_speed", "answer": "undecided", "measured": ""}
    assert says(results(("acceleration", [*rows, trained]))) == [
        f"peaks: not run here: gpu ({reason})",
        f"peaks: not answered here of fast: Does it predict faster? ({reason})",
    ]


@pytest.mark.parametrize(
    ("are_same", "expected"),
    [
        (
            True,
            [
                "wide: wide/serial is not worse than narrow/serial: both end in the same "
                "weights, predictions and test metrics from each of these 2 seeds; from other "
                "seeds they may diverge, in up to 78% of trainings (with 95% confidence)"
            ],
        ),
        (False, []),  # that a metric has come to its end says nothing of other seeds
    ],
)
def test_two_candidates_of_the_same_values_are_told_if_they_are_one_training(are_same, expected):
    values = {"wide/serial": [1.0, 1.0], "narrow/serial": [1.0, 1.0]}
    found = ranking(values, contestants=values, margin=0.01, are_same=are_same)
    rows = studies.contest([Evidence(path="contests/it.json", found=found)], [], [])
    assert says(results(("contest", rows), contests={"contests/it.json": found})) == expected


def test_of_two_candidates_the_difference_is_named_where_it_is_no_luck():
    values = {"wide/serial": [0.9, 0.91, 0.92], "narrow/serial": [0.7, 0.72, 0.71]}
    sure, unsure = ranking(values, contestants=values), {**values, "narrow/serial": [0.7, 0.9, 1]}
    for found, number in ((sure, 1), (ranking(unsure, contestants=unsure), 0)):
        rows = studies.contest([Evidence(path="contests/it.json", found=found)], [], [])
        said = says(results(("contest", rows), contests={"contests/it.json": found}))
        assert len(said) == number
        for one in said:
            start = (
                "wide: wide/serial is better than narrow/serial, by more than the luck of seeds: "
                "acc in the test is apart"
            )
            assert one.startswith(f"{start} by 0.200 (95% interval ")
            assert "by the luck of seeds alone: other samples than those of this test" in one


def test_advice_on_two_candidates_says_what_its_verdict_doubts():
    """Red before: that seeds which are lucky for one are unlucky for the other, and of epochs."""
    values = {"wide/serial": [0.9, 0.91, 0.92], "narrow/serial": [0.72, 0.71, 0.7]}
    found = {**ranking(values, contestants=values), "measured_in": "epoch", "epoch": 3}
    rows = studies.contest([Evidence(path="contests/it.json", found=found)], [], [])
    (said,) = says(results(("contest", rows), contests={"contests/it.json": found}))
    assert "to the variance: what is lucky for one is unlucky for the other" in said
    assert "of this epoch may say otherwise, and whether they were the same" in said


def test_the_best_of_a_sweep_is_named_where_it_is_no_luck():
    """Red before: a sweep that had found its best was not spoken of."""
    sure = {"a": [0.9, 0.91, 0.92], "b": [0.7, 0.72, 0.71]}
    for values, expected in (
        (
            sure,
            [
                "digits: lr a is best of 2, by more than the luck of seeds: acc in the test is "
                "0.910 (0.885 to 0.935), and 0.710 (0.685 to 0.735) with the next, lr b; by the "
                "luck of seeds alone: other samples than those of this test may say otherwise"
            ],
        ),
        ({**sure, "b": [0.9, 0.92, 0.91]}, []),
    ):
        found = ranking(values)
        rows = studies.sweep([Evidence(path="sweeps/digits.json", found=found)], [], [])
        assert says(results(("sweep", rows), rankings={"digits": found})) == expected


@pytest.mark.parametrize("other", ["equal", "differs"])
def test_a_checkpoint_that_loses_bits_is_named(other):
    row = {"workload": "digits", "variant": "serial", "question": "", "measured": ""}
    rows = [
        {**row, "key": key, "answer": answer, "evidence": ""}
        for key, answer in (("resumes_lightning", "differs"), ("resumes_twinrun", other))
    ]
    (said,) = says(results(("resume", rows)))
    assert "resumes from Lightning's checkpoint ends otherwise" in said
    assert ("it ends in the same bits" in said) == (other == "equal")


def test_six_sentences_are_chosen_by_kind_and_then_by_rank():
    kinds = [
        [f"{kind}{rank}" for rank in range(length)]
        for kind, length in zip("abc", (4, 1, 3), strict=True)
    ]
    sentences = [[Sentence(subjects=[], says=name) for name in names] for names in kinds]
    found = [of.says for of in chosen(sentences)]
    assert found == ["a0", "a1", "a2", "b0", "c0", "c1"]
    assert len(found) == MOST_SENTENCES
    last = [Sentence(subjects=[], says="last")]
    assert [of.says for of in chosen(sentences, last)] == found
    few = [of.says for of in chosen([sentences[0][:2], sentences[2]], last)]
    assert few == ["a0", "a1", "last", "c0", "c1", "c2"]


def of_nan(workload, variant):
    """Return a run whose weights are NaN."""
    of = {"workload": workload, "variant": variant, "seed": 1, "repeat": 2, "perturbation": 0}
    return [{**of, "weights_sha256": "a", "no_result": "its weights are NaN or infinite (w)"}]


@pytest.mark.parametrize(
    ("key", "answer"), [("withstands_changes", "yes"), ("resumes_lightning", "differs")]
)
def test_bits_of_a_training_that_is_no_result_are_said_to_be_none(key, answer):
    """Red before: "every parameter keeps its bits", and all of them were NaN."""
    cells = [cell("logging: true", "equal")]
    table = {"workload": "digits", "baseline": "serial", "cells": cells, "steps": 30}
    row = {"workload": "digits", "variant": "serial", "question": "", "measured": ""}
    row |= {"key": key, "answer": answer, "evidence": ""}
    found = results(("matrix", [row]), matrices={"digits": table}, runs=of_nan("digits", "serial"))
    (said,) = says(found)
    assert said.endswith("; but a run of serial is no result: its weights are NaN or infinite (w)")


def test_a_faster_variant_that_is_no_result_says_so():
    """Red before: compiled trains 2.00 times as fast, to weights that are NaN."""
    (said,) = says(replace(compiled(), runs=of_nan("digits", "compiled")))
    assert said.startswith("digits: compiled trains 2.00 times as fast")
    assert said.endswith(
        "; but a run of compiled is no result: its weights are NaN or infinite (w)"
    )


def test_every_cause_has_its_words():
    """One without them would end the page."""
    assert OF_A_CHANGE.keys() == ADVICE.keys() == {*CAUSES}


def cell(label, answer, cause=None, size=None, *, name="change"):
    named = {"cell": name, "label": label, "answer": answer, "cause": cause, "size": size}
    return named | {"conditions": []}


@pytest.mark.parametrize(
    ("label", "cause", "words"),
    [
        ("stop: mid_epoch, resume: lightning", "data order", "resumed from Lightning's checkpoint"),
        ("data_workers: 2, persistent_workers: true", "data order", "torch draws one random numb"),
        ("devices: 2, sharding: partitioned", "data order", "decides which samples come together"),
        ("devices: 2, scale_batch_with_devices: true", "data content", "which samples come toget"),
        ("accumulate: 2", "RNG state", "draws random numbers of its own"),
        ("devices: 2", "RNG state", "draws random numbers of its own"),
        ("validation: false", "RNG state", "to go through validation data draws"),
        ("precision: 16-mixed", "optimizer", "gradients are scaled"),
        ("ATEN_CPU_CAPABILITY=default", "initial weights", "chooses other code of torch's"),
        # Of these the answer lies in one's own code.
        ("PYTHONHASHSEED=99", "initial weights", None),
        ("MALLOC_PERTURB_=165", "initial weights", None),
        ("data_workers: 2", "data content", None),
        ("accumulate: 2", "data order", None),
        ("precision: 16-mixed", "data order", None),
    ],
)
def test_what_a_setting_does_by_itself_is_not_looked_for_in_ones_own_code(label, cause, words):
    """Red before: the reader was sent to the sampler, a layer that draws, or the optimizer."""
    cells = [cell(label, "differs", cause, "algorithmic"), cell("logging: true", "equal")]
    table = {"workload": "digits-few", "baseline": "serial", "cells": cells, "steps": 30}
    row = {"key": "withstands_changes", "workload": "digits-few", "variant": "serial"}
    row |= {"question": "", "answer": "no", "measured": "", "evidence": "matrix/digits-few.json"}
    (said,) = says(results(("matrix", [row]), matrices={"digits-few": table}))
    told = of_cell(cells[0]) or ""
    assert ("Look at your own code" in said) == (words is None)
    assert told == OF_A_CHANGE[cause] if words is None else words in told


def test_a_dataset_that_draws_is_named_where_data_workers_move_rng_states():
    """Red before: a callback, a loader or a layer, and not the dataset's `__getitem__`."""
    assert "`__getitem__`" in (of_cell(cell("data_workers: 2", "differs", "RNG state")) or "")
    assert "`__getitem__`" not in (of_cell(cell("threads: 2", "differs", "RNG state")) or "")


def test_a_changed_setting_that_breaks_equality_points_at_ones_own_code(monkeypatch):
    cells = [
        cell("repeat", "equal", name="repeat"),
        cell("threads: 2", "differs", "backward", "rounding"),
        cell("data_workers: 2", "differs", "data content", "algorithmic"),
        cell("logging: true", "equal"),
        cell("seed: 2", "differs", "initial weights", name="seed"),
    ]
    table = {"workload": "digits-few", "baseline": "serial", "cells": cells, "steps": 30}
    row = {"key": "withstands_changes", "workload": "digits-few", "variant": "serial"}
    row |= {"question": "", "answer": "no", "measured": "", "evidence": "matrix/digits-few.json"}
    (said,) = says(results(("matrix", [row]), matrices={"digits-few": table}))
    assert said == (
        "digits-few: 2 of 3 changes of one setting give other bits (threads: 2 and data_workers: "
        "2): keep them as they are to have the same bits again. Look at your own code under "
        "data_workers: 2: the samples are others: if your dataset draws from a global generator "
        "in __getitem__, seed one for each index"
    )
    # Red before: 12 changes "give other bits", without a word of what they are worth.
    monkeypatch.setattr(
        "twinrun.report.advice_causes.worths", lambda *_: {"threads: 2": "no more than rounding"}
    )
    (said,) = says(results(("matrix", [row]), matrices={"digits-few": table}))
    assert "same bits again; 1 of them does no more than rounding does. Look at" in said
    in_parts = of_cell(cell("devices: 2", "differs", "forward", "algorithmic")) or ""
    assert "batch normalisation, dropout and a loss that is no mean" in in_parts
    looks = [of_cell(found) for found in cells]
    assert looks[0] is looks[3] is looks[4] is None
    assert re.search("backward pass .* no code of yours", looks[1] or "")
