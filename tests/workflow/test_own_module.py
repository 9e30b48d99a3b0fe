"""The worked example of docs/audit-your-module.md, run as its user would."""

import shutil

import pandas as pd

from .conftest import ROOT


def test_a_users_module_comes_to_a_verdict(project):
    shutil.copytree(ROOT / "tests/own_module", project.directory / "mine")
    project.snakemake("--configfile", "mine/config.yaml", check=0)
    verdicts = pd.read_csv(project.directory / "results/verdicts.csv")
    assert set(verdicts["workload"]) == {"mine"}
    deterministic = verdicts[verdicts["variant"] == "deterministic"]
    repeats = deterministic[deterministic["question"].str.contains("equal")]
    assert repeats["answer"].tolist() == ["equal"]
    page = (project.directory / "results/report.html").read_text()
    assert "spirals_model:Spirals" in page
    assert "denoiser" not in page.partition("Settings")[0]


def test_a_change_of_the_users_module_reruns_his_runs(project):
    shutil.copytree(ROOT / "tests/own_module", project.directory / "mine")
    target = "results/runs/mine/deterministic/seed1/repeat1/run.json"
    arguments = (target, "--configfile", "mine/config.yaml")
    project.snakemake(*arguments, check=0)
    assert project.jobs(*arguments) == {}
    model = project.directory / "mine/spirals_model.py"
    model.write_text(model.read_text().replace("nn.ReLU", "nn.Tanh"))
    assert project.jobs(*arguments) == {"train": 1}
