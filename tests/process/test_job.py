"""What surrounds a job: its log, its sentence, its exit code. Each job is a process of its own."""

import re
import subprocess
import sys
import time

import psutil
import pytest

from twinrun.errors import sentence_of

SCRIPT = """
import os, subprocess, sys
from types import SimpleNamespace
from twinrun.errors import TwinrunError
from twinrun.process.job import job, say

snakemake = SimpleNamespace(
    rule="train", wildcards={{"seed": "1"}}, log=[sys.argv[1]], threads=2
)
with job(snakemake, threads={threads}):
    {body}
print("afterwards")
"""


def run_job(tmp_path, body, threads=1):
    """Give exit code, stdout, stderr and log of a job with this body."""
    log = tmp_path / "logs/train.log"
    code = SCRIPT.format(body=body, threads=threads)
    command = [sys.executable, "-c", code, str(log)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr, log.read_text()


def test_output_of_descriptors_and_children_lands_in_the_log(tmp_path):
    body = 'print("print"); os.write(2, b"library\\n"); subprocess.run(["echo", "child"])'
    code, out, err, log = run_job(tmp_path, body)
    assert (code, out, err) == (0, "afterwards\n", "")
    assert sorted(log.split()) == ["child", "library", "print"]


def test_say_reaches_the_terminal(tmp_path):
    code, _, err, log = run_job(tmp_path, 'say("epoch 1 of 2")')
    assert (code, err, log) == (0, "epoch 1 of 2\n", "")


def test_a_failure_is_one_line_on_the_terminal_and_a_traceback_in_the_log(tmp_path):
    code, out, err, log = run_job(tmp_path, 'raise TwinrunError("seeds: -1 is out of range")')
    assert (code, out) == (1, "")
    assert err == f"train seed=1: seeds: -1 is out of range (log: {tmp_path}/logs/train.log)\n"
    assert log.startswith("Traceback")


def test_an_interruption_is_one_line_on_the_terminal(tmp_path):
    """Red before: a traceback, and no word in the log."""
    code, _, err, log = run_job(tmp_path, "raise KeyboardInterrupt")
    assert code == 1
    assert err == f"train seed=1: interrupted by SIGINT (Ctrl-C) (log: {tmp_path}/logs/train.log)\n"
    assert log.endswith("train seed=1: interrupted by SIGINT (Ctrl-C)\n")


def test_fewer_threads_than_needed_are_refused(tmp_path):
    code, _, err, _ = run_job(tmp_path, 'print("the body ran")', threads=4)
    assert code == 1
    assert "needs 4 threads but was given 2" in err


def test_a_full_disk_under_the_log_still_leaves_the_sentence(tmp_path):
    body = (
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)); "
        'raise ValueError("the cause")'
    )
    code, _, err, _ = run_job(tmp_path, body)
    assert code == 1
    assert err.startswith("train seed=1: ValueError: the cause")


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone ends a child with its parent")
def test_a_job_ends_with_a_killed_parent(tmp_path):
    body = 'os.write(1, b"%d" % os.getpid()); import time; time.sleep(60)'
    log = tmp_path / "logs/train.log"
    code = SCRIPT.format(body=body, threads=1)
    start = "import subprocess, sys; subprocess.run([sys.executable, '-c', *sys.argv[1:]])"
    with subprocess.Popen([sys.executable, "-c", start, code, str(log)]) as parent:
        while not (log.exists() and log.read_text()):
            time.sleep(0.05)
        child = psutil.Process(int(log.read_text()))
        parent.kill()
    child.wait(timeout=20)
    assert not child.is_running()


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (MemoryError("std::bad_alloc"), "out of memory (std::bad_alloc): give"),
        (
            RuntimeError("CUDA out of memory. Tried"),
            "out of memory (CUDA out of memory. Tried): use a GPU with more or make",
        ),
        (
            RuntimeError(
                "CUDA out of memory. Tried to allocate 200.00 GiB. GPU 0 has a total capacity of "
                "79.18 GiB of which 70.44 GiB is free. Process 757 has 990.00 MiB memory in use. "
                "Including non-PyTorch memory, this process has 810.00 MiB memory in use."
            ),
            "out of memory (CUDA out of memory. Tried to allocate 200.00 GiB. GPU 0 has a total "
            "capacity of 79.18 GiB of which 70.44 GiB is free): use a GPU with more",
        ),
        (
            RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"),
            "out of memory ([enforce fail]",
        ),
        (OSError(28, "No space left on device", "a.csv"), "No space left on device: a.csv"),
        (ValueError("wrong\nsecond line"), "ValueError: wrong"),
    ],
)
def test_sentences(error, sentence):
    assert sentence_of(error).startswith(sentence)


@pytest.mark.parametrize(
    "more", ["", "\n\nfrom user code:\n   File x", "\n\nSet TORCHDYNAMO_VERBOSE=1"]
)
def test_an_error_without_words_is_told_by_its_line(more):
    """Red before of lines behind it: "RuntimeError: NotImplementedError:", and no line."""
    # As torch tells of a NotImplementedError that it meets where it compiles.
    try:
        raise RuntimeError(f"NotImplementedError: {more}")
    except RuntimeError as error:
        told = sentence_of(error)
    assert re.fullmatch(r"RuntimeError: NotImplementedError \(test_job\.py, line \d+\)", told)
