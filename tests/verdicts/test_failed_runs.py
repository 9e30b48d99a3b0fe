"""Failed trainings that are kept are named, with the way to have them again."""

import doctest

from example_runs import fail, write_run

from twinrun.verdicts import failed_runs


def test_examples_in_the_docstrings_hold():
    found = doctest.testmod(failed_runs)
    assert found.attempted > 0
    assert found.failed == 0


def test_failed_runs_are_told_from_others(tmp_path):
    kept, failed = write_run(tmp_path, 1), fail(write_run(tmp_path, 2), "no memory")
    missing = tmp_path / "repeat3/run.json"
    assert failed_runs.failed_runs([kept, failed, str(missing)]) == [str(failed.parent)]


def test_many_are_one_line():
    folders = [f"results/runs/mine/plain/seed1/repeat{number}" for number in range(1, 2001)]
    (line,) = failed_runs.kept_failures(folders)
    assert line.startswith(
        "2,000 trainings failed, and are kept until their code, data, settings or"
    )
    assert line.endswith(f"delete {folders[0]}), {folders[1]}, {folders[2]}, 1,997 more")
    assert failed_runs.kept_failures([]) == []
