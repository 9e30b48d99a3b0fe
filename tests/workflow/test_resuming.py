"""A run that is killed goes on when Snakemake tries it again, and ends in the same bits."""

import shutil

import pandas as pd
import pytest

from twinrun import artifacts

from .conftest import ROOT

CONFIG = """
studies: [reproducibility]
checkpoint_minutes: 0
workloads:
  mine:
    module: small:Restless
    data: small:Points
    hyperparameters: {death: death}
    epochs: 4
variants: {single: {deterministic: true, threads: 1}}
reproducibility: {workloads: [mine], variants: [single]}
"""


@pytest.mark.exhaustive
@pytest.mark.slow
def test_a_killed_run_is_retried_from_its_checkpoint(project):
    shutil.copy(ROOT / "tests/small.py", project.directory)
    (project.directory / "death").write_text("17")  # for the run that comes there first
    comparison = "results/comparisons/reproducibility/mine/single.json"
    done = project.snakemake(comparison, "--retries", "1", config=CONFIG, check=0)
    assert "was ended by SIGKILL" in done.text
    (found,) = artifacts.read_json(project.directory / comparison)
    assert found["answer"] == "equal"
    runs = project.directory / "results/runs/mine/single/seed1"
    manifests = [artifacts.read_json(file) for file in sorted(runs.glob("*/run.json"))]
    assert sorted(manifest["resumed_at"] for manifest in manifests) == [[], [15]]
    for name in ("epochs.csv", "predictions.safetensors"):
        assert len({file.read_bytes() for file in runs.glob(f"*/{name}")}) == 1
    assert not [
        file for file in project.directory.glob("results/checkpoints/**/*") if file.is_file()
    ]


STUDY = """
studies: [resume]
workloads: {mine: {module: small:Small, data: small:Points, epochs: 3}}
variants: {single: {deterministic: true, threads: 1}}
resume: {workloads: [mine], variants: [single], stops: [mid_epoch]}
"""


@pytest.mark.slow
def test_the_study_of_stops_comes_to_its_answers(project):
    """Red before, as no process may leave before it is done: the stop failed the whole workflow."""
    shutil.copy(ROOT / "tests/small.py", project.directory)
    project.snakemake("results/verdicts.csv", config=STUDY, check=0)
    verdicts = pd.read_csv(project.directory / "results/verdicts.csv")
    answers = dict(zip(verdicts["key"], verdicts["answer"], strict=True))
    assert answers["resumes_twinrun"] == "equal"
