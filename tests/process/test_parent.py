"""A process that was still importing when the one that started it was killed ends, too."""

import subprocess
import sys
import time

import psutil
import pytest

BEGINNINGS = {
    "of a job": """
from twinrun.process.parent import ended_with_workflow
ended_with_workflow().__enter__()
""",
    "of a fresh process": """
import os
from twinrun.process.parent import STARTED_BY, end_with_parent
end_with_parent(os.environ[STARTED_BY])
""",
}
CHILD = """
import sys, time
from pathlib import Path
Path({here!r}, "started").touch()
while not Path({here!r}, "go").exists():  # it imports
    time.sleep(0.02)
{beginning}
Path({here!r}, "lives").touch()
time.sleep(60)
"""
PARENT = """
import os, subprocess, sys, time
from twinrun.process.parent import STARTED_BY, name_workflow, this_process
name_workflow()
os.environ[STARTED_BY] = this_process()
subprocess.Popen({between} + [sys.executable, {child!r}])
time.sleep(60)
"""


def wait_for(condition):
    deadline = time.monotonic() + 60
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert condition()


def is_alive(process):
    """Orphans that no init reaps stay as zombies; they do nothing any more."""
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux's")
@pytest.mark.parametrize("is_killed", [True, False])
@pytest.mark.parametrize("beginning", BEGINNINGS)
def test_a_process_whose_parent_was_killed_early_does_nothing(tmp_path, beginning, is_killed):
    """Red before: it lived on, and wrote beside the job of the next start."""
    child = tmp_path / "child.py"
    child.write_text(CHILD.format(here=str(tmp_path), beginning=BEGINNINGS[beginning]))
    # With `--sdm conda` a shell lies between a job and its Snakemake.
    shell = ["bash", "-c", '"$@"; true', "shell"] if "job" in beginning and not is_killed else []
    code = PARENT.format(child=str(child), between=shell)
    parent = subprocess.Popen([sys.executable, "-c", code])
    try:
        wait_for((tmp_path / "started").exists)
        started = psutil.Process(parent.pid).children(recursive=True)
        if is_killed:
            parent.kill()
            parent.wait()
        (tmp_path / "go").touch()
        if is_killed:
            wait_for(lambda: not any(map(is_alive, started)))
        else:
            wait_for((tmp_path / "lives").exists)
        assert (tmp_path / "lives").exists() == (not is_killed)
    finally:
        for process in started:
            if is_alive(process):
                process.kill()
        parent.kill()
        parent.wait()
