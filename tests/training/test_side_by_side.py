"""Trainings side by side in one working directory are given nothing of each other.

Red before: the best weights of one run, in a file of a fixed name, were those that another one was
tested with, and nothing said so.
"""

import fcntl
import json
import os
import re
import subprocess
import sys
import threading
import time
from contextlib import nullcontext
from pathlib import Path

import best_in_a_file
import pytest
from example_trainings import HERE, VARIANT, WORKLOAD, arguments
from msgspec import convert

from twinrun import artifacts, run_files
from twinrun.config.definitions import Run
from twinrun.errors import JobError, TwinrunError
from twinrun.process.shared_files import WHO
from twinrun.process.side_by_side import FOLDER, Neighbours, keep_alone, side_by_side
from twinrun.process.side_by_side import is_alone as is_kept_alone
from twinrun.training import run as module_of_run
from twinrun.training.run import _began, _note

pytestmark = pytest.mark.slow

JOB = """
import json, sys
from msgspec import convert
from twinrun.config.definitions import Run
from twinrun.training.failed_run import failure_kept
from twinrun.training.run import run
asked = convert(json.loads(sys.argv[1])["run"], Run)
with failure_kept(asked):
    run(asked, {})
"""


def trained(folder, module, *, locks=True, at_once=True):
    """Train two seeds, at the same time or in turn; return manifests and what was said."""
    workload = {**WORKLOAD, "module": f"best_in_a_file:{module}", "epochs": 2}
    (folder / ".snakemake").mkdir()
    if not locks:  # as on a file system that has none
        (folder / ".snakemake/twinrun/trainings.lock").mkdir(parents=True)
    environment = {
        **os.environ,
        "PYTHONPATH": HERE,
        best_in_a_file.OTHERS: "2",
    }
    asked = [
        arguments(folder / str(seed), workload, {**VARIANT, "threads": 1}, seed=seed)
        for seed in (1, 2)
    ]
    jobs = []
    for each in asked:
        command = [sys.executable, "-c", JOB, json.dumps(each)]
        output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        jobs.append(subprocess.Popen(command, cwd=folder, env=environment, **output))
        if not at_once:
            jobs[-1].wait()
    said = [job.communicate()[0] for job in jobs]
    assert [job.returncode for job in jobs] == [0, 0], said
    found = [run_files.read_ended(each["run"]["files"]["manifest"]) for each in asked]
    return found, "\n".join(said)


@pytest.mark.parametrize(
    "module", ["KeepsBest", pytest.param("BreaksOff", marks=pytest.mark.exhaustive)]
)
def test_one_that_was_given_anothers_file_is_trained_again_alone(tmp_path, module):
    found, said = trained(tmp_path, module)
    assert [run["metrics"]["other_tensors"] for run in found] == [0, 0]
    assert [run["no_result"] for run in found] == [None, None]
    assert "it has used best.pt, which another training wrote or removed meanwhile" in said
    assert "it is trained again, alone, and small is so from now on" in said
    assert (tmp_path / FOLDER / "alone").read_text() == "small\n"


@pytest.mark.exhaustive
def test_what_a_later_worker_holds_is_looked_at(tmp_path, monkeypatch, capfd):
    """Red at 11f271a7: the first worker's process alone looked at what it held, as it ended."""
    monkeypatch.chdir(tmp_path)
    Path("shared.txt").touch()
    Path(".snakemake").mkdir()
    workload = {**WORKLOAD, "module": "best_in_a_file:SecondWorkerHolds", "epochs": 1}
    given = arguments(tmp_path / "run", workload, {**VARIANT, "threads": 1, "devices": 2})
    module_of_run.run(convert(given["run"], Run), {})
    assert "it has used shared.txt, which another training wrote" in capfd.readouterr().err


@pytest.mark.exhaustive
def test_where_nobody_can_be_kept_alone_it_is_no_result(tmp_path):
    found, said = trained(tmp_path, "KeepsBest", locks=False)
    assert "it is trained again" in said
    for run in found:
        others = run["metrics"]["other_tensors"] != 0
        assert not others or "it has used best.pt, which another" in run["no_result"]


@pytest.mark.exhaustive
def test_one_that_keeps_its_files_to_itself_is_not_disturbed(tmp_path):
    found, said = trained(tmp_path, "KeepsApart")
    assert [run["metrics"]["other_tensors"] for run in found] == [0, 0]
    assert "again" not in said
    assert not (tmp_path / FOLDER / "alone").exists()


@pytest.mark.exhaustive
def test_what_an_earlier_one_has_left_is_named(tmp_path):
    """Red before: weights of another training were said to be drawn without the seed."""
    (first, second), said = trained(tmp_path, "Continues", at_once=False)
    assert first["found_files"] == {"changed": [], "kept": []}
    assert second["found_files"] == {"changed": ["last.pt"], "kept": []}
    assert "again" not in said


def test_one_that_begins_anew_is_given_an_empty_folder(tmp_path):
    """Red before: a file of an attempt that was killed before its first checkpoint lay there."""
    asked = convert(arguments(tmp_path / "run", WORKLOAD, VARIANT)["run"], Run)
    left = Path(asked.checkpoints, "root/best.pt")
    left.parent.mkdir(parents=True)
    left.touch()
    assert _began(asked) is None
    assert not left.exists()
    left.parent.mkdir()
    left.touch()
    Path(asked.checkpoints, ".epoch1.7.ckpt").touch()  # which it was killed in writing
    _note(asked, 7)
    assert _began(asked) is None
    left.parent.mkdir()
    left.touch()
    Path(asked.checkpoints, "epoch1.ckpt").touch()
    assert _began(asked) == 7
    assert left.exists()
    Path(asked.checkpoints, "began").write_text("x")
    assert _began(asked) == 0


def test_one_that_is_alone_and_goes_on_behind_others_is_trained_from_the_beginning(
    tmp_path, monkeypatch
):
    """Red before: it had no result, for good, though nobody was trained beside it."""
    monkeypatch.chdir(tmp_path)
    asked = convert(arguments(tmp_path / "run", WORKLOAD, VARIANT)["run"], Run)
    FOLDER.mkdir(parents=True)
    keep_alone(asked.identity.workload)
    with side_by_side(asked.identity.label, alone=True) as first:
        _note(asked, first.since)
    checkpoint = Path(asked.checkpoints, "epoch1.ckpt")
    checkpoint.touch()
    trained = []

    def is_disturbed_once(*_):
        trained.append(checkpoint.exists())
        if checkpoint.exists():  # what another has written between the attempts
            line = f"{first.who}\tdisturbed\t{time.time_ns()}\t{tmp_path / 'best.pt'}\n"
            with first.log.open("a") as log:
                log.write(line)

    monkeypatch.setattr(module_of_run, "_run", is_disturbed_once)
    module_of_run.run(asked, {})
    assert trained == [True, False]


def test_it_begins_when_it_need_not_wait_any_longer(tmp_path, monkeypatch):
    """Red before: what others wrote while it waited to be alone was said to disturb it."""
    monkeypatch.chdir(tmp_path)
    asked = convert(arguments(tmp_path / "run", WORKLOAD, VARIANT)["run"], Run)
    noted = []
    note = lambda *_: noted.append(int(Path(asked.checkpoints, "began").read_text()))  # noqa: E731
    monkeypatch.setattr(module_of_run, "_run", note)
    FOLDER.mkdir(parents=True)
    keep_alone(asked.identity.workload)
    with (FOLDER / "trainings.lock").open("w") as another:
        fcntl.flock(another, fcntl.LOCK_SH)
        waiting = threading.Thread(target=module_of_run.run, args=(asked, {}))
        waiting.start()
        time.sleep(0.3)
        ended = time.time_ns()
    waiting.join()
    assert noted[0] > ended


@pytest.mark.parametrize("is_alone", [False, True])
def test_one_that_was_disturbed_and_killed_is_not_resumed(tmp_path, monkeypatch, is_alone):
    """Red before: it was resumed behind what it had read, and nothing was said of that."""
    monkeypatch.chdir(tmp_path)
    asked = convert(arguments(tmp_path / "run", WORKLOAD, VARIANT)["run"], Run)
    if is_alone:
        FOLDER.mkdir(parents=True)
        keep_alone(asked.identity.workload)
    artifacts.write_text(Path(asked.checkpoints, "began"), str(time.time_ns()))
    with side_by_side(asked.identity.label, alone=False) as neighbours:
        line = f"{neighbours.who}\tdisturbed\t{time.time_ns()}\t{tmp_path / 'best.pt'}\n"
        neighbours.log.write_text(line)
    Path(asked.checkpoints, "epoch1.ckpt").touch()
    trained = []
    found = lambda *_: trained.append(sorted(Path(asked.checkpoints).glob("*.ckpt")))  # noqa: E731
    monkeypatch.setattr(module_of_run, "_run", found)
    module_of_run.run(asked, {})
    assert trained == [[]]
    assert is_kept_alone(asked.identity.workload)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("is_error", [False, True])
def test_one_that_begins_anew_beside_others_is_trained_alone_if_they_disturb_it(
    tmp_path, monkeypatch, is_error
):
    """Red at 9f8fbdc4: one that had read what its killed attempt wrote was no result for good."""
    monkeypatch.chdir(tmp_path)
    asked = convert(arguments(tmp_path / "run", WORKLOAD, VARIANT)["run"], Run)
    artifacts.write_text(Path(asked.checkpoints, "began"), str(time.time_ns()))
    Path(asked.checkpoints, "epoch1.ckpt").touch()
    trained = []

    def reads(*_):
        trained.append(is_kept_alone(asked.identity.workload))
        entry = ("stale", "disturbed", None)[len(trained) - 1]
        log = FOLDER / "opened.log"
        if entry is not None:
            line = f"{os.environ[WHO]}\t{entry}\t{time.time_ns()}\t{tmp_path / 'last.pt'}\n"
            log.write_text((log.read_text() if log.exists() else "") + line)
            if is_error:
                raise TwinrunError("EOFError: a half-written file")

    monkeypatch.setattr(module_of_run, "_run", reads)
    module_of_run.run(asked, {})
    assert trained == [False, False, True]


def test_one_that_is_alone_and_has_no_attempt_before_it_is_trained(tmp_path, monkeypatch):
    """Red at d69d1dd6: whatever the log says ahead of it, a run was left untrained."""
    monkeypatch.chdir(tmp_path)
    asked = convert(arguments(tmp_path / "run", WORKLOAD, VARIANT)["run"], Run)
    FOLDER.mkdir(parents=True)
    keep_alone(asked.identity.workload)
    monkeypatch.setattr(Neighbours, "of_others", lambda *_: "it has used last.pt")
    trained = []
    monkeypatch.setattr(module_of_run, "_run", lambda *_: trained.append(1))
    module_of_run.run(asked, {})
    assert trained == [1]


def test_what_fails_from_the_beginning_is_raised(tmp_path, monkeypatch):
    """Red at d69d1dd6: whatever the log says of an attempt before it, the failure was lost."""
    monkeypatch.chdir(tmp_path)
    asked = convert(arguments(tmp_path / "run", WORKLOAD, VARIANT)["run"], Run)
    artifacts.write_text(Path(asked.checkpoints, "began"), str(time.time_ns()))
    Path(asked.checkpoints, "epoch1.ckpt").touch()
    monkeypatch.setattr(Neighbours, "of_attempt", lambda _: "it has read last.pt")
    trained = []

    def fails(*_):
        trained.append(1)
        raise TwinrunError("my own mistake")

    monkeypatch.setattr(module_of_run, "_run", fails)
    with pytest.raises(TwinrunError, match=r"^my own mistake$"):
        module_of_run.run(asked, {})
    assert trained == [1]


@pytest.mark.parametrize(("is_beside", "trainings"), [(True, 2), (False, 1)])
@pytest.mark.parametrize(
    "error",
    [
        TwinrunError("[Errno 17] File exists: 'folder'"),
        # Red at 11f271a7: what is mapped and is shortened meanwhile ended the workflow.
        JobError("twinrun.training.train:train was ended by SIGBUS"),
        JobError("RuntimeError: DataLoader worker (pid 7) is killed by signal: Bus error."),
    ],
)
def test_one_that_fails_by_what_others_write_is_trained_again(
    tmp_path, monkeypatch, error, is_beside, trainings
):
    """Red before: "File exists" of a folder that two trainings make counted as its own failure."""
    monkeypatch.chdir(tmp_path)
    asked = convert(arguments(tmp_path / "run", WORKLOAD, VARIANT)["run"], Run)
    trained = []

    def fails_once(*_):
        trained.append(is_kept_alone(asked.identity.workload))
        if is_beside:
            line = f"another/1\twritten\t{time.time_ns()}\t{tmp_path / 'folder'}\n"
            (FOLDER / "opened.log").write_text(line)
        if len(trained) == 1:
            raise error

    monkeypatch.setattr(module_of_run, "_run", fails_once)
    with nullcontext() if is_beside else pytest.raises(type(error), match=re.escape(str(error))):
        module_of_run.run(asked, {})
    assert trained == [False, True][:trainings]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("module", "is_stale"),
    [("CountsInFolder", True), ("KeepsBelowRoot", False), ("KeepsInFolder", False)],
)
def test_one_that_is_resumed_is_given_no_file_from_behind_its_checkpoint(
    tmp_path, module, is_stale
):
    """Red before: its folder was empty, or lacked what was written before, in silence."""
    workload = {**WORKLOAD, "module": f"goes_on_by_files:{module}", "epochs": 4}
    (tmp_path / "whole").mkdir()
    (tmp_path / "whole/killed").touch()
    environment = {**os.environ, "PYTHONPATH": HERE}

    def trained_in(folder, name):
        asked = arguments(folder / name, workload, {**VARIANT, "threads": 1}, minutes=0)
        command = [sys.executable, "-c", JOB, json.dumps(asked)]
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        return asked["run"]["files"]["manifest"], done

    whole, _ = trained_in(tmp_path / "whole", "run")
    (tmp_path / "killed-once").mkdir()
    _, killed = trained_in(tmp_path / "killed-once", "run")
    assert "SIGKILL" in killed.stderr
    found, done = trained_in(tmp_path / "killed-once", "run")
    assert ("it is trained from the beginning" in done.stderr) == is_stale
    metrics = [run_files.read_ended(each)["metrics"] for each in (whole, found)]
    assert metrics[0] == metrics[1]
