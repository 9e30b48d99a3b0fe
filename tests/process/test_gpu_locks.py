"""Jobs never share a GPU unless told to, and a killed one leaves its GPU free."""

import os
import subprocess
import sys
import tempfile

import pytest

from twinrun.process import gpu_locks
from twinrun.process.gpu_locks import own_gpus

HOLD = """
import sys, time
from twinrun.process import gpu_locks
gpu_locks.visible_gpus = lambda: ["GPU-a", "GPU-b"]
with gpu_locks.own_gpus(1) as visible:
    print(visible["CUDA_VISIBLE_DEVICES"], flush=True)
    time.sleep(600)
"""


@pytest.fixture
def two_gpus(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(gpu_locks, "visible_gpus", lambda: ["GPU-a", "GPU-b"])


def taken(number):
    with own_gpus(number) as visible:
        return visible


def test_jobs_side_by_side_have_different_gpus(two_gpus):
    with own_gpus(1) as first, own_gpus(1) as second:
        assert first == {"CUDA_VISIBLE_DEVICES": "GPU-a"}
        assert second == {"CUDA_VISIBLE_DEVICES": "GPU-b"}
    assert taken(2) == {"CUDA_VISIBLE_DEVICES": "GPU-a,GPU-b"}


def test_a_job_waits_until_enough_are_free(two_gpus, monkeypatch):
    with own_gpus(1) as first:
        waited = []

        def wait(seconds):
            waited.append(seconds)
            held.close()

        held = gpu_locks._lock(1, ["GPU-b"])["GPU-b"]
        monkeypatch.setattr(gpu_locks.time, "sleep", wait)
        with own_gpus(1) as second:
            assert (first, second) == (
                {"CUDA_VISIBLE_DEVICES": "GPU-a"},
                {"CUDA_VISIBLE_DEVICES": "GPU-b"},
            )
        assert len(waited) == 1
        # One is free, two are wanted: the free one is not kept from others meanwhile.
        assert gpu_locks._lock(2, ["GPU-a", "GPU-b"]) is None
        assert taken(1) == second


def test_jobs_share_when_told_to_the_least_used_first(two_gpus, monkeypatch):
    monkeypatch.setenv("TWINRUN_JOBS_PER_GPU", "2")
    with own_gpus(1) as a, own_gpus(1) as b, own_gpus(1) as c, own_gpus(1) as d:
        found = [visible["CUDA_VISIBLE_DEVICES"] for visible in (a, b, c, d)]
    assert found == ["GPU-a", "GPU-b", "GPU-a", "GPU-b"]


@pytest.mark.parametrize("number", [0, 3])
def test_nothing_is_taken_where_nothing_is_wanted_or_there_are_too_few(two_gpus, number):
    assert taken(number) == {}


def test_a_killed_job_leaves_its_gpu_free(two_gpus):
    job = subprocess.Popen(
        [sys.executable, "-c", HOLD], stdout=subprocess.PIPE, text=True, env=os.environ
    )
    try:
        assert job.stdout.readline().strip() == "GPU-a"
        assert taken(1) == {"CUDA_VISIBLE_DEVICES": "GPU-b"}
    finally:
        job.kill()
        job.wait()
        job.stdout.close()
    assert taken(1) == {"CUDA_VISIBLE_DEVICES": "GPU-a"}
