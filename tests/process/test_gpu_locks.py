"""Jobs never share a GPU unless told to, and a killed one leaves its GPU free."""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from twinrun.process import gpu_locks
from twinrun.process.gpu_locks import on_own_gpus, own_gpus
from twinrun.process.gpus import Gpus

ROOT = Path(__file__).parents[2]
TWO = Gpus(["GPU-a", "GPU-b"])
HOLD = """
import sys, time
from twinrun.process import gpu_locks
from twinrun.process.gpus import Gpus
gpu_locks.visible_gpus = lambda: Gpus(["GPU-a", "GPU-b"])
with gpu_locks.own_gpus(1) as visible:
    print(visible["CUDA_VISIBLE_DEVICES"], flush=True)
    time.sleep(600)
"""


@pytest.fixture
def two_gpus(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(gpu_locks, "visible_gpus", lambda: TWO)


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

        (held,) = gpu_locks._lock(1, Gpus(["GPU-b"]))["GPU-b"]
        monkeypatch.setattr(gpu_locks.time, "sleep", wait)
        with own_gpus(1) as second:
            assert (first, second) == (
                {"CUDA_VISIBLE_DEVICES": "GPU-a"},
                {"CUDA_VISIBLE_DEVICES": "GPU-b"},
            )
        assert len(waited) == 1
        # One is free, two are wanted: the free one is not kept from others meanwhile.
        assert gpu_locks._lock(2, TWO) is None
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


def test_what_measures_seconds_shares_its_gpu_with_nobody(two_gpus, monkeypatch):
    monkeypatch.setenv("TWINRUN_JOBS_PER_GPU", "2")
    with own_gpus(1) as shared, own_gpus(1, alone=True) as alone:
        assert (shared, alone) == (
            {"CUDA_VISIBLE_DEVICES": "GPU-a"},
            {"CUDA_VISIBLE_DEVICES": "GPU-b"},
        )
        # GPU-a has a slot left, GPU-b has none.
        assert gpu_locks._lock(2, TWO) is None
        assert taken(1) == shared
        assert gpu_locks._lock(1, TWO, alone=True) is None
    with own_gpus(2, alone=True) as both:
        assert both == {"CUDA_VISIBLE_DEVICES": "GPU-a,GPU-b"}


def test_processes_of_the_body_see_the_gpus_that_were_locked(two_gpus, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    with on_own_gpus(1), on_own_gpus(1):
        assert os.environ["CUDA_VISIBLE_DEVICES"] == "GPU-b"
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "0,1"
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    with on_own_gpus(1):
        assert os.environ["CUDA_VISIBLE_DEVICES"] == "GPU-a"
    assert "CUDA_VISIBLE_DEVICES" not in os.environ


def test_the_same_gpu_under_two_names_is_locked_once(two_gpus, monkeypatch):
    """ROCR_VISIBLE_DEVICES renumbers AMD's GPUs: the second of all is the first of one."""
    monkeypatch.setattr(gpu_locks, "visible_gpus", lambda: Gpus(["1"], "HIP_VISIBLE_DEVICES"))
    with own_gpus(1) as first:
        assert first == {"HIP_VISIBLE_DEVICES": "1"}
        renumbered = Gpus(["0"], "HIP_VISIBLE_DEVICES", ["1"])
        assert gpu_locks._lock(1, renumbered) is None


def test_every_rule_that_asks_for_gpus_locks_them():
    asking = set()
    for file in (ROOT / "workflow/rules").rglob("*.smk"):
        for rule in re.split(r"^rule ", file.read_text(), flags=re.MULTILINE)[1:]:
            if re.search(r"^ +(gpu=|\*\*PARAMS\.resources_of_devices)", rule, re.MULTILINE):
                asking |= set(re.findall(r'"\.\./scripts/(\w+\.py)"', rule))
    assert asking >= {"train.py", "locate.py", "timing.py"}
    for script in asking:
        text = (ROOT / "workflow/scripts" / script).read_text()
        assert re.search(r"own_gpus\(snakemake\.resources\.gpu\b", text), script
