"""What Snakemake's workflow catalog asks of a repository, as its generator looks for it."""

import os
import shutil
import subprocess
import sys

import pytest
import yaml

from .conftest import ROOT

SNAKEFILES = [ROOT / "workflow/Snakefile", *(ROOT / "workflow/rules").glob("*.smk")]
# The catalog has Snakemake, and nothing that a training needs.
HEAVY = ["torch", "pytorch_lightning", "lightning", "pandas", "seaborn", "matplotlib"]
WITHOUT = """
import sys
from importlib.machinery import PathFinder


class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.partition(".")[0] not in {names}:
            return PathFinder.find_spec(name, path, target)


sys.meta_path = [Without if finder is PathFinder else finder for finder in sys.meta_path]
"""


@pytest.fixture
def environment(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(WITHOUT.format(names=HEAVY))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    torch = [sys.executable, "-c", "import torch"]
    assert subprocess.run(torch, env=environment, capture_output=True).returncode
    return environment


def test_the_usage_is_the_standardised_one():
    settings = yaml.safe_load((ROOT / ".snakemake-workflow-catalog.yml").read_text())["usage"]
    assert {*settings} == {"mandatory-flags", "software-stack-deployment", "report"}
    assert (ROOT / "config/README.md").read_text().startswith("# ")
    assert {"snakemake", "workflow"} <= {*(ROOT / "README.md").read_text().lower().split()}
    triggers = settings["mandatory-flags"]["flags"].removeprefix("--rerun-triggers ").split()
    (profile,) = (ROOT / "profiles/default").glob("*.yaml")
    assert yaml.safe_load(profile.read_text())["rerun-triggers"] == triggers


def test_linting_needs_nothing_that_trains(environment):
    lint = [sys.executable, "-m", "snakemake", "--lint"]
    done = subprocess.run(lint, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_formatting_is_that_of_snakefmt():
    snakefmt = [sys.executable, "-m", "snakefmt", "--check", "-v", *SNAKEFILES]
    done = subprocess.run(snakefmt, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.one_in(2)
@pytest.mark.parametrize("way", ["--directory", "folder"])
def test_the_rule_graph_is_drawn(environment, tmp_path, way):
    folder = tmp_path / ".test"
    shutil.copytree(ROOT / ".test/config", folder / "config")
    snakefile = ["--snakefile", ROOT / "workflow/Snakefile"]
    graph = [sys.executable, "-m", "snakemake", "--rulegraph", *snakefile]
    if way == "--directory":
        graph += ["--directory", folder]
        folder = tmp_path
    done = subprocess.run(graph, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("digraph")
    assert "compare_repeats" in done.stdout


def test_without_the_package_one_sentence_says_what_to_install(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(WITHOUT.format(names=["msgspec"]))
    plan = [sys.executable, "-m", "snakemake", "--dry-run"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(plan, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert "has no module msgspec. Install Twinrun there: pip install twinrun" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
