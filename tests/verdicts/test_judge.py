"""From the files of a study to its table, and from the tables of all studies to one."""

import pytest
from example_comparisons import timed
from example_runs import example_parameters, write_run

from twinrun.comparison.compare import compare_seeds
from twinrun.timing import summary
from twinrun.verdicts.judge import collect, judge, summary_lines
from twinrun.verdicts.rows import read_rows, write_rows


@pytest.fixture
def judged(tmp_path):
    """The verdicts of two workloads, one of which differs, and a variant that cannot run."""
    results = tmp_path / "results"
    other = example_parameters()
    other["head.weight"] = other["head.weight"] * 2
    comparisons = []
    for workload, second in (("factorization", other), ("denoiser", example_parameters())):
        folder = results / f"runs/{workload}/plain/seed1"
        changes = {"workload": workload, "variant": "plain"}
        runs = [write_run(folder, 1, changes=changes)]
        runs.append(write_run(folder, 2, changes=changes, parameters=second))
        path = results / f"comparisons/reproducibility/{workload}/plain.json"
        tables = {name: path.with_suffix(f".{name}.csv") for name in ("tensors", "steps")}
        compare_seeds(runs, summary=path, **tables)
        comparisons.append(str(path))
    measured = results / "timings/determinism_denoiser.json"
    summary.write(measured, timed().found)
    output = results / "verdicts/reproducibility.csv"
    judge(
        "reproducibility",
        comparisons=comparisons,
        timings=[str(measured)],
        not_run={"on_gpu": "no GPU on this machine"},
        untimed={},
        workloads=["denoiser", "factorization"],
        output=str(output),
    )
    return output


def test_verdicts_of_a_study(judged):
    rows = read_rows(judged)
    assert {row["study"] for row in rows} == {"reproducibility"}
    assert [(row["workload"], row["variant"], row["key"], row["answer"]) for row in rows] == [
        ("denoiser", "plain", "repeats", "equal"),
        ("denoiser", "plain", "repeats_logged", "equal"),
        ("denoiser", "on_gpu", "repeats", "not run"),
        ("denoiser", "deterministic", "cost", "yes"),
        ("denoiser", "on_gpu", "cost", "not run"),
        ("factorization", "plain", "repeats", "differs"),
        ("factorization", "plain", "repeats_logged", "equal"),
        ("factorization", "on_gpu", "repeats", "not run"),
        ("factorization", "on_gpu", "cost", "not run"),
    ]


def test_evidence_is_a_file_in_the_results(judged):
    named = [row["evidence"] for row in read_rows(judged) if row["answer"] != "not run"]
    assert named
    assert [path for path in named if not (judged.parents[1] / path).is_file()] == []


def test_verdicts_of_all_studies_are_joined(judged, tmp_path):
    second = tmp_path / "second.csv"
    write_rows(second, [row | {"study": "devices"} for row in read_rows(judged)])
    joined = tmp_path / "verdicts.csv"
    collect([str(judged), str(second)], output=str(joined))
    rows = read_rows(joined)
    assert [row["study"] for row in rows] == ["reproducibility"] * 9 + ["devices"] * 9
    assert rows[:9] == read_rows(judged)


def test_a_table_without_verdicts_has_no_lines(tmp_path):
    write_rows(tmp_path / "verdicts.csv", [])
    assert summary_lines(tmp_path / "verdicts.csv") == []


def test_lines_for_the_terminal_go_by_question(judged):
    lines = summary_lines(str(judged))
    assert lines == [
        "Are all learnable parameters equal, bit for bit?",
        "  denoiser       plain          equal    0 of 36 parameters differ (2 runs, 6 steps)",
        "  denoiser       on_gpu         not run  no GPU on this machine",
        "  factorization  plain          differs  12 of 36 parameters differ by up to 3.00, "
        "at no step, so after the last one (2 runs, 6 steps)",
        "  factorization  on_gpu         not run  no GPU on this machine",
        "Are the values logged in every epoch equal, bit for bit, validation included?",
        "  denoiser       plain          equal    0 of 4 values differ",
        "  factorization  plain          equal    0 of 4 values differ",
        "Does it cost time, compared with nondeterministic?",
        "  denoiser       deterministic  yes      slower, 8% more time: 1.08 times the time a step "
        "(95% interval 1.06 to 1.10)",
        "  denoiser       on_gpu         not run  no GPU on this machine",
        "Does it cost time?",
        "  factorization  on_gpu         not run  no GPU on this machine",
    ]
