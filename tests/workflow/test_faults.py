"""Faults for real: after each the workflow finishes, and nothing finished is done again.

Each test breaks something in a copy of the demo, which has run to its end, and goes on from there.
The files of the finished runs must stay as they are, to the bit and to the nanosecond. Every
training takes seconds to start, so that one test goes from fault to fault.
"""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import get_args

import psutil
import pytest
from standard_config import merged

from twinrun import artifacts, run_files, run_records
from twinrun.dataset_files import check_dataset

from .conftest import Project

pytestmark = pytest.mark.slow

STEADY = {
    # More than a megabyte: below, Snakemake compares contents whatever the profile says.
    "datasets": {"points": {"make": "points:make", "parameters": {"size": 100_000}}},
    "workloads": {
        "steady": {
            "module": "steady:Steady",
            "data": "steady:Points",
            "dataset": "points",
            "epochs": 2,
        }
    },
}
NEXT = "results/runs/steady/deterministic/seed1/repeat1/run.json"
COMPARISON = "results/comparisons/reproducibility/factorization/deterministic.json"
RUN = "results/runs/factorization/deterministic/seed{}/repeat{}/run.json"


@pytest.fixture
def copy(demo, tmp_path):
    """The finished demo in a directory of its own, and a workload beside it."""
    # Sources too: Snakemake knows them by their path from the working directory.
    shutil.copytree(demo.directory.parent, tmp_path, symlinks=True, dirs_exist_ok=True)
    for name in ("steady.py", "points.py"):
        shutil.copy(Path(__file__).with_name(name), tmp_path / "work")
    return Project(tmp_path / "clone", tmp_path / "work")


@pytest.fixture
def project(copy):
    """A copy whose finished files must not change."""
    before = state(copy)
    yield copy
    assert before.items() <= state(copy).items()


@pytest.fixture
def config(demo_config):
    return merged(demo_config, STEADY)


def state(project):
    """Give date and hash of every result; not of logs, and not of curves, which hold dates."""
    files = (path for path in (project.directory / "results").rglob("*") if path.is_file())
    return {
        str(path.relative_to(project.directory)): (path.stat().st_mtime_ns, artifacts.sha256(path))
        for path in files
        if not {"logs", "benchmarks", "tensorboard"} & {*path.parts}
    }


def assert_whole(run):
    assert run_files.read_run(run)["ended"] == "finished"
    for name in get_args(run_records.FileOfRun):
        assert run_files.verified(run, name).is_file()


def flip_a_bit(file):
    """As a disk may, which tells nobody: the date stays."""
    times = file.stat()
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


class Workflow:
    """Starts of one workflow, without its hooks: they check the config, which costs seconds."""

    def __init__(self, project, config):
        self.project, self.config = project, config
        self.output = project.directory / "output"
        self.faults = project.directory / "faults"
        self._training = project.directory / "training"

    def ended(self, *arguments, check, faults="", **environment):
        """Run it to its end; the faults happen to its trainings, one each."""
        self.faults.write_text(faults)
        environment |= {"STEADY_FAULTS": str(self.faults)}
        options = {"config": self.config, "check": check}
        return self.project.snakemake(*arguments, "--no-hooks", **options, **environment)

    def started(self, *arguments, faults):
        """Start it."""
        self.faults.write_text(faults)
        environment = {"STEADY_FAULTS": str(self.faults)}
        return self.project.start(*arguments, "--no-hooks", config=self.config, **environment)

    def waiting_training(self, process):
        """Give the process of a training that has come to `wait`."""
        while not (self._training.exists() and self._training.read_text().endswith("\n")):
            assert process.poll() is None, self.output.read_text()
            time.sleep(0.05)
        training = psutil.Process(int(self._training.read_text()))
        self._training.unlink()
        return training


@pytest.mark.exhaustive  # minutes; test_resuming.py kills and retries, tests/parallel stop
def test_from_fault_to_fault_a_run_is_made_at_last(project, config):
    workflow, run = Workflow(project, config), project.directory / NEXT

    # The disk is full when the weights are written; then a training is killed; then, as a cluster
    # does before it takes the node away, SIGTERM is sent to all processes.
    process = workflow.started(NEXT, "--retries", "2", faults="full\nwait\nwait\n")
    training = workflow.waiting_training(process)
    text = workflow.output.read_text()
    assert "seed=1 repeat=1: File too large" in text
    assert "mem_mb=4000" in text
    assert "mem_mb=8000" in text
    training.kill()
    training = workflow.waiting_training(process)
    assert (
        "ended by SIGKILL, as the system does when memory runs out" in workflow.output.read_text()
    )
    assert "mem_mb=12000" in workflow.output.read_text()
    second = workflow.ended(NEXT, check=1)
    assert "cannot be locked" in second.text
    os.killpg(process.pid, signal.SIGTERM)
    process.wait(timeout=60)
    assert not training.is_running()
    assert "stopped: SIGTERM after step" in workflow.output.read_text()
    kept = run.parent / "stopped/run.json"
    assert run_files.read_run(kept)["ended"] == "stopped: SIGTERM"
    assert run_files.verified(kept, "weights.safetensors").is_file()
    assert not run.exists()

    # Snakemake is killed: an orphan would write into the folder of its successor. Its lock stays.
    process = workflow.started(NEXT, faults="wait\n")
    training = workflow.waiting_training(process)
    process.kill()
    process.wait()
    training.wait(timeout=30)
    assert not run.exists()
    refused = workflow.ended(NEXT, check=1)
    assert "--unlock" in refused.text
    workflow.ended("--unlock", check=0)

    # More memory is asked for than there is; the second try has it.
    done = workflow.ended(NEXT, "--retries", "1", faults="greedy\n", check=0)
    assert "seed=1 repeat=1: out of memory" in done.text
    assert_whole(run)
    left = {file.name for file in run.parent.iterdir()}
    assert left == {file.name for file in (project.directory / RUN.format(1, 1)).parent.iterdir()}

    # Dates from the future make nothing again.
    for name in ("results/data/points.npz", "points.py", "steady.py"):
        os.utime(project.directory / name, (4_000_000_000, 4_000_000_000))
    assert project.jobs(NEXT, config=config) == {}


@pytest.mark.exhaustive  # minutes
def test_corrupt_files_are_named_never_compared_and_made_again(copy, config):
    workflow, before = Workflow(copy, config), state(copy)
    run, comparison, other = (
        copy.directory / file for file in (RUN.format(1, 2), COMPARISON, RUN.format(2, 1))
    )
    dataset = copy.directory / "results/data/ratings.npz"
    comparison.unlink()
    flip_a_bit(run.with_name("weights.safetensors"))
    flip_a_bit(dataset)
    refused = workflow.ended(COMPARISON, RUN.format(2, 1), check=1)
    assert "repeat2/weights.safetensors is corrupt" in refused.text
    assert "results/data/ratings.npz is corrupt" in refused.text
    assert not comparison.exists()
    assert not other.exists()

    # As the messages say.
    shutil.rmtree(run.parent)
    dataset.unlink()
    workflow.ended(COMPARISON, check=0)  # and the runs that read the dataset, to the same bits
    assert_whole(run)
    after = state(copy)
    made_again = {path for path in before if after[path][0] != before[path][0]}
    assert {"/".join(Path(path).parts[1:3]) for path in made_again} == {
        "data/ratings.imports.jsonl",
        "data/ratings.json",
        "data/ratings.npz",
        "comparisons/reproducibility",
        "runs/factorization",
    }
    assert not {path for path in made_again if "nondeterministic" in path}
    other_bits = {Path(path).name for path in before if after[path][1] != before[path][1]}
    assert other_bits <= {"run.json", run_files.CHECKSUMS}


def test_results_that_cannot_be_written_are_an_error_and_then_no_more(project, config):
    workflow, target = Workflow(project, config), "results/data/points.npz"
    results = str(project.directory / "results")
    mount = subprocess.run(["mount", "--bind", results, results], check=False, capture_output=True)
    if mount.returncode:
        pytest.skip("a read-only mount takes the right to mount")
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", results], check=True)
        failed = workflow.ended(target, check=1)
    finally:
        subprocess.run(["umount", results], check=True)
    assert "Read-only file system" in failed.text
    assert not (project.directory / target).exists()
    workflow.ended(target, check=0)
    check_dataset(project.directory / target)


@pytest.mark.exhaustive
def test_a_dataset_is_made_once_for_two_working_directories(demo, config, tmp_path):
    (tmp_path / "cache").mkdir()
    environment = {
        "POINTS_MARK": str(tmp_path / "mark"),
        "SNAKEMAKE_OUTPUT_CACHE": str(tmp_path / "cache"),
    }
    made = []
    for name in ("first", "second"):
        work = tmp_path / name
        work.mkdir()
        shutil.copy(Path(__file__).with_name("points.py"), work)
        workflow = Workflow(Project(demo.source, work), config)
        workflow.ended("results/data/points.npz", "--cache", check=0, **environment)
        check_dataset(work / "results/data/points.npz")
        made.append((work / "results/data/points.npz").resolve())
    assert (tmp_path / "mark").read_text() == "made\n"
    assert made[0] == made[1]
