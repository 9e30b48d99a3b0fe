"""The gate's four outcomes, by the exit code of its command, and expected fingerprints."""

import copy
import doctest
import errno
import math
from pathlib import Path

import pandas as pd
import pytest
import yaml
from example_comparisons import median, timed
from example_runs import CONTEXT, fail, write_manifest

from twinrun import artifacts
from twinrun.comparison import study_records
from twinrun.comparison.study_records import MatrixCell
from twinrun.config.reference import SCHEMA
from twinrun.config.settings import resolve
from twinrun.errors import TwinrunError
from twinrun.gate import costs, expected_fingerprints, gate
from twinrun.gate import outcome as outcomes
from twinrun.gate.expected_fingerprints import movements
from twinrun.gate.gate import EXIT_CODES, main, require
from twinrun.gate.judged import hashes_of
from twinrun.gate.outcome import read_outcome, write_outcome
from twinrun.timing import summary
from twinrun.verdicts.rows import KEYS, write_rows

CONFIG = yaml.safe_load((Path(__file__).parents[2] / "config.yaml").read_text())
COST = timed(interval=(1.2, 1.1, 1.4)).found
SENTENCES = {
    "threads-1": ("differs", "differs from step 1."),
    "repeat": ("equal", "every bit stays the same."),
    "devices-2": ("not run", "not run, no GPU."),
}
PLANNED = {"workloads": {}, "variants": {}, "datasets": {}}
PLANNED |= {"studies": {"reproducibility": ["denoiser"], "resume": ["denoiser"]}}
PLANNED["studies"]["contest"] = ["denoiser"]
PLANNED |= {"runs": {}, "configs": {}, "config": "c" * 64, "beside": {}}
IDENTITY = {"python": "3.11.9", "torch": "2.13.0", "cpu": "Example CPU", "cpu_capability": "AVX2"}


def verdict(answer, *, study="reproducibility", key="repeats", variant="deterministic"):
    return {
        "study": study,
        "key": key,
        "workload": "denoiser",
        "variant": variant,
        "question": "Whatever its words are?",
        "answer": answer,
        "measured": "0 of 12 parameters differ",
        "evidence": "comparisons/x.json",
    }


def resumed(answer, checkpoint="twinrun"):
    return verdict(answer, study="resume", key=f"resumes_{checkpoint}")


def write_matrix(path):
    nothing = dict.fromkeys(MatrixCell.__required_keys__) | {
        "conditions": [],
        "same_weights": False,
    }
    cells = [
        nothing | {"cell": cell, "label": cell, "answer": answer, "sentence": sentence}
        for cell, (answer, sentence) in SENTENCES.items()
    ]
    matrix = {"workload": "denoiser", "baseline": "plain", "seed": 1, "answer": "equal"}
    matrix |= {"reason": None, "steps": 30, "scale": 0.1, "cells": cells}
    study_records.write_matrix(path, matrix)


def contested(answer):
    return verdict(answer, study="contest", key="contest")


def write_run(
    folder,
    *,
    weights="a" * 64,
    apart_from=99,
    losses=(0.5, 0.4, 0.3),
    steps=3,
    variant="deterministic",
    ended="finished",
    no_result=None,
    of_manifest=None,
    **identity,
):
    """A run of some steps whose parameters are other ones from a step on."""
    path = folder / "run/run.json"
    numbers = range(1, steps + 1)
    parameters = [f"{n:016x}" if n < apart_from else f"{n + 90:016x}" for n in numbers]
    losses = [losses[min(n, len(losses)) - 1] for n in numbers]
    table = pd.DataFrame({"step": numbers, "loss": losses, "parameters": parameters})
    artifacts.write_csv(path.with_name("steps.csv"), table)
    write_manifest(
        path,
        {
            "workload": "denoiser",
            "variant": variant,
            "steps": steps,
            "environment": {
                "identity": IDENTITY | identity,
                "context": CONTEXT,
                "packages": {},
            },
            "settings": {"variant": {"threads": 2}},
            "weights_sha256": weights,
            "metrics": {"test_accuracy": 0.9},
            "ended": ended,
            "no_result": no_result,
            **(of_manifest or {}),
        },
        path.with_name("steps.csv"),
    )
    return str(path)


def write_rounds(folder, timing):
    """Write rounds whose ratios are those of a timing: six, whose interval is all of them."""
    rows = []
    for ratio in timing["ratios"]:
        middle, low, high = (ratio[key] for key in ("time_ratio", "low", "high"))
        for number, value in enumerate((low, middle, middle, middle, middle, high)):
            row = {"size": ratio["size"], "phase": ratio["phase"], "round": number, "steps": 1}
            rows += [row | {"variant": timing["baseline"], "seconds": 1.0}]
            rows += [row | {"variant": ratio["variant"], "seconds": value}]
    columns = ["variant", "size", "phase", "round", "steps", "seconds"]
    table = pd.DataFrame(rows, columns=columns)
    artifacts.write_csv(folder / "timing.csv", table.drop_duplicates(columns[:4]))


def judge(
    folder, requirements, *, rows=(), studies=None, timing=COST, runs=(), rests_on=(), behind=()
):
    """Write the outcome of requirements; `studies`: rows of the studies' own tables, if others."""
    own = rows if studies is None else studies
    for study in {row["study"] for row in own}:
        (folder / "verdicts").mkdir(parents=True, exist_ok=True)
        path = folder / f"verdicts/{study}.csv"
        write_rows(path, [row for row in own if row["study"] == study])
    write_rows(folder / "verdicts.csv", rows)
    summary.write(folder / "timing.json", timing)
    write_rounds(folder, timing)
    write_matrix(folder / "matrix.json")
    require(
        requirements,
        verdicts=folder / "verdicts.csv",
        timings=[str(folder / "timing.json")],
        matrices=[str(folder / "matrix.json")],
        runs=runs,
        rests_on=rests_on,
        planned=PLANNED | {"runs": dict(behind)},
        output=folder / "gate.json",
    )


def outcome(folder, requirements, **results):
    """Judge and return what the command ends with."""
    judge(folder, requirements, **results)
    code = main([str(folder / "gate.json")])
    return {code: outcome for outcome, code in EXIT_CODES.items()}[code]


def write_tables(comparison):
    for table in (".tensors.csv", ".steps.csv"):
        comparison.with_suffix(table).write_text("step\n")


@pytest.mark.parametrize("of", ["comparisons/x", "matrix/denoiser/threads-1", "noise/x"])
@pytest.mark.parametrize("is_judged_before", [False, True])
def test_a_table_beside_a_comparison_that_is_gone_does_not_pass(
    tmp_path, monkeypatch, capsys, of, is_judged_before
):
    """Red before: the gate passed, and figures were made of what was no longer there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("twinrun.gate.gate.stale_reasons", lambda *_: [])
    record = Path("results", f"{of}.json")
    record.parent.mkdir(parents=True)
    record.write_text("{}")
    write_tables(record)
    row = verdict("equal") | {"evidence": f"{of}.json"}
    found = {"rows": [row], "requirements": {"deterministic_pair": "equal"}}
    table = record.with_suffix(".steps.csv")
    if is_judged_before:
        assert outcome(Path("results"), **found) == "pass"
        table.unlink()
        assert main(["results/gate.json"]) == EXIT_CODES["not comparable"]
        assert f"{table} changed since the gate judged" in capsys.readouterr().out
    else:
        table.unlink()
        assert outcome(Path("results"), **found) == "not comparable"
        assert (
            f"{table} is missing, which is made together with {record}" in capsys.readouterr().out
        )


@pytest.mark.parametrize("is_deleted", [False, True])
@pytest.mark.parametrize(
    "file", ["comparisons/x.json", "matrix/threads-1.json", "runs/run/SHA256SUMS"]
)
def test_what_the_answers_rest_on_is_looked_at_again(
    tmp_path, monkeypatch, capsys, file, is_deleted
):
    """Red before: a comparison that was altered or deleted passed, or other checksums."""
    folder = tmp_path / "results"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("twinrun.gate.gate.stale_reasons", lambda *_: [])
    run = write_run(folder / "runs")
    (folder / file).parent.mkdir(exist_ok=True, parents=True)
    if not (folder / file).is_file():
        (folder / file).write_text("{}")
    if "comparisons/" in file:
        write_tables(folder / file)
    found = {"rows": [verdict("equal")], "rests_on": [str(Path(run).relative_to(tmp_path))]}
    assert outcome(Path("results"), {"deterministic_pair": "equal"}, **found) == "pass"
    (folder / file).unlink() if is_deleted else (folder / file).write_text("{ }")
    assert main(["results/gate.json"]) == EXIT_CODES["not comparable"]
    said = capsys.readouterr().out
    assert f"results/{file} changed since the gate judged" in said
    forced = "require" if "runs/" in file else f"require results/{file}"
    assert f"(twinrun gate --forcerun {forced})" in said


@pytest.mark.parametrize("module", [costs, expected_fingerprints, outcomes])
def test_examples_in_the_docstrings_hold(module):
    found = doctest.testmod(module)
    assert found.attempted > 0
    assert found.failed == 0


@pytest.mark.parametrize("requirement", ["resume", "deterministic_pair"])
def test_answers_about_the_workloads_of_another_config_are_not_judged(tmp_path, requirement):
    """Two configs may take turns in one folder, and Snakemake may look at times alone."""
    row = resumed("equal") if requirement == "resume" else verdict("equal")
    other = row | {"workload": "renamed"}
    assert outcome(tmp_path, {requirement: "equal"}, rows=[row]) == "pass"
    assert outcome(tmp_path, {requirement: "equal"}, rows=[other]) == "not comparable"
    broken = other | {"answer": "differs"}
    assert outcome(tmp_path, {requirement: "equal"}, rows=[row, broken]) == "pass"


def test_the_exit_codes_tell_four_outcomes_apart():
    assert EXIT_CODES == {"pass": 0, "error": 1, "fail": 3, "not comparable": 4}


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("requirements", "rows", "expected"),
    [
        ({"deterministic_pair": "equal"}, [verdict("equal")], "pass"),
        ({"deterministic_pair": "equal"}, [verdict("differs")], "fail"),
        ({"deterministic_pair": "equal"}, [verdict("not run")], "not comparable"),
        ({"deterministic_pair": "equal"}, [verdict("equal"), verdict("differs")], "fail"),
        ({"deterministic_pair": "equal"}, [verdict("equal", variant="other")], "not comparable"),
        ({"deterministic_pair": "equal"}, [], "not comparable"),
        ({"deterministic_pair": "differs"}, [verdict("differs")], "pass"),
        (
            {"deterministic_pair": "differs"},
            [verdict("differs"), verdict("equal", key="repeats_metrics")],
            "pass",
        ),
        (
            {"deterministic_pair": "equal"},
            [verdict("equal"), verdict("differs", key="repeats_metrics")],
            "fail",
        ),
        ({"deterministic_pair": "equal"}, [verdict("undecided")], "not comparable"),
        ({"deterministic_pair": "undecided"}, [verdict("undecided")], "pass"),
        ({"deterministic_pair": "equal"}, [verdict("equal", study="parallel")], "not comparable"),
        ({"deterministic_pair": "equal"}, [verdict("differs", key="cost")], "not comparable"),
        ({"resume": "equal"}, [verdict("differs"), resumed("equal")], "pass"),
        ({"resume": "equal"}, [resumed("differs")], "fail"),
        ({"resume": "equal"}, [resumed("differs", "lightning"), resumed("equal")], "pass"),
        ({"resume": "equal"}, [resumed("not run")], "not comparable"),
        ({"contest": "better"}, [contested("better")], "pass"),
        ({"contest": "better"}, [contested("worse")], "fail"),
        ({"contest": "better"}, [contested("undecided")], "not comparable"),
        ({"contest": "better"}, [contested("not comparable")], "not comparable"),
        ({"contest": "not worse"}, [contested("better")], "pass"),
        ({"contest": "not worse"}, [contested("not worse")], "pass"),
        ({"contest": "better"}, [contested("not worse")], "fail"),
        ({"contest": "not worse"}, [contested("worse")], "fail"),
        ({"contest": "not worse"}, [contested("undecided")], "not comparable"),
        ({"contest": "not worse"}, [contested("not run")], "not comparable"),
        ({"contest": "better"}, [verdict("equal")], "not comparable"),
        ({"determinism_cost": "<= 1.25"}, [], "pass"),
        ({"determinism_cost": "<= 1.15"}, [], "fail"),
        ({"determinism_cost": "< 1.2"}, [], "fail"),
        ({"matrix": ["repeat"]}, [], "pass"),
        ({"matrix": ["repeat", "threads-1"]}, [], "fail"),
        ({"matrix": ["repeat", "devices-2"]}, [], "not comparable"),
        ({"matrix": ["no-such-cell"]}, [], "not comparable"),
        ({"matrix": ["devices-2"], "determinism_cost": "<= 1"}, [], "fail"),
    ],
)
def test_outcomes(tmp_path, requirements, rows, expected):
    assert outcome(tmp_path, requirements, rows=rows) == expected


@pytest.mark.parametrize(
    ("requirement", "wanted", "row"),
    [
        ("deterministic_pair", "equal", verdict("not run")),
        ("deterministic_pair", "differs", verdict("differs")),
        ("contest", "better", contested("not comparable")),
        ("resume", "equal", resumed("not run")),
        ("matrix", ["devices-2"], verdict("equal")),
        ("determinism_cost", "<= 1.25", verdict("equal")),
    ],
)
def test_a_training_that_failed_fails_whatever_is_required(
    tmp_path, capsys, requirement, wanted, row
):
    """Red at 9ef25b2: not comparable, which an example of a CI lets pass."""
    folder = tmp_path / "results/runs/denoiser/deterministic/seed1/run"
    run = Path(write_run(folder.parent))
    fail(run, "RuntimeError: my network exploded")
    behind = {requirement: [str(run)]}
    assert outcome(tmp_path, {requirement: wanted}, rows=[row], behind=behind) == "fail"
    said = f"{folder}: this training failed: RuntimeError: my network exploded (log: {tmp_path}"
    said += "/results/logs/train/denoiser/deterministic/seed1/run.log; to train it again as it"
    assert f"{said} is, delete {folder})" in capsys.readouterr().out
    # What is not required may fail.
    judged = outcome(tmp_path, {requirement: wanted}, rows=[row], behind={"other": [str(run)]})
    assert judged != "fail"


@pytest.mark.parametrize(
    ("ended", "expected"),
    [
        ("broken off: RuntimeError: my network exploded", "fail"),  # its network so far is kept
        ("refused: the fast steps are not proven", "not comparable"),
        ("finished", "not comparable"),
    ],
)
def test_a_fast_training_that_was_broken_off_failed_too(tmp_path, ended, expected):
    run = write_run(tmp_path, ended=ended)
    behind, rows = {"deterministic_pair": [run]}, [verdict("not comparable")]
    judged = outcome(tmp_path, {"deterministic_pair": "equal"}, rows=rows, behind=behind)
    assert judged == expected


NAN = "its weights are NaN or infinite (w)"


@pytest.mark.parametrize(
    ("requirement", "row", "no_result", "expected"),
    [
        ("contest", contested("not comparable"), NAN, "fail"),
        ("contest", contested("better"), NAN, "fail"),
        ("contest", contested("not comparable"), None, "not comparable"),
        # Whether bits repeat is known of NaN as of any number.
        ("deterministic_pair", verdict("equal"), NAN, "pass"),
    ],
)
def test_a_candidate_without_a_result_failed_as_one_that_raised(
    tmp_path, capsys, requirement, row, no_result, expected
):
    """Red before: not comparable, which an example of a CI lets pass."""
    run = write_run(tmp_path, no_result=no_result)
    behind, wanted = {requirement: [run]}, "equal" if row["key"] == "repeats" else "better"
    assert outcome(tmp_path, {requirement: wanted}, rows=[row], behind=behind) == expected
    said = f"{Path(run).parent}: this training left no result: {NAN}"
    assert (said in capsys.readouterr().out) == (expected == "fail")


@pytest.mark.parametrize(
    "key", ["repeats", "repeats_logged", "repeats_metrics", "repeats_predictions"]
)
@pytest.mark.parametrize(("answer", "expected"), [("differs", "fail"), ("equal", "pass")])
def test_a_pair_repeats_in_all_that_it_leaves(tmp_path, key, answer, expected):
    """Equal weights are no pass where a logged value, a metric or a prediction differs."""
    rows = [verdict("equal"), verdict(answer, key=key)]
    assert outcome(tmp_path, {"deterministic_pair": "equal"}, rows=rows) == expected


def test_a_key_of_the_pair_that_stands_alone_is_judged(tmp_path):
    for key in KEYS:
        rows = [verdict("differs", key=key)]
        is_of_pair = key.partition("_")[0] == "repeats"
        expected = "fail" if is_of_pair else "not comparable"
        assert outcome(tmp_path, {"deterministic_pair": "equal"}, rows=rows) == expected, key


def test_a_cost_that_was_not_measured_is_not_comparable(tmp_path):
    timing = COST | {"ratios": []}
    assert outcome(tmp_path, {"determinism_cost": "<= 9"}, timing=timing) == "not comparable"


def test_a_cost_whose_largest_mini_batches_were_not_measured_is_not_comparable(tmp_path, capsys):
    """Seen red: it passed by the ratio of the small ones."""
    uneven = {"times": 20.0, "unmeasured": 1, "of_rounds": 1.2}
    timing = COST | {"ratios": [COST["ratios"][0] | {"low": None, "high": None, "uneven": uneven}]}
    # Of rounds without an interval none can be written here, so the timing is not of its rounds.
    outcome(tmp_path, {"determinism_cost": "<= 9"}, timing=timing)
    said = capsys.readouterr().out.splitlines()[0]
    assert said.startswith("not comparable: determinism_cost")
    assert "its mini-batches are uneven (the largest has 20.0 times" in said
    measured = COST | {"ratios": [COST["ratios"][0] | {"uneven": uneven | {"unmeasured": 0}}]}
    outcome(tmp_path, {"determinism_cost": "<= 9"}, timing=measured)
    assert capsys.readouterr().out.startswith("pass: determinism_cost")


@pytest.mark.parametrize("answer", ["not run", "not comparable"])
def test_a_variant_whose_cost_has_no_ratio_has_a_line(tmp_path, answer, capsys):
    """One that was skipped, or that this machine cannot run, is in no ratio of the timing."""
    row = verdict(answer, key="cost") | {"variant": "det-two"}
    assert outcome(tmp_path, {"determinism_cost": "<= 1.25"}, rows=[row]) == "not comparable"
    assert "denoiser det-two" in capsys.readouterr().out
    of_another_config = row | {"workload": "renamed"}
    assert outcome(tmp_path, {"determinism_cost": "<= 1.25"}, rows=[of_another_config]) == "pass"
    assert (
        outcome(tmp_path, {"determinism_cost": "<= 1.25"}, rows=[row | {"answer": "undecided"}])
        == "pass"
    )


@pytest.mark.one_in(2)
@pytest.mark.parametrize("phase", ["predict", "trainer"])
@pytest.mark.parametrize("other", [9.0, 0.1])
def test_the_cost_is_that_of_a_training_step(tmp_path, phase, other):
    """Another phase neither fails a step that is cheap, nor passes one that is dear."""
    (train,) = COST["ratios"]
    beside = train | {"phase": phase, "time_ratio": other, "low": other, "high": other}
    for ratios, expected in (
        ([beside, train], ("pass", "fail")),
        ([beside], ("not comparable", "not comparable")),
    ):
        timing = COST | {"ratios": ratios}
        found = [
            outcome(tmp_path, {"determinism_cost": limit}, timing=timing)
            for limit in ("<= 1.25", "<= 1.15")
        ]
        assert tuple(found) == expected


@pytest.mark.parametrize(
    ("limit", "expected", "lines"),
    [
        ("<= 1.25", "fail", ["fail: deterministic: 1.2504", "pass: on_gpu: 0.500"]),
        (">= 0.6", "fail", ["pass: deterministic: 1.25", "fail: on_gpu: 0.500"]),
        ("<= 2", "pass", ["pass: deterministic: 1.25", "pass: on_gpu: 0.500"]),
    ],
)
def test_each_ratio_has_its_line_and_the_digits_that_decide(
    tmp_path, capsys, limit, expected, lines
):
    """Red at b8e0cc1: "fail: <= 1.25: 1.25", and the largest ratio named as too small."""
    ratios = [
        COST["ratios"][0] | {"variant": variant, "time_ratio": ratio, "low": low}
        for variant, ratio, low in (("deterministic", 1.2504, 1.1), ("on_gpu", 0.5, 0.5))
    ]
    timing = COST | {"ratios": ratios, "medians": [*COST["medians"], median("on_gpu")]}
    assert outcome(tmp_path, {"determinism_cost": limit}, timing=timing) == expected
    shown = capsys.readouterr().out.replace(f"determinism_cost: {limit}: denoiser ", "")
    assert [line.partition(" (")[0] for line in shown.splitlines()[:-1]] == lines


def test_missing_and_corrupt_results_are_errors(tmp_path, capsys):
    assert main([str(tmp_path / "gate.json")]) == EXIT_CODES["error"]
    assert "gate.json is missing" in capsys.readouterr().err
    (tmp_path / "gate.json").write_text("{")
    assert main([str(tmp_path / "gate.json")]) == EXIT_CODES["error"]
    with pytest.raises(TwinrunError, match="nothing is required"):
        outcome(tmp_path, {})


def test_each_line_says_why(tmp_path, capsys):
    outcome(tmp_path, {"determinism_cost": "<= 1", "deterministic_pair": "equal"})
    assert capsys.readouterr().out.splitlines() == [
        "fail: determinism_cost: <= 1: denoiser deterministic: 1.20 (95% interval 1.10 to 1.40)",
        "not comparable: deterministic_pair: equal: denoiser: there is no result to judge",
        "gate: fail",
    ]


def test_a_cost_of_unstable_rounds_says_so(tmp_path, capsys):
    timing = timed(interval=(1.2, 1.1, 1.4), of_variant={"unstable": True, "iqr_share": 0.31}).found
    assert outcome(tmp_path, {"determinism_cost": "<= 1.25"}, timing=timing) == "pass"
    doubt = "; unstable: rounds of deterministic spread by up to 31%, as much as the difference"
    assert doubt in capsys.readouterr().out


def test_a_gate_that_does_not_pass_prints_and_raises_each_line_that_does_not_hold(
    tmp_path, monkeypatch
):
    """Red at b8e0cc1: "fail: not everything that require names holds"."""
    said = []
    monkeypatch.setattr(gate, "say", said.append)
    rows = [verdict("equal", variant="plain"), verdict("differs"), verdict("not run")]
    judge(tmp_path, {"plain_pair": "equal", "deterministic_pair": "equal"}, rows=rows)
    with pytest.raises(TwinrunError) as raised:
        gate.check(tmp_path / "gate.json")
    why = "0 of 12 parameters differ"
    lines = [
        f"pass: plain_pair: equal: denoiser plain: equal, {why}",
        f"fail: deterministic_pair: equal: denoiser deterministic: differs, {why}",
        f"not comparable: deterministic_pair: equal: denoiser deterministic: not run, {why}",
    ]
    assert said == lines
    assert str(raised.value) == "; ".join(lines[1:])


def test_a_gate_that_passes_raises_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(gate, "say", lambda line: None)
    judge(tmp_path, {"matrix": ["repeat"]})
    gate.check(tmp_path / "gate.json")


def test_the_last_words_of_a_start_are_the_gates_own(tmp_path, capsys):
    """Red at 3a8023a: "At least one job did not complete successfully" stood there alone."""
    judge(tmp_path, {"determinism_cost": "<= 1", "deterministic_pair": "equal"})
    assert gate.answer(tmp_path / "gate.json").splitlines() == [
        "fail: determinism_cost: <= 1: denoiser deterministic: 1.20 (95% interval 1.10 to 1.40)",
        "not comparable: deterministic_pair: equal: denoiser: there is no result to judge",
        "gate: fail",
    ]
    (tmp_path / "gate.json").write_text("{")
    assert "gate.json is corrupt" in gate.answer(tmp_path / "gate.json")


class TestFingerprint:
    @pytest.fixture
    def requirements(self, tmp_path):
        return {"fingerprint": str(tmp_path / "expected.json")}

    @pytest.fixture
    def accepted(self, tmp_path, requirements):
        """What was found has been accepted."""
        outcome(tmp_path, requirements, runs=[write_run(tmp_path)])
        assert main([str(tmp_path / "gate.json"), "--accept"]) == 0
        return requirements

    def test_before_one_was_accepted_nothing_is_comparable(self, tmp_path, requirements, capsys):
        assert outcome(tmp_path, requirements, runs=[write_run(tmp_path)]) == "not comparable"
        assert "no fingerprint has been accepted yet" in capsys.readouterr().out

    def test_it_is_accepted_beside_the_workflow_from_any_folder(self, tmp_path, monkeypatch):
        """Red before: into the caller's folder, where another project's file may lie."""
        results, caller = tmp_path / "own/results", tmp_path / "caller"
        results.mkdir(parents=True)
        caller.mkdir()
        monkeypatch.chdir(tmp_path / "own")
        requirements = {"fingerprint": "expected.json"}
        outcome(results, requirements, runs=[write_run(results)])
        monkeypatch.chdir(caller)
        assert main([str(results / "gate.json"), "--accept"]) == 0
        assert not list(caller.iterdir())
        assert (tmp_path / "own/expected.json").is_file()

    def test_the_same_weights_pass(self, tmp_path, accepted):
        assert outcome(tmp_path, accepted, runs=[write_run(tmp_path)]) == "pass"

    def test_other_weights_fail_and_what_moved_is_said(self, tmp_path, accepted, capsys):
        moved = write_run(tmp_path, weights="b" * 64, apart_from=2, losses=(0.5, 0.4, 0.25))
        assert outcome(tmp_path, accepted, runs=[moved]) == "fail"
        why = "other weights; diverged by step 2; loss 0.300 to 0.250"
        assert f"denoiser/deterministic/seed1/repeat1: {why}" in capsys.readouterr().out

    def test_a_training_that_failed_fails_though_others_pass(self, tmp_path, accepted, capsys):
        kept = write_run(tmp_path)
        failed = Path(write_run(tmp_path / "other"))
        fail(failed, "no memory")
        runs = [kept, str(failed)]
        judged = outcome(tmp_path, accepted, runs=runs, behind={"fingerprint": runs})
        assert judged == "fail"
        assert f"{failed.parent}: this training failed: no memory" in capsys.readouterr().out

    def test_the_nearest_of_the_known_environments_is_named(self, tmp_path, accepted, capsys):
        for cpu in ("Second CPU", "Third CPU"):
            elsewhere = {"cpu": cpu, "torch": cpu, "python": cpu}
            outcome(tmp_path, accepted, runs=[write_run(tmp_path, **elsewhere)])
            main([str(tmp_path / "gate.json"), "--accept"])
        capsys.readouterr()
        near = {"cpu": "Third CPU", "torch": "Third CPU", "python": "3.12.1"}
        run = write_run(tmp_path, **near)
        assert outcome(tmp_path, accepted, runs=[run]) == "not comparable"
        said = "another environment: python 3.12.1, expected Third CPU\n"
        assert said in capsys.readouterr().out

    def test_a_run_that_moved_fails_though_nothing_is_expected_of_another(self, tmp_path, accepted):
        moved = write_run(tmp_path, weights="b" * 64)
        unknown = write_run(tmp_path / "other", variant="plain")
        assert outcome(tmp_path, accepted, runs=[unknown]) == "not comparable"
        for runs in ([moved, unknown], [unknown, moved]):
            assert outcome(tmp_path, accepted, runs=runs) == "fail"

    @pytest.mark.parametrize("threads", [2, 1])
    def test_an_expected_run_that_is_not_made_any_more_does_not_pass(
        self, tmp_path, accepted, threads, capsys
    ):
        entries = expected_fingerprints.read(accepted["fingerprint"])
        runs = entries[0]["runs"]
        gone = {"shapes/deterministic/seed1/repeat1": next(iter(runs.values()))}
        if threads == 2:
            runs |= gone
        else:
            entries.append(
                {"environment": entries[0]["environment"] | {"threads": 1}, "runs": gone}
            )
        expected_fingerprints.write(accepted["fingerprint"], entries)
        assert outcome(tmp_path, accepted, runs=[write_run(tmp_path)]) == "not comparable"
        said = "shapes/deterministic/seed1/repeat1 is expected and not among the runs: take out of"
        assert said in capsys.readouterr().out

    def test_what_is_expected_elsewhere_is_not_asked_for_here(self, tmp_path, accepted):
        entries = expected_fingerprints.read(accepted["fingerprint"])
        runs = {"shapes/plain/seed1/repeat1": next(iter(entries[0]["runs"].values()))}
        entries.append({"environment": entries[0]["environment"] | {"cpu": "B"}, "runs": runs})
        expected_fingerprints.write(accepted["fingerprint"], entries)
        assert outcome(tmp_path, accepted, runs=[write_run(tmp_path)]) == "pass"

    def test_a_run_that_left_no_weights_does_not_pass(self, tmp_path, requirements, capsys):
        """Red before: the empty file of weights was the expected one, whatever was trained."""
        runs = [write_run(tmp_path, of_manifest={"tensors": []})]
        outcome(tmp_path, requirements, runs=runs)
        main([str(tmp_path / "gate.json"), "--accept"])
        assert outcome(tmp_path, requirements, runs=runs) == "not comparable"
        assert "trained was kept to be compared" in capsys.readouterr().out

    def test_no_run_is_nothing_to_judge(self, tmp_path, accepted):
        """Red at b8e0cc1: pass, "0 runs end in the expected weights"."""
        assert outcome(tmp_path, accepted, runs=[]) == "not comparable"

    def test_a_metric_that_moved_is_written_with_the_digits_that_moved(self):
        old = {"weights": "a", "parameters": {}, "steps": 3, "loss": math.nan, "metrics": {}}
        new = old | {"weights": "b", "metrics": {"acc": 0.30001}}
        moved = movements(old | {"metrics": {"acc": 0.3}}, new)
        assert list(moved) == ["other weights", "acc 0.30000 to 0.30001"]

    @pytest.mark.parametrize("other", [{"torch": "2.14.0"}, {"cpu": "Another CPU"}])
    def test_another_environment_is_not_comparable_even_if_weights_are_other(
        self, tmp_path, accepted, other, capsys
    ):
        run = write_run(tmp_path, weights="b" * 64, **other)
        assert outcome(tmp_path, accepted, runs=[run]) == "not comparable"
        ((key, value),) = other.items()
        said = f"another environment: {key} {value}, expected {IDENTITY[key]}"
        assert said in capsys.readouterr().out

    def test_accepting_shows_what_moved_and_keeps_other_environments(
        self, tmp_path, accepted, capsys
    ):
        elsewhere = write_run(tmp_path, torch="2.14.0")
        outcome(tmp_path, accepted, runs=[elsewhere])
        main([str(tmp_path / "gate.json"), "--accept"])
        assert "repeat1: new in this environment" in capsys.readouterr().out
        moved = write_run(tmp_path, weights="b" * 64)
        outcome(tmp_path, accepted, runs=[moved])
        capsys.readouterr()
        main([str(tmp_path / "gate.json"), "--accept"])
        shown = capsys.readouterr().out.splitlines()
        assert shown[0] == "denoiser/deterministic/seed1/repeat1: other weights"
        assert len(artifacts.read_json(accepted["fingerprint"])) == 2
        assert outcome(tmp_path, accepted, runs=[moved]) == "pass"

    def test_a_file_that_was_edited_since_counts_as_it_is(self, tmp_path, accepted, capsys):
        """Red before: the second command passed by the file as it had been; another commit's."""
        gate, file = str(tmp_path / "gate.json"), accepted["fingerprint"]
        assert outcome(tmp_path, accepted, runs=[write_run(tmp_path)]) == "pass"
        entries = expected_fingerprints.read(file)
        (name,) = entries[0]["runs"]
        entries[0]["runs"][name]["weights"] = "b" * 64
        expected_fingerprints.write(file, entries)
        assert main([gate]) == EXIT_CODES["fail"]
        assert main([gate, "--accept"]) == 0
        assert main([gate]) == EXIT_CODES["pass"]
        Path(file).unlink()
        assert main([gate]) == EXIT_CODES["not comparable"]
        Path(file).write_text("{")
        assert main([gate]) == EXIT_CODES["error"]
        assert "is no file of expected fingerprints" in capsys.readouterr().err

    def test_a_file_that_cannot_be_written_is_said_in_a_sentence(
        self, tmp_path, accepted, capsys, monkeypatch
    ):
        def refuse(path, _):
            raise OSError(errno.EROFS, "Read-only file system", str(path))

        outcome(tmp_path, accepted, runs=[write_run(tmp_path)])
        monkeypatch.setattr(expected_fingerprints, "write", refuse)
        assert main([str(tmp_path / "gate.json"), "--accept"]) == EXIT_CODES["error"]
        said = capsys.readouterr().err
        assert said == f"error: Read-only file system: {accepted['fingerprint']}\n"

    def test_accepting_one_run_keeps_what_is_expected_of_another(self, tmp_path, accepted):
        """A config that names one variant today must not forget what is known of the others."""
        other = write_run(tmp_path / "other", weights="c" * 64, variant="plain")
        outcome(tmp_path, accepted, runs=[other])
        assert main([str(tmp_path / "gate.json"), "--accept"]) == 0
        both = [write_run(tmp_path), other]
        assert outcome(tmp_path, accepted, runs=both) == "pass"
        (entry,) = expected_fingerprints.read(accepted["fingerprint"])
        assert sorted(entry["runs"]) == [
            "denoiser/deterministic/seed1/repeat1",
            "denoiser/plain/seed1/repeat1",
        ]

    def test_an_upgrade_of_what_does_not_compute_is_the_same_environment(self, tmp_path, accepted):
        run = write_run(tmp_path, distributions="f" * 64)
        assert outcome(tmp_path, accepted, runs=[run]) == "pass"
        assert main([str(tmp_path / "gate.json"), "--accept"]) == 0
        assert len(expected_fingerprints.read(accepted["fingerprint"])) == 1

    @pytest.mark.parametrize(
        ("steps", "kept"), [(3, "1 2 3"), (4, "1 2 4"), (1, "1"), (6, "1 2 4 6")]
    )
    def test_steps_of_a_power_of_two_and_the_last_one_have_a_fingerprint(
        self, tmp_path, steps, kept
    ):
        (entry,) = expected_fingerprints.observed([write_run(tmp_path, steps=steps)])
        (found,) = entry["runs"].values()
        assert list(found["parameters"]) == kept.split()
        assert found["parameters"][str(steps)] == f"{steps:016x}"

    @pytest.mark.parametrize("turn", [1, -1])
    def test_two_entries_of_one_environment_are_one_or_an_error(self, tmp_path, accepted, turn):
        """Red at b3a03f7a: the first one counted, so that the gate passed by their order."""
        (entry,) = artifacts.read_json(accepted["fingerprint"])
        other = copy.deepcopy(entry)
        (name,) = other["runs"]
        other["runs"][name.replace("seed1", "seed2")] = other["runs"][name]
        artifacts.write_json(accepted["fingerprint"], [entry, other][::turn])
        (joined,) = expected_fingerprints.read(accepted["fingerprint"])
        assert joined["runs"].keys() == other["runs"].keys()
        other["runs"][name] = {**entry["runs"][name], "weights": "f" * 64}
        artifacts.write_json(accepted["fingerprint"], [entry, other][::turn])
        with pytest.raises(TwinrunError, match=f"expects two ends of {name} in one environment"):
            outcome(tmp_path, accepted, runs=[write_run(tmp_path)])

    def test_a_file_of_something_else_is_an_error(self, tmp_path, requirements):
        """Red at d1d6c4df: it was to be deleted, with what other machines have."""
        for text in ("", "{", "<<<<<<< HEAD\n[]", "[1]", '[{"runs": {"a": {}}}]'):
            Path(requirements["fingerprint"]).write_text(text)
            with pytest.raises(TwinrunError, match="is no file of expected fingerprints") as found:
                outcome(tmp_path, requirements, runs=[write_run(tmp_path)])
            assert "made again" not in str(found.value)
            assert "take it back from where it was whole" in str(found.value)

    def test_without_a_file_in_the_config_there_is_nothing_to_accept(self, tmp_path, capsys):
        outcome(tmp_path, {"matrix": ["repeat"]})
        assert main([str(tmp_path / "gate.json"), "--accept"]) == EXIT_CODES["error"]
        assert "names no file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("requirements", "message"),
    [
        ({"deterministic_pairs": "equal"}, "unknown key, did you mean deterministic_pair?"),
        ({"determinism_costs": "equal"}, "unknown key, did you mean determinism_cost?"),
        ({"deterministic_pair": "same"}, "'same' is not one of equal, differs"),
        ({"determinism_cost": 1.25}, "1.25 is not a limit such as '<= 1.25'"),
        ({"determinism_cost": "1.25"}, "'1.25' is not a limit such as '<= 1.25'"),
        ({"matrix": ["repeat"]}, "require.matrix: needs the study matrix, add it to studies"),
        ({"matrx": ["repeat"]}, "require.matrx: unknown key, did you mean matrix?"),
        # Red at b3a03f7a: unknown key, did you mean determinism_cost?
        ({"fastest_pair": "equal"}, "reproducibility.variants has no fastest; known: "),
    ],
)
def test_requirements_are_checked_with_the_config(requirements, message):
    config = copy.deepcopy(CONFIG) | {"studies": ["reproducibility"], "require": requirements}
    with pytest.raises(TwinrunError) as raised:
        resolve(config, SCHEMA, gpus=0)
    assert message in str(raised.value)


def test_a_required_cell_must_exist():
    config = copy.deepcopy(CONFIG)
    config |= {"studies": ["matrix"], "require": {"matrix": ["repeet"]}}
    with pytest.raises(TwinrunError, match=r"no cell is called 'repeet', did you mean repeat\?"):
        resolve(config, SCHEMA, gpus=0)


def test_mistakes_of_what_is_required_are_told_at_once():
    """Red before: the schema's alone; the others were met once that was right."""
    require = {"deterministic_pairs": "equal", "determinism_cost": 1.25, "matrix": ["repeat"]}
    config = copy.deepcopy(CONFIG) | {"studies": ["reproducibility"], "require": require}
    with pytest.raises(TwinrunError) as raised:
        resolve(config, SCHEMA, gpus=0)
    assert "require.determinism_cost: 1.25 is not a limit" in str(raised.value)
    assert "require.deterministic_pairs: unknown key" in str(raised.value)
    assert "require.matrix: needs the study matrix" in str(raised.value)


@pytest.mark.parametrize("file", ["timing.json", "timing.csv"])
def test_a_timing_that_was_altered_does_not_pass_when_judged_again(tmp_path, capsys, file):
    """Red before: judged as it was found, a ratio that no round gives passed."""
    judge(tmp_path, {"determinism_cost": "<= 1.25"})
    altered = (tmp_path / file).read_text().replace("1.2", "1.3")
    judge(tmp_path, {"determinism_cost": "<= 1.5"})  # writes both anew
    (tmp_path / file).write_text(altered)
    gate_file = read_outcome(tmp_path / "gate.json")
    judged = hashes_of([tmp_path / "timing.json"])
    write_outcome(tmp_path / "gate.json", {**gate_file, "judged": judged})
    assert main([str(tmp_path / "gate.json")]) == EXIT_CODES["not comparable"]
    assert "of whose rounds it is, has changed" in capsys.readouterr().out


def test_a_ratio_that_was_taken_out_of_a_timing_does_not_pass(tmp_path, capsys):
    """Red before: what the rounds say besides was not asked."""
    judge(tmp_path, {"determinism_cost": "<= 1.25"})
    timing = summary.read(tmp_path / "timing.json")
    summary.write(tmp_path / "timing.json", {**timing, "ratios": timing["ratios"][1:]})
    gate_file = read_outcome(tmp_path / "gate.json")
    judged = hashes_of([tmp_path / "timing.json"])
    write_outcome(tmp_path / "gate.json", {**gate_file, "judged": judged})
    assert main([str(tmp_path / "gate.json")]) == EXIT_CODES["not comparable"]
    assert "of whose rounds it is, has changed" in capsys.readouterr().out


@pytest.mark.parametrize("is_missing", [False, True])
def test_a_table_of_verdicts_that_is_not_that_of_its_studies_does_not_pass(
    tmp_path, monkeypatch, capsys, is_missing
):
    """Red before: an altered answer of the joined table passed, if its study's was deleted, too."""
    (tmp_path / "comparisons").mkdir()
    (tmp_path / "comparisons/x.json").touch()
    write_tables(tmp_path / "comparisons/x.json")
    assert outcome(tmp_path, {"deterministic_pair": "equal"}, rows=[verdict("equal")]) == "pass"
    file = tmp_path / "verdicts/reproducibility.csv"
    file.unlink()
    # Red before: named where the gate judged again, and passed where it did not.
    monkeypatch.setattr("twinrun.gate.gate.stale_reasons", lambda *_: [])
    assert main([str(tmp_path / "gate.json")]) == EXIT_CODES["not comparable"]
    assert "verdicts/reproducibility.csv changed since" in capsys.readouterr().out
    found = {"rows": [verdict("differs")], "studies": [] if is_missing else [verdict("equal")]}
    assert outcome(tmp_path, {"deterministic_pair": "differs"}, **found) == "not comparable"
    said = f"{file} is missing" if is_missing else f"does not say what {file} says"
    assert said in capsys.readouterr().out
