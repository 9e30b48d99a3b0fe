"""The studies of variants for real, tiny: from the config to the page."""

import re

import pandas as pd
import pytest
import yaml

from twinrun import artifacts

from .conftest import ROOT


@pytest.mark.exhaustive
def test_devices_acceleration_and_a_sweep_end_in_the_report(project):
    config = yaml.safe_load((ROOT / "tests/configs/timings.yaml").read_text())
    project.snakemake(config=config, check=0, CUDA_VISIBLE_DEVICES="")
    results = project.directory / "results"
    rounds = pd.read_csv(results / "timings/devices_peaks.csv").query("phase == 'train'")
    assert rounds.groupby("size").size().to_dict() == {100: 6, 200: 6, 400: 6}
    timing = artifacts.read_json(results / "timings/acceleration_peaks.json")
    counts = {row["phase"]: (row["calls"], row["compilations"]) for row in timing["compilation"]}
    # torch compiles in the first call of each alone; 6 rounds of at least 2 follow.
    assert {phase: compilations for phase, (_, compilations) in counts.items()} == {
        "train": 1,
        "predict": 1,
    }
    assert min(calls for calls, _ in counts.values()) > 10
    assert {row["variant"] for row in timing["trainer"]} == {"eager", "compiled"}
    compared = results / "comparisons/acceleration/peaks/compiled/against/eager.json"
    (contrast,) = artifacts.read_json(compared)
    assert contrast["answer"] in ("equal", "differs")
    assert contrast["relative_l2"] < 1e-2
    run = artifacts.read_json(results / "runs/peaks/compiled/seed1/repeat1/run.json")
    assert run["compilation"] == {"calls": 19, "compilations": 1, "reasons": []}
    page = re.sub(r"\s+", " ", (results / "report.html").read_text())
    assert "<strong>gpu:</strong> not run, no GPU on this machine." in page
    verdicts = pd.read_csv(results / "verdicts.csv", keep_default_na=False)
    answers = dict(zip(verdicts["variant"], verdicts["answer"], strict=True))
    assert answers["gpu"] == "not run"
    assert verdicts.query("variant == 'compiled'")["key"].tolist() == [
        "speed",
        "prediction_speed",
        "trainer_cost",
        "same_computation",
        "same_predictions",
        "whole_speed",
        "same_parameters",
    ]
    # A trial of the sweep failed, the other finished, and the page is there all the same.
    trials, best = verdicts.query("study == 'sweep'").to_dict("records")
    assert (trials["workload"], trials["answer"]) == ("peaks", "no")
    assert trials["measured"] == "1 of 2 trials finished"
    assert best["measured"].startswith("lowest train_loss in epoch 2 after 2 of 20 epochs: ")
    assert "failed: ValueError: Invalid learning rate: -1" in page
