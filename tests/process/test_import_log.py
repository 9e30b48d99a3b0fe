"""What a job imports under way is remembered beside its result, and is a part of the next plan."""

import os
from pathlib import Path

import pytest

from twinrun.process import import_log
from twinrun.process.import_log import kept, log_of, logged
from twinrun.process.launching import launch

RESULT = "results/run.json"
JOB = """
import importlib, multiprocessing, os, tempfile

def train(kind):
    if kind == "under_way":
        importlib.import_module("late")
    elif kind == "failed":
        importlib.import_module("late")
        raise ValueError("no")
    elif kind == "forked":
        context = multiprocessing.get_context("fork")
        process = context.Process(target=importlib.import_module, args=("late",))
        process.start()
        process.join()
    elif kind == "another_worker" and os.environ["RANK"] == "1":
        importlib.import_module("late")
    elif kind == "made_and_removed":
        with tempfile.TemporaryDirectory() as folder:
            made = os.path.join(folder, "made.py")
            open(made, "w").write("x = 1")
            spec = importlib.util.spec_from_file_location("made", made)
            spec.loader.exec_module(importlib.util.module_from_spec(spec))
"""


@pytest.fixture
def job(tmp_path, monkeypatch):
    """Do a job as it is planned now; return what its next plan is told."""
    (tmp_path / "job.py").write_text(JOB)
    (tmp_path / "late.py").write_text("FACTOR = 1\n")
    (tmp_path / "results").mkdir()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.chdir(tmp_path)

    def do(kind, planned="", *, goes_on=False):
        workers = 2 if kind == "another_worker" else 1
        with kept(RESULT, planned, goes_on=goes_on) as log:
            try:
                launch("job:train", {"kind": kind}, log, workers=workers)
            except Exception:  # kept as a result elsewhere
                assert kind == "failed"
        return state_of()

    return do


def state_of():
    import_log._hash_now.cache_clear()  # of each start of the workflow
    return import_log.state_of(RESULT, ["."])


@pytest.mark.parametrize("kind", ["under_way", "failed", "forked", "another_worker"])
def test_what_is_imported_under_way_counts_until_it_is_done_again(job, kind):
    assert job(kind) == ""
    Path("late.py").write_text("# another comment\nFACTOR = 1\n")
    assert state_of() == ""
    Path("late.py").write_text("FACTOR = 2\n")
    changed = state_of()
    assert changed != ""
    assert job(kind, changed) == changed
    Path("late.py").unlink()
    assert state_of() not in ("", changed)


def test_code_that_the_job_makes_and_removes_is_not_missed(job):
    assert job("made_and_removed") == ""
    assert [entry["file"] for entry in logged(RESULT).values()] == ["job.py"]


def test_what_a_resumed_job_has_imported_before_counts_too(job):
    job("under_way")
    assert job("none", goes_on=True) == ""
    assert "late.py" in [entry["file"] for entry in logged(RESULT).values()]
    job("none")
    assert "late.py" not in [entry["file"] for entry in logged(RESULT).values()]


def test_a_module_that_was_moved_is_found_by_its_name(job):
    job("under_way")
    Path("elsewhere").mkdir()
    Path("late.py").rename("elsewhere/late.py")
    import_log._hash_now.cache_clear()
    assert import_log.state_of(RESULT, ["elsewhere"]) == ""


@pytest.mark.parametrize("content", ["", "[]\n", "{\n"])
def test_a_damaged_log_says_nothing(job, content):
    log_of(RESULT).write_text(content)
    assert state_of() == ""
    assert logged(RESULT) == {}
