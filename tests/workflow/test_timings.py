"""The studies of variants for real, tiny: from the config to the page."""

import re

import pandas as pd
import yaml

from twinrun import artifacts

from .conftest import ROOT


def test_devices_and_acceleration_end_in_the_report(project):
    config = yaml.safe_load((ROOT / "tests/configs/timings.yaml").read_text())
    project.snakemake(config=config, check=0, CUDA_VISIBLE_DEVICES="")
    results = project.directory / "results"
    rounds = pd.read_csv(results / "timings/devices_peaks.csv").query("phase == 'train'")
    assert rounds.groupby("size").size().to_dict() == {100: 5, 200: 5, 400: 5}
    timing = artifacts.read_json(results / "timings/acceleration_peaks.json")
    compiled = {row["phase"]: row for row in timing["compilation"]}
    # First call, two calls of warm-up, 5 rounds of 2; torch compiles in the first alone. The step in
    # one graph comes after a plain one, that in the graph of its own.
    for phase in ("train", "predict"):
        assert (compiled[phase]["calls"], compiled[phase]["compilations"]) == (13, 1)
    contrast = artifacts.read_json(results / "comparisons/peaks/compiled/against/eager/seed1.json")
    assert contrast["answer"] in ("equal", "differs")
    assert contrast["relative_l2"] < 1e-2
    page = re.sub(r"\s+", " ", (results / "report.html").read_text())
    assert "<strong>gpu:</strong> not run, no GPU on this machine." in page
    verdicts = pd.read_csv(results / "verdicts.csv", keep_default_na=False)
    answers = dict(zip(verdicts["variant"], verdicts["answer"], strict=True))
    assert answers["gpu"] == "not run"
    assert verdicts.query("variant == 'compiled'")["question"].tolist() == [
        "Does it train faster than eager?",
        "Does it predict faster than eager?",
        "Are the parameters those of eager, bit for bit?",
    ]
