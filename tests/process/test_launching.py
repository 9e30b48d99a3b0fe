"""Fresh processes: their environment, their errors, their end."""

import errno
import inspect
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import snakemake.shell

from twinrun.errors import JobError, TwinrunError
from twinrun.process import fresh_process
from twinrun.process.fresh_process import is_lost_peer
from twinrun.process.launching import environment_of, launch
from twinrun.process.machine import ARITHMETIC


def write_environment(path, names):
    with open(path, "w") as file:  # noqa: PTH123
        file.write(repr({name: os.environ.get(name) for name in names}))


def write_hash(path):
    with open(path, "w") as file:  # noqa: PTH123
        file.write(str(hash("twinrun")))


def write_arguments(path):
    Path(path).write_text(repr(sys.argv[1:]))


def fail(kind):
    if kind == "mendable":
        raise TwinrunError("epochs: 0 is not enough, say 1 or more")
    if kind == "other":
        raise KeyError("weight")
    if kind == "full":  # and no file of this process grows any more, its log neither
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        raise OSError(errno.ENOSPC, "No space left on device", "weights")
    if kind == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "interrupted":
        # What is started in the background of a shell may ignore it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.kill(os.getpid(), signal.SIGINT)
    if kind == "ends itself":
        sys.exit(0)
    if kind == "leaves":
        os._exit(0)
    os._exit(7)


def stop_here(path):
    """End as a planned stop of a training does."""
    Path(path).write_text("stopped")
    fresh_process.leave()


def sleep(path):
    write_environment(path, ["PWD"])
    time.sleep(600)


def note_signals(path):
    """Take the first signal, as a training does that has not come to the end of its step."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: Path(path).write_text(str(number)))
    Path(path).write_text("started")
    while True:
        time.sleep(0.05)


def fail_at_signal(ends):
    """Fail where a signal comes, as a module does whose own processes were sent it, too."""

    def end(number, frame):
        if ends:
            sys.exit(1)
        raise ValueError("my helper is gone")

    signal.signal(signal.SIGTERM, end)
    os.kill(os.getppid(), signal.SIGTERM)
    while True:
        time.sleep(0.05)


def fail_in_company(folder):
    """Worker 2 of 3 fails after the others have started something that would outlive them."""
    rank = int(os.environ["RANK"])
    started = subprocess.Popen(["sleep", "600"])
    (folder := Path(folder)).joinpath(f"{rank}.pid").write_text(str(started.pid))
    while len(list(folder.glob("*.pid"))) < 3:
        time.sleep(0.05)
    if rank == 1:
        raise TwinrunError("epochs: 0 is not enough, say 1 or more")
    time.sleep(600)


def leave_company(folder):
    """Worker 2 of 2 ends as if all were well, and the other one waits for it."""
    if os.environ["RANK"] == "0":
        time.sleep(600)
    os._exit(0)


def lose_a_peer():
    """What the others say when worker 2 is killed: that they lost a connection."""
    if os.environ["RANK"] == "1":
        os.kill(os.getpid(), signal.SIGKILL)
    raise RuntimeError("[gloo/transport/tcp/pair.cc] Connection closed by peer")


def abort_after_a_peer():
    """What NCCL's watchdog does with the others when worker 2 is killed."""
    os.kill(os.getpid(), signal.SIGKILL if os.environ["RANK"] == "1" else signal.SIGABRT)


def write_place(folder):
    names = ["RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_PORT"]
    place = {name: os.environ.get(name) for name in names}
    Path(folder, os.environ["RANK"]).write_text(json.dumps(place))


@pytest.fixture(autouse=True)
def _importable(monkeypatch, request):
    monkeypatch.setenv("PYTHONPATH", str(request.path.parent), prepend=os.pathsep)


def test_environment_is_set_before_python_starts(tmp_path):
    hashes = []
    for seed in (5, 5, 6):
        file = tmp_path / "hash"
        variables = environment_of(seed=seed, deterministic=True, threads=1)
        launch("test_launching:write_hash", {"path": str(file)}, variables)
        hashes.append(file.read_text())
    assert hashes[0] == hashes[1] != hashes[2]


def test_what_is_called_finds_an_empty_command_line(tmp_path):
    """Red before: a module that parses one when it is imported met the function's name."""
    launch("test_launching:write_arguments", {"path": str(tmp_path / "arguments")}, {})
    assert (tmp_path / "arguments").read_text() == "[]"


@pytest.mark.parametrize(("deterministic", "expected"), [(True, ":4096:8"), (False, ":16:8")])
def test_cublas_is_configured_by_a_deterministic_variant_else_inherited(
    tmp_path, monkeypatch, deterministic, expected
):
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")
    names = ["CUBLAS_WORKSPACE_CONFIG", "OMP_NUM_THREADS", "MKL_NUM_THREADS"]
    arguments = {"path": str(tmp_path / "environment"), "names": names}
    variables = environment_of(seed=1, deterministic=deterministic, threads=3)
    launch("test_launching:write_environment", arguments, variables)
    assert (tmp_path / "environment").read_text() == repr(
        dict(zip(names, [expected, "3", "3"], strict=True))
    )


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("mendable", r"^epochs: 0 is not enough, say 1 or more$"),
        ("other", r"^KeyError: 'weight'$"),
        ("full", r"^No space left on device: weights$"),
        ("killed", r"was ended by SIGKILL, as the system does when memory runs out$"),
        ("exit", r"ended with exit code 7$"),
        # Red before: "ended with exit code 1", below a traceback.
        ("interrupted", r"^interrupted by SIGINT \(Ctrl-C\)$"),
        # Red before: taken for the end of what was called.
        ("leaves", r"ended with exit code 0 before it was done"),
        ("ends itself", r"^the code ends the program \(sys.exit\(0\)\)$"),
    ],
)
def test_failures_are_one_sentence(kind, sentence):
    with pytest.raises(TwinrunError, match=sentence):
        launch("test_launching:fail", {"kind": kind}, {})


def test_a_planned_stop_is_no_failure(tmp_path):
    """Red before: "ended with exit code 0 before it was done (os._exit?)"."""
    launch("test_launching:stop_here", {"path": str(tmp_path / "it")}, {})
    assert (tmp_path / "it").read_text() == "stopped"


@pytest.mark.parametrize(
    ("ends", "sentence"),
    [
        (False, r"^ValueError: my helper is gone \(after SIGTERM, which ends a job\)$"),
        (
            True,
            r"^the code ends the program \(sys.exit\(1\)\) \(after SIGTERM, which ends a job\)$",
        ),
    ],
)
def test_what_fails_behind_a_signal_says_nothing_of_what_was_called(ends, sentence):
    """Red before: it was kept, for good, as what a training or the replay of a step had come to."""
    with pytest.raises(JobError, match=sentence):
        launch("test_launching:fail_at_signal", {"ends": ends}, {})


def test_workers_know_their_place(tmp_path, monkeypatch):
    monkeypatch.setenv("MASTER_PORT", "1")
    launch("test_launching:write_place", {"folder": str(tmp_path)}, {}, workers=3)
    places = [json.loads(file.read_text()) for file in sorted(tmp_path.iterdir())]
    assert places == [
        {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": "3", "MASTER_PORT": None}
        for rank in ("0", "1", "2")
    ]


def test_one_failure_ends_all_workers_and_what_they_started(tmp_path):
    with pytest.raises(TwinrunError, match=r"^epochs: 0 is not enough, say 1 or more$"):
        launch("test_launching:fail_in_company", {"folder": str(tmp_path)}, {}, workers=3)
    pids = [int(file.read_text()) for file in tmp_path.glob("*.pid")]
    assert len(pids) == 3
    deadline = time.monotonic() + 60
    while any(is_alive(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(is_alive(pid) for pid in pids)
    assert not psutil.Process().children()


def is_alive(pid):
    """Orphans that no init reaps stay as zombies; they do nothing any more."""
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_the_cause_is_told_and_not_what_it_led_to():
    with pytest.raises(TwinrunError, match=r"worker 2 of 3 .* was ended by SIGKILL"):
        launch("test_launching:lose_a_peer", {}, {}, workers=3)
    with pytest.raises(TwinrunError, match=r"worker 2 of 3 .* was ended by SIGKILL"):
        launch("test_launching:abort_after_a_peer", {}, {}, workers=3)


# As torch 2.13 and NCCL 2.27 write them.
NCCL = "NCCL error in: ProcessGroupNCCL.cpp:3690, "


@pytest.mark.parametrize(
    ("text", "is_lost"),
    [
        (f"{NCCL}remote process exited or there was a network error, NCCL version 2.27", True),
        (
            f"{NCCL}unhandled system error (run with NCCL_DEBUG=INFO for details)\nncclSystemError",
            True,
        ),
        ("[Rank 1] NCCL communicator was aborted on rank 1.", True),
        ("[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7)", True),
        ("[gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.1.1]:4242", True),
        ("Broken pipe", True),
        (
            f"{NCCL}invalid usage\nncclInvalidUsage: Duplicate GPU detected : rank 1 and rank 0",
            False,
        ),
        (f"{NCCL}unhandled cuda error (run with NCCL_DEBUG=INFO for details)", False),
        ("CUDA error: an illegal memory access was encountered", False),
        ("mat1 and mat2 shapes cannot be multiplied (8x3 and 4x1)", False),
    ],
)
def test_a_lost_peer_is_told_from_a_fault_of_ones_own(text, is_lost):
    assert is_lost_peer(RuntimeError(text)) == is_lost
    assert not is_lost_peer(ValueError(text))


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux's")
def test_the_process_dies_with_its_parent(tmp_path):
    file = tmp_path / "started"
    code = (
        "from twinrun.process.launching import launch;"
        f"launch('test_launching:sleep', {{'path': {str(file)!r}}}, {{}})"
    )
    parent = subprocess.Popen([sys.executable, "-c", code])
    deadline = time.monotonic() + 60
    while not file.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    (child,) = psutil.Process(parent.pid).children()
    parent.kill()
    parent.wait()
    # Bound: the kernel sends the signal at once; a minute only guards against a loaded machine.
    psutil.wait_procs([child], timeout=60)
    assert not child.is_running()


def wait_for(condition):
    """Bound: a minute only guards against a loaded machine."""
    deadline = time.monotonic() + 60
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert condition()


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
def test_a_first_signal_is_passed_on_and_a_second_one_of_either_kind_ends(tmp_path, first, second):
    file = tmp_path / "heard"
    code = (
        "from twinrun.process.launching import launch;"
        f"launch('test_launching:note_signals', {{'path': {str(file)!r}}}, {{}})"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code],
    )
    try:
        wait_for(lambda: file.exists() and file.read_text() == "started")
        (child,) = psutil.Process(parent.pid).children()
        parent.send_signal(first)
        wait_for(lambda: file.read_text() == str(int(first)))
        assert child.is_running()
        parent.send_signal(second)
        wait_for(lambda: parent.poll() is not None)
        assert not is_alive(child.pid)
    finally:
        parent.kill()
        parent.wait()


@pytest.mark.parametrize(("nodes", "found"), [(1, "2"), (2, None), (3, "2")])
def test_workers_on_other_machines_than_asked_for_are_refused(monkeypatch, nodes, found):
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    monkeypatch.delenv("SLURM_JOB_NUM_NODES", raising=False)
    if found is not None:
        monkeypatch.setenv("SLURM_JOB_ID", "7")
        monkeypatch.setenv("SLURM_JOB_NUM_NODES", found)
    sentence = f"nodes: the variant wants {nodes}, but this job has {found or 1}"
    with pytest.raises(TwinrunError, match=sentence):
        launch("test_launching:write_place", {}, {}, workers=6, nodes=nodes)


@pytest.mark.parametrize("deterministic", [True, False])
def test_what_is_asked_for_further_goes_before_what_a_variant_sets(deterministic):
    ours = environment_of(seed=1, deterministic=deterministic, threads=3)
    for name in ours:
        further = {name: "other", "MINE": "1"}
        found = environment_of(seed=1, deterministic=deterministic, threads=3, further=further)
        assert found == ours | further


def test_what_snakemake_sets_by_a_jobs_threads_is_the_variants():
    """Red before: each change of `threads` was called another machine, and the gate stale."""
    source = inspect.getsource(snakemake.shell)
    set_by_jobs = re.findall(r'envvars\["(\w+_THREADS)"\] = threads', source)
    counting = {name for name in set_by_jobs if name.startswith(ARITHMETIC)}
    assert {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"} <= counting
    found = environment_of(seed=1, deterministic=False, threads=3)
    assert dict.fromkeys(counting, "3") == found


def test_a_worker_that_leaves_ends_the_others():
    """Red before: the other one waited, for what a backend allows."""
    with pytest.raises(JobError, match=r"worker 2 of 2 .* ended with exit code 0 before it was"):
        launch("test_launching:leave_company", {"folder": ""}, {}, workers=2)
