"""The workflow from wherever it is started: every file of its own is found."""

import os
import subprocess
import sys

import pytest
import yaml

from twinrun.config.shipped import SCHEMA, shipped

from .conftest import ROOT, jobs_of

# A workload of the user's own that is called like one of ours, and needs no dataset.
OWN = {
    "module": "twinrun.workloads.peaks:Peaks",
    "data": "twinrun.workloads.peaks:PeaksGrid",
    "epochs": 2,
    "hyperparameters": {"points": 40, "learning_rate": 0.08},
}
CONFIG = {
    "studies": ["reproducibility"],
    "workloads": {"factorization": OWN},
    "reproducibility": {"workloads": ["factorization"]},
}
JOBS = {"train": 4, "compare_repeats": 2, "timing": 1}

# As `snakedeploy deploy-workflow` writes it and the page has it; the repository is redirected to
# a local one.
PAGE = (ROOT / "config/README.md").read_text()
MODULE = PAGE.partition("```python\n")[2].partition("```")[0]
REPOSITORY = 'github("OWNER/twinrun", path="workflow/Snakefile", tag="TAG")'
A_PART = 'config  # or a part of it: config["audit"]'


def snakemake(*arguments, cwd, **environment):
    return subprocess.run(
        [sys.executable, "-m", "snakemake", "--cores", "2", *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


@pytest.fixture
def config(tmp_path):
    file = tmp_path / "mine" / "config.yaml"
    file.parent.mkdir()
    file.write_text(yaml.safe_dump(CONFIG))
    return file


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("cwd", "arguments"),
    [
        ("clone", ""),
        ("clone", "-s workflow/Snakefile -d elsewhere"),
        ("work", "reproducibility -s ../clone/Snakefile"),
        *(
            pytest.param(*case, marks=pytest.mark.exhaustive)
            for case in (
                ("clone", "-d elsewhere"),
                ("clone", "-s workflow/Snakefile"),
                ("clone", "reproducibility -s workflow/Snakefile"),
                ("work", "-s ../clone/workflow/Snakefile"),
            )
        ),
    ],
)
def test_both_snakefiles_plan_the_same_from_anywhere(project, config, cwd, arguments):
    folder = project.source.parent / cwd
    done = snakemake("-n", *arguments.split(), "--configfile", config, cwd=folder)
    assert done.returncode == 0, done.stdout
    jobs = jobs_of(done.stdout)
    assert {rule: jobs[rule] for rule in JOBS} == JOBS
    assert "prepare" not in jobs
    target = "reproducibility" if "reproducibility" in arguments else "all"
    assert jobs.keys() & {"reproducibility", "all"} == {target}
    assert ("report" in jobs) == (target == "all")
    assert "Using workflow specific profile" in done.stdout


@pytest.mark.exhaustive
def test_jobs_run_the_package_of_the_clone_not_an_installed_one(project, demo_config):
    """Else a result would name the sources of one package and come from another's."""
    with (project.source / "src/twinrun/training/prepare_dataset.py").open("a") as file:
        file.write("\nprint('imported from the clone', flush=True)\n")
    done = project.snakemake("results/data/ratings.npz", config=demo_config, check=0)
    assert "imported from the clone" in done.text


def as_module(folder, snakefile, *, names="", **change):
    """Write a workflow that uses ours as a module, with a config of what differs alone."""
    (folder / "config").mkdir(parents=True)
    (folder / "config/config.yaml").write_text(yaml.safe_dump({**CONFIG, **change}))
    assert MODULE.count(REPOSITORY) == 1
    all_rules = "use rule * from twinrun"
    text = MODULE.replace(REPOSITORY, snakefile).replace(all_rules, f"{all_rules}{names}")
    (folder / "Snakefile").write_text(text)
    return folder


@pytest.mark.one_in(2)
@pytest.mark.parametrize("prefix", ["", "audit_"])
def test_another_workflow_uses_ours_as_a_module(project, tmp_path, prefix):
    snakefile = repr(str(project.source / "workflow/Snakefile"))
    names = f" as {prefix}*" if prefix else ""
    folder = as_module(tmp_path / "theirs", snakefile, names=names)
    done = snakemake("-n", cwd=folder)
    assert done.returncode == 0, done.stdout
    jobs = jobs_of(done.stdout)
    assert {rule: jobs[f"{prefix}{rule}"] for rule in JOBS} == JOBS
    assert f"{prefix}prepare" not in jobs
    assert jobs[f"{prefix}all"] == 1


@pytest.mark.one_in(2)
@pytest.mark.parametrize("names", ["", " as audit_*"])
def test_the_first_rule_of_another_workflow_stays_its_default(project, tmp_path, names):
    """Red before: nothing of theirs was done, and the exit code was 0."""
    snakefile = repr(str(project.source / "workflow/Snakefile"))
    folder = as_module(tmp_path / "theirs", snakefile, names=names)
    own = 'rule theirs:\n    output: "theirs.txt"\n    shell: "touch {output}"\n'
    (folder / "Snakefile").write_text(own + (folder / "Snakefile").read_text())
    done = snakemake("-n", cwd=folder)
    assert done.returncode == 0, done.stdout
    assert jobs_of(done.stdout) == {"theirs": 1}


def test_the_config_may_be_a_part_of_theirs(project, tmp_path):
    folder = as_module(tmp_path / "theirs", repr(str(project.source / "workflow/Snakefile")))
    text = (folder / "Snakefile").read_text()
    assert A_PART in text
    (folder / "Snakefile").write_text(text.replace(A_PART, 'config["audit"]'))
    theirs = {"samples": ["a", "b"], "audit": CONFIG}
    (folder / "config/config.yaml").write_text(yaml.safe_dump(theirs))
    done = snakemake("-n", cwd=folder)
    assert done.returncode == 0, done.stdout
    assert {rule: jobs_of(done.stdout)[rule] for rule in JOBS} == JOBS


@pytest.mark.exhaustive
def test_another_workflow_uses_one_of_our_rules(project, tmp_path):
    snakefile = repr(str(project.source / "workflow/Snakefile"))
    folder = as_module(tmp_path / "theirs", snakefile)
    text = (folder / "Snakefile").read_text().replace("use rule *", "use rule prepare")
    (folder / "Snakefile").write_text(text)
    done = snakemake("-n", "results/data/ratings.npz", cwd=folder)
    assert done.returncode == 0, done.stdout
    assert jobs_of(done.stdout) == {"prepare": 1}


@pytest.mark.exhaustive  # tests/commands/test_wheel.py runs one
def test_a_module_from_a_repository_runs(project, tmp_path):
    """Its scripts come from there; the package, with schema and templates, is the installed one."""
    repository = tmp_path / "hosted/owner/twinrun"
    git = ["git", "-c", "user.name=T", "-c", "user.email=t@example.org", "-C", project.source]
    for arguments in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "All"]):
        subprocess.run([*git, *arguments], check=True)
    subprocess.run(["git", "clone", "-q", "--bare", project.source, repository], check=True)
    environment = {
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{(tmp_path / 'hosted').as_uri()}/.insteadOf",
        "GIT_CONFIG_VALUE_0": "https://github.com/",
        "PYTHONPATH": str(ROOT / "src"),
    }
    snakefile = 'github("owner/twinrun", path="workflow/Snakefile", branch="main")'
    datasets = {"ratings": {"parameters": {"ratings": 1000}}}
    folder = as_module(tmp_path / "theirs", snakefile, datasets=datasets)
    done = snakemake("results/data/ratings.npz", cwd=folder, **environment)
    assert done.returncode == 0, done.stdout
    assert (folder / "results/data/ratings.npz").exists()
    module = {**OWN, "module": "twinrun.workloads.factorization:Factorisation"}
    mistaken = {**CONFIG, "datasets": datasets, "workloads": {"factorization": module}}
    (folder / "config/config.yaml").write_text(yaml.safe_dump(mistaken))
    refused = snakemake("reproducibility", cwd=folder, **environment)
    assert refused.returncode == 1
    assert "has no Factorisation" in refused.stdout, refused.stdout
    assert not (folder / "results/runs").exists()


def test_what_twinrun_brings_is_found_in_a_clone_and_in_an_installed_package(tmp_path):
    package = tmp_path / "site-packages/twinrun"
    (package / "workflow").mkdir(parents=True)
    assert shipped("workflow", package) == package / "workflow"
    assert shipped("config.yaml", ROOT / "src/twinrun") == ROOT / "config.yaml"
    assert SCHEMA == ROOT / "workflow/schemas/config.schema.yaml"


def test_a_gate_of_another_name_is_refused_if_it_requires_nothing(project, tmp_path):
    """Before the rehearsal, which would refuse this module: else an earlier pass might stay."""
    snakefile = repr(str(project.source / "workflow/Snakefile"))
    mistaken = {"factorization": {**OWN, "module": "twinrun.workloads.peaks:Peeks"}}
    folder = as_module(tmp_path / "theirs", snakefile, names=" as audit_*", workloads=mistaken)
    (folder / "results").mkdir()
    (folder / "results/gate.json").write_text('{"outcome": "pass"}')
    done = snakemake("audit_gate", "--rerun-triggers", "mtime", cwd=folder)
    assert done.returncode == 1
    assert "require: the gate has nothing to judge" in done.stdout, done.stdout
    assert not (folder / "results/gate.json").exists()


def test_a_prefix_of_results_is_refused(project, tmp_path):
    """Else a gate, a page and the failures would be looked for where they do not lie."""
    folder = as_module(tmp_path / "theirs", repr(str(project.source / "workflow/Snakefile")))
    text = (folder / "Snakefile").read_text()
    prefixed = text.replace(A_PART, 'config\n    prefix: "audit"')
    (folder / "Snakefile").write_text(prefixed)
    done = snakemake("-n", cwd=folder)
    assert done.returncode == 1
    assert "would put Twinrun's results into audit/results/" in done.stdout, done.stdout
    assert "Traceback" not in done.stdout
