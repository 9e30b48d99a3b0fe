"""The workflow on a real Slurm: a cluster of this one machine, with a fake GPU and a second node.

Snakemake's Slurm plugin slows every start of Snakemake, so it may lie apart from the environment,
in its folder `slurm`; it is found in either place.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from workflow.conftest import Project, copied

from twinrun import artifacts

CLUSTER = Path(__file__).with_name("cluster")
PLUGIN = Path(sys.prefix, "slurm")
INSTALL = (
    f"{sys.executable} -m pip install --no-deps --constraint requirements.lock --target {PLUGIN} "
    "snakemake-executor-plugin-slurm snakemake-executor-plugin-slurm-jobstep"
)
ARGUMENTS = [
    *("--workflow-profile", "slurm", "--latency-wait", "5", "--retries", "0"),
    *("--slurm-status-command", "squeue"),
    *("--slurm-init-seconds-before-status-checks", "2", "--seconds-between-status-checks", "2"),
]
SMALL = {
    "studies": ["reproducibility"],
    "datasets": {"digits": {"parameters": {"images_per_class": 40}}},
    "workloads": {"denoiser": {"epochs": 1, "hyperparameters": {"batch_size": 100}}},
    "variants": {"nondeterministic": {"threads": 1}, "deterministic": {"threads": 1}},
    "reproducibility": {"workloads": ["denoiser"], "cost": {"rounds": 6, "steps": 1}},
}
ALONE = {**SMALL, "rehearsal": False}  # a job that two of the tests wait for


def missing():
    """Say what keeps these tests from being run here."""
    programs = [name for name in ("slurmctld", "slurmd", "munged") if not shutil.which(name)]
    if programs:
        return f"no {', '.join(programs)}: apt-get install slurm-wlm munge"
    if os.geteuid() != 0:
        return "a test cluster is started as root"
    if not PLUGIN.is_dir() and not importlib.util.find_spec("snakemake_executor_plugin_slurm"):
        return f"no Slurm plugin: {INSTALL}"
    return None


pytestmark = [pytest.mark.slurm, pytest.mark.skipif(bool(missing()), reason=str(missing()))]


@pytest.fixture(scope="module")
def cluster():
    subprocess.run([CLUSTER, "start"], check=True)
    yield
    subprocess.run([CLUSTER, "stop"], check=True)


@pytest.fixture
def project(tmp_path, cluster):
    (tmp_path / "work").mkdir()
    return Project(copied(tmp_path / "clone"), tmp_path / "work")


def on_slurm(project, *arguments, **options):
    path = os.pathsep.join(filter(None, [str(PLUGIN), os.environ.get("PYTHONPATH")]))
    return project.snakemake(*arguments, *ARGUMENTS, PYTHONPATH=path, **options)


def submitted(project):
    """Give what Slurm knows of the jobs of a project's run, by rule: a dictionary for each job."""
    listing = subprocess.run(
        ["scontrol", "show", "job", "--oneliner"], check=True, capture_output=True, text=True
    )
    jobs = {}
    for line in listing.stdout.splitlines():
        fields = dict(re.findall(r"(\S+?)=(\S*)", line))
        # The rehearsal is a job of its own, by srun, which no rule has submitted.
        if fields["WorkDir"] == str(project.directory) and "Comment" in fields:
            rule = re.search(r"rule_(\w+?)_wildcards|rule_(\w+)", fields["Comment"])
            jobs.setdefault(rule[1] or rule[2], []).append(fields)
    return jobs


@pytest.mark.exhaustive  # minutes
def test_a_study_runs_on_slurm(project):
    # Figures and page are jobs like the others: up to the answers is enough.
    answers = "results/verdicts.csv"
    on_slurm(project, answers, config=SMALL, check=0)
    jobs = submitted(project)
    assert {fields["JobState"] for each in jobs.values() for fields in each} == {"COMPLETED"}
    counts = {rule: len(each) for rule, each in jobs.items()}
    assert counts.items() >= {"prepare": 1, "train": 4, "compare_repeats": 2, "timing": 1}.items()
    for fields in jobs["train"]:
        assert fields["NumTasks"] == "1"
        assert fields["CPUs/Task"] == "1"
        assert fields["MinMemoryNode"] == "4000M"
        assert "gpu" not in fields["TRES"]
    assert [fields["OverSubscribe"] for fields in jobs["timing"]] == ["NO"]
    assert {fields["OverSubscribe"] for fields in jobs["train"]} == {"OK"}
    again = project.snakemake(answers, config=SMALL, check=0)
    assert "Nothing to be done" in again.text


def test_the_rehearsal_is_a_job_and_the_others_wait_for_it(project):
    """The module fails wherever it is constructed, and says in which job that was."""
    (project.directory / "where.py").write_text(
        "import os\n"
        "from twinrun.workloads.denoiser import Denoiser\n\n\n"
        "class Where(Denoiser):\n"
        "    def __init__(self, **kwargs):\n"
        "        job, name = (os.getenv(f'SLURM_JOB_{k}') for k in ('ID', 'NAME'))\n"
        "        raise ValueError(f'constructed in job {job} named {name}')\n"
    )
    workloads = {"denoiser": {**SMALL["workloads"]["denoiser"], "module": "where:Where"}}
    done = on_slurm(project, config={**SMALL, "workloads": workloads}, check=1)
    assert re.search(r"constructed in job \d+ named rehearsal", done.text)
    assert not (project.directory / "results").exists()
    assert not list((project.directory / ".snakemake").rglob("rehearsal-*"))


@pytest.mark.exhaustive  # minutes
def test_a_variant_on_a_gpu_asks_slurm_for_one(project):
    """The fake GPU is granted, and torch, which finds none, ends the job with one sentence."""
    target = "results/runs/factorization/deterministic/seed1/repeat1/run.json"
    done = on_slurm(project, target, config={**ALONE, "accelerator": "gpu"}, check=1)
    assert "accelerator: gpu was asked for, but torch sees none" in done.text
    jobs = submitted(project)
    assert [fields["TresPerJob"] for fields in jobs["train"]] == ["gres:gpu:1"]
    assert [fields["JobState"] for fields in jobs["train"]] == ["FAILED"]
    assert "TresPerJob" not in jobs["prepare"][0]
    assert not (project.directory / target).exists()


@pytest.mark.exhaustive  # minutes
def test_two_workers_train_all_of_the_data_on_one_node_and_on_two(project):
    """Lightning's own detection of Slurm would start one worker with half of each mini-batch."""
    two = {"threads": 1, "devices": 2}
    variants = {"one": {"threads": 1}, "two": two, "two_nodes": {**two, "nodes": 2}}
    targets = [f"results/runs/denoiser/{name}/seed1/repeat1/run.json" for name in variants]
    lo = {"GLOO_SOCKET_IFNAME": "lo"}  # the nodes are this one machine
    both = ("--set-resources", "train:slurm_partition=both")
    on_slurm(project, *targets, *both, config={**ALONE, "variants": variants}, check=0, **lo)
    runs = [artifacts.read_json(project.directory / target) for target in targets]
    assert len({run["steps"] for run in runs}) == 1
    assert [sum(run["seconds"]["communication"]) > 0 for run in runs] == [False, True, True]
    assert runs[1]["weights_sha256"] == runs[2]["weights_sha256"] != runs[0]["weights_sha256"]
    shapes = [
        tuple(job[key] for key in ("NumNodes", "NumTasks", "CPUs/Task"))
        for job in submitted(project)["train"]
    ]
    assert sorted(shapes) == [("1", "1", "1"), ("1", "1", "2"), ("2", "2", "1")]
