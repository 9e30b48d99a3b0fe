"""Who waits for whom in one working directory."""

import errno
import os
import sqlite3
import subprocess
import sys
import time

import pytest

from twinrun.errors import TwinrunError, sentence_of
from twinrun.process import side_by_side as module
from twinrun.process.opened_entries import training_of
from twinrun.process.side_by_side import FOLDER, is_alone, keep_alone, side_by_side

# Begins a training as it is told, and ends it when its input ends.
OTHER = """
import sys
from twinrun.process.side_by_side import side_by_side
with side_by_side("other", alone=sys.argv[1] == "alone"):
    print("begun", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def another(tmp_path, monkeypatch):
    """Begin a training in another process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "MOMENT_SECONDS", 0.1)
    started = []

    def begin(how):
        process = subprocess.Popen(
            [sys.executable, "-c", OTHER, how],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            stream.close()


def test_trainings_go_side_by_side(another):
    other = another("beside")
    assert other.stdout.readline() == "begun\n"
    with side_by_side("mine", alone=False):
        assert other.poll() is None


@pytest.mark.parametrize(("first", "second"), [("alone", "beside"), ("beside", "alone")])
def test_one_is_alone_and_who_waits_is_told(another, first, second):
    one = another(first)
    assert one.stdout.readline() == "begun\n"
    two = another(second)
    assert two.stderr.readline().startswith("other: waiting for ")
    one.stdin.close()
    assert two.stdout.readline() == "begun\n"


def test_who_would_be_alone_is_not_passed_by_those_that_come_later(another):
    one = another("beside")
    assert one.stdout.readline() == "begun\n"
    two = another("alone")
    assert "to be trained alone" in two.stderr.readline()
    three = another("beside")
    assert "is, or is to be, alone" in three.stderr.readline()
    one.stdin.close()
    assert two.stdout.readline() == "begun\n"
    assert three.poll() is None
    two.stdin.close()
    assert three.stdout.readline() == "begun\n"


def test_a_killed_one_keeps_nobody_waiting(another):
    one = another("alone")
    assert one.stdout.readline() == "begun\n"
    one.kill()
    with side_by_side("mine", alone=True):
        pass


def test_a_workload_that_was_disturbed_is_known(another):
    assert not is_alone("mine")
    with side_by_side("mine", alone=False):
        keep_alone("mine")
        keep_alone("mine")
    assert is_alone("mine")
    assert not is_alone("min")
    assert (FOLDER / "alone").read_text() == "mine\n"


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE)),
        BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN)),
        sqlite3.OperationalError("database is locked"),
        FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)),
    ],
)
@pytest.mark.parametrize("is_beside", [True, False])
def test_a_port_or_a_lock_that_another_training_has_is_its_doing(another, error, is_beside):
    """Red at b3a03f7a, of a port: the run had failed for good."""
    with side_by_side("mine", alone=False) as neighbours:
        who = f"{training_of('other' if is_beside else 'mine')}/1"
        neighbours.log.write_text(f"{who}\tjoined\t{time.time_ns()}\t\n")
        said = neighbours.of_others(TwinrunError(sentence_of(error)))
    assert (said is not None) is is_beside


def test_a_folder_that_cannot_be_written_keeps_nobody(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".snakemake").touch()
    with side_by_side("mine", alone=True) as neighbours:
        assert neighbours.of_others(FileExistsError(17, "File exists")) is None
        keep_alone("mine")
    assert not is_alone("mine")
