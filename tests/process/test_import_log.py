"""What a job imports under way is remembered beside its result, and is a part of the next plan."""

import json
import os
from pathlib import Path

import pytest

from twinrun.process import import_log
from twinrun.process.import_log import kept, lay_beside, log_of, logged
from twinrun.process.import_record import hash_of_source
from twinrun.process.launching import launch

RESULT = "results/run.json"
SHA256 = hash_of_source("a.py", b"x = 1\n")
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
    elif kind == "while_others_come":
        importlib.import_module("late")
        open("plugin.py", "w").write("x = 1")
        open("written.py", "w").write("x = 1")
        importlib.import_module("written")
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


def state_of(folder="."):
    for cached in (import_log._file_now, import_log._hash_now, import_log._modules_now):
        cached.cache_clear()  # of each start of the workflow
    return import_log.state_of(RESULT, [folder])


@pytest.mark.one_in(2)
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


def test_a_module_that_comes_to_lie_there_during_the_job_is_none_that_it_has_seen(job):
    """But for one that it has imported, and may have written."""
    added = job("while_others_come")
    assert added != ""
    assert lay_beside(RESULT) == {".": ["job.py", "late.py", "written.py"]}
    assert job("while_others_come", added) == added
    Path("plugin.py").unlink()
    assert state_of() not in ("", added)


def test_what_a_resumed_job_has_imported_before_counts_too(job):
    job("under_way")
    assert job("none", goes_on=True) == ""
    assert "late.py" in [entry["file"] for entry in logged(RESULT).values()]
    job("none")
    assert "late.py" not in [entry["file"] for entry in logged(RESULT).values()]


@pytest.fixture
def plugins(tmp_path, monkeypatch):
    """Do a job that imports a package and a module in it; return what its next plan is told."""
    monkeypatch.chdir(tmp_path)
    for name in ("results", "mine/plug"):
        Path(name).mkdir(parents=True)
    files = {"plug": "mine/plug/__init__.py", "plug.a": "mine/plug/a.py"}
    for file in files.values():
        Path(file).write_text("x = 1\n")

    def do(planned="", made=None):
        with kept(RESULT, planned), log_of(RESULT).open("a") as log:
            for name, file in [*files.items(), *([("plug.made", made)] if made else [])]:
                Path(file).write_text("x = 1\n")
                log.write(f"{json.dumps({'name': name, 'file': file, 'sha256': SHA256})}\n")
            if made:
                Path(made).unlink()
        return state_of("mine")

    return do


@pytest.mark.parametrize("file", ["mine/plug/b.py", "mine/plug/sub/c.py", "mine/other.py"])
def test_a_module_that_is_new_beside_what_was_imported_counts_until_it_is_done_again(plugins, file):
    """Red before: what a training looks for under way was looked at by no plan."""
    assert plugins() == ""
    Path("mine/plug/notes.txt").write_text("")
    Path("mine/plug/__pycache__").mkdir()
    assert state_of("mine") == ""
    Path(file).parent.mkdir(exist_ok=True)
    Path(file).write_text("x = 1\n")
    added = state_of("mine")
    assert added != ""
    assert plugins(added) == added
    Path(file).unlink()
    assert state_of("mine") not in ("", added)


@pytest.mark.parametrize("made", ["mine/plug/made.py", "mine/made.py"])
def test_a_module_that_the_job_made_and_removed_is_none_beside(plugins, made):
    assert plugins(made=made) == ""


def test_a_folder_that_was_moved_is_found_by_the_names_of_its_modules(plugins):
    plugins()
    Path("mine").rename("theirs")
    assert state_of("theirs") == ""
    Path("theirs/plug/b.py").write_text("")
    assert state_of("theirs") != ""


@pytest.mark.parametrize("content", ["", "[]\n", "{\n"])
def test_a_damaged_log_says_nothing(job, content):
    log_of(RESULT).write_text(content)
    assert state_of() == ""
    assert logged(RESULT) == {}
