"""The gate's four outcomes, by the exit code of its command, and expected fingerprints."""

import copy
from pathlib import Path

import pandas as pd
import pytest
import yaml
from example_runs import write_manifest

from twinrun import artifacts
from twinrun.config.reference import SCHEMA
from twinrun.config.settings import resolve
from twinrun.errors import TwinrunError
from twinrun.gate.gate import EXIT_CODES, main, require
from twinrun.verdicts.equality import REPEATS
from twinrun.verdicts.rows import COLUMNS

CONFIG = yaml.safe_load((Path(__file__).parents[2] / "config.yaml").read_text())
RATIO = {"variant": "deterministic", "phase": "train", "time_ratio": 1.2, "low": 1.1, "high": 1.4}
TIMING = {"workload": "denoiser", "baseline": "nondeterministic", "ratios": [RATIO]}
CELLS = [
    {"cell": "threads-1", "answer": "differs", "sentence": "threads: 1: differs from step 1."},
    {"cell": "repeat", "answer": "equal", "sentence": "repeat: every bit stays the same."},
    {"cell": "devices-2", "answer": "not run", "sentence": "devices: 2: not run, no GPU."},
]
IDENTITY = {"python": "3.11.9", "torch": "2.13.0", "cpu": "Example CPU", "cpu_capability": "AVX2"}


def verdict(answer, *, study="reproducibility", variant="deterministic", question=REPEATS):
    row = [study, "denoiser", variant, question, answer, "a figure", "comparisons/x.json"]
    return dict(zip(COLUMNS, row, strict=True))


def write_run(folder, *, weights="a" * 64, apart_from=99, losses=(0.5, 0.4, 0.3), **identity):
    """A run of three steps whose parameters are other ones from a step on."""
    path = folder / "run/run.json"
    steps = [f"{n:016x}" if n < apart_from else f"{n + 90:016x}" for n in (1, 2, 3)]
    table = pd.DataFrame({"step": [1, 2, 3], "loss": losses, "parameters": steps})
    artifacts.write_csv(path.with_name("steps.csv"), table)
    write_manifest(
        path,
        {
            "workload": "denoiser",
            "variant": "deterministic",
            "environment": {"identity": IDENTITY | identity, "context": {"host": "a"}},
            "settings": {"variant": {"threads": 2}},
            "weights_sha256": weights,
            "metrics": {"test_accuracy": 0.9},
        },
        path.with_name("steps.csv"),
    )
    return str(path)


def outcome(folder, requirements, *, rows=(), timing=TIMING, runs=()):
    """Judge and give what the command ends with."""
    artifacts.write_csv(folder / "verdicts.csv", pd.DataFrame(list(rows), columns=COLUMNS))
    artifacts.write_json(folder / "timing.json", timing)
    artifacts.write_json(folder / "matrix.json", {"workload": "denoiser", "cells": CELLS})
    require(
        requirements,
        verdicts=folder / "verdicts.csv",
        timings=[str(folder / "timing.json")],
        matrices=[str(folder / "matrix.json")],
        runs=runs,
        output=folder / "gate.json",
    )
    code = main([str(folder / "gate.json")])
    return {code: outcome for outcome, code in EXIT_CODES.items()}[code]


def test_the_exit_codes_tell_four_outcomes_apart():
    assert EXIT_CODES == {"pass": 0, "error": 1, "fail": 3, "not comparable": 4}


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
        ({"resume": "equal"}, [verdict("differs"), verdict("equal", study="resume")], "pass"),
        ({"resume": "equal"}, [verdict("differs", study="resume")], "fail"),
        ({"determinism_cost": "<= 1.25"}, [], "pass"),
        ({"determinism_cost": "<= 1.15"}, [], "fail"),
        ({"determinism_cost": "< 1.2"}, [], "fail"),
        ({"matrix": ["repeat"]}, [], "pass"),
        ({"matrix": ["repeat", "threads-1"]}, [], "fail"),
        ({"matrix": ["repeat", "devices-2"]}, [], "not comparable"),
        ({"matrix": ["devices-2"], "determinism_cost": "<= 1"}, [], "fail"),
    ],
)
def test_outcomes(tmp_path, requirements, rows, expected):
    assert outcome(tmp_path, requirements, rows=rows) == expected


def test_a_cost_that_was_not_measured_is_not_comparable(tmp_path):
    timing = TIMING | {"ratios": []}
    assert outcome(tmp_path, {"determinism_cost": "<= 9"}, timing=timing) == "not comparable"


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
        "fail: determinism_cost: <= 1: denoiser deterministic: 1.20 (1.10 to 1.40)",
        "not comparable: deterministic_pair: equal: there is no result to judge",
        "gate: fail",
    ]


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

    def test_the_same_weights_pass(self, tmp_path, accepted):
        assert outcome(tmp_path, accepted, runs=[write_run(tmp_path)]) == "pass"

    def test_other_weights_fail_and_what_moved_is_said(self, tmp_path, accepted, capsys):
        moved = write_run(tmp_path, weights="b" * 64, apart_from=2, losses=(0.5, 0.4, 0.25))
        assert outcome(tmp_path, accepted, runs=[moved]) == "fail"
        why = "other weights; apart by step 2; loss 0.300 to 0.250"
        assert f"denoiser/deterministic/seed1/repeat1: {why}" in capsys.readouterr().out

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

    def test_a_file_of_something_else_is_an_error(self, tmp_path, requirements):
        for text in ("{", "[1]", '[{"runs": {"a": {}}}]'):
            Path(requirements["fingerprint"]).write_text(text)
            with pytest.raises(TwinrunError, match="is no file of expected fingerprints"):
                outcome(tmp_path, requirements, runs=[write_run(tmp_path)])

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
        ({"determinism_cost": 1.25}, "1.25 is of the wrong type, expected string"),
        ({"determinism_cost": "1.25"}, "'1.25' is not a limit like '<= 1.25'"),
        ({"matrix": ["repeat"]}, "require.matrix: needs the study matrix, add it to studies"),
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
