"""The worked example of docs/audit-your-module.md, run as its user would."""

import json
import re
import shutil

import pandas as pd
import pytest

from .conftest import ROOT, Project

# By no import statement that could be followed, and not when the module is imported.
LATE_IMPORT = """
    def on_train_epoch_start(self):
        if self.current_epoch == 1:
            import importlib
            self.factor = importlib.import_module("late_" + "loss").FACTOR
"""


@pytest.mark.exhaustive  # tests/commands/test_wheel.py comes to one with a smaller module
def test_a_users_module_comes_to_a_verdict(project):
    shutil.copytree(ROOT / "tests/own_module", project.directory / "mine")
    project.snakemake("--configfile", "mine/config.yaml", check=0)
    verdicts = pd.read_csv(project.directory / "results/verdicts.csv")
    assert set(verdicts["workload"]) == {"mine"}
    deterministic = verdicts[verdicts["variant"] == "deterministic"]
    repeats = deterministic[deterministic["key"] == "repeats"]
    assert repeats["answer"].tolist() == ["equal"]
    page = (project.directory / "results/report.html").read_text()
    assert "spirals_model:Spirals" in page
    assert "denoiser" not in page.partition("Settings")[0]


@pytest.mark.exhaustive  # as the next test does, by what the module imports
def test_a_change_of_the_users_module_reruns_his_runs(project):
    shutil.copytree(ROOT / "tests/own_module", project.directory / "mine")
    target = "results/runs/mine/deterministic/seed1/repeat1/run.json"
    arguments = (target, "--configfile", "mine/config.yaml")
    project.snakemake(*arguments, check=0)
    assert project.jobs(*arguments) == {}
    model = project.directory / "mine/spirals_model.py"
    model.write_text(model.read_text().replace("nn.ReLU", "nn.Tanh"))
    assert project.jobs(*arguments) == {"train": 1}


@pytest.mark.exhaustive  # as a changed sister package of test_reruns.py does
def test_what_only_the_training_imports_is_a_part_of_the_next_plan(project):
    shutil.copytree(ROOT / "tests/own_module", project.directory / "mine")
    arguments = ("results/runs/mine/deterministic/seed1/repeat1/run.json", "--configfile")
    arguments += ("mine/config.yaml",)
    model = project.directory / "mine/spirals_model.py"
    model.write_text(f"{model.read_text()}{LATE_IMPORT}")
    late = project.directory / "mine/late_loss.py"
    late.write_text("FACTOR = 1.0\n")
    project.snakemake(*arguments, check=0)
    late.write_text("# another comment\nFACTOR = 1.0\n")
    assert project.jobs(*arguments) == {}
    late.write_text("FACTOR = 2.0\n")
    assert project.jobs(*arguments) == {"train": 1}
    project.snakemake(*arguments, check=0)
    assert project.jobs(*arguments) == {}


@pytest.mark.exhaustive
def test_a_folder_that_is_moved_reruns_nothing(project, tmp_path):
    shutil.copytree(ROOT / "tests/own_module", project.directory / "mine")
    target = "results/runs/mine/deterministic/seed1/repeat1/run.json"
    project.snakemake(target, "--configfile", "mine/config.yaml", check=0)
    # With the times of its files, as `cp -a` and `mv` leave them.
    moved = Project(project.source, tmp_path / "another" / "place")
    shutil.copytree(project.directory, moved.directory)
    assert moved.jobs(target, "--configfile", "mine/config.yaml") == {}
    shutil.move(moved.directory / "mine", tmp_path / "mine")
    elsewhere = str(tmp_path / "mine/config.yaml")
    assert moved.jobs(target, "--configfile", elsewhere) == {}
    # And what is trained then is found there.
    moved.snakemake(target, "--configfile", elsewhere, "--forcerun", "train", check=0)


@pytest.mark.exhaustive
def test_a_module_with_two_optimizers_comes_to_a_matrix_and_through_the_gate(project):
    """Iterating a validation loader draws a number, so the order of the second epoch changes."""
    shutil.copytree(ROOT / "tests/own_module", project.directory / "mine")
    gate = project.directory / "mine/gate.yaml"
    gate.write_text("matrix: {workloads: [drawer]}\nrequire: {matrix: [repeat]}")
    configs = ("--configfile", "mine/matrix.yaml", "mine/gate.yaml")
    project.snakemake("gate", "results/report.html", *configs, check=0)
    table = pd.read_csv(project.directory / "results/matrix/drawer.csv").set_index("cell")
    assert table["answer"].to_dict() == {
        "repeat": "equal",
        "validation-false": "differs",
        "seed": "differs",
    }
    steps = 10  # of an epoch
    assert table.loc["validation-false", "first_step"] == steps + 1
    page = (project.directory / "results/report.html").read_text()
    assert "two_optimizers:SpiralDrawer" in page
    (row,) = re.findall(r'<th scope="row"[^>]*>validation: false</th>(.*?)</tr>', page, re.DOTALL)
    assert "badge-differs" in row
    assert f"step {steps + 1}" in row
    gate.write_text(gate.read_text().replace("repeat]", "repeat, validation-false]"))
    project.snakemake("gate", *configs, check=1)
    outcome = json.loads((project.directory / "results/gate.json").read_text())
    assert outcome["outcome"] == "fail"
    assert [line["outcome"] for line in outcome["lines"]] == ["pass", "fail"]
    assert f"step {steps + 1}" in outcome["lines"][1]["why"]
