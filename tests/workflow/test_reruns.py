"""What a change makes Snakemake do again: change -> rules, by dry runs of a finished demo."""

import contextlib
import os
import shutil

import pytest
from standard_config import merged

from .conftest import ROOT

FIGURES_OF_RUNS = {"first_layer": 1, "layers": 1, "operations": 1, "growth": 1, "curves": 1}
END = {"judge": 1, "verdicts": 1, "report": 1, "all": 1}


@contextlib.contextmanager
def edited(project, file, old, new):
    """Edit a file of the project's copy, and put it back."""
    path = project.source / file
    before = path.read_text()
    assert old in before
    path.write_text(before.replace(old, new, 1))
    try:
        yield
    finally:
        path.write_text(before)


def test_a_second_run_starts_no_job(demo, demo_config):
    done = demo.snakemake(config=demo_config, check=0)
    assert "Nothing to be done" in done.text


@pytest.mark.exhaustive
def test_the_workflows_own_snakefile_reruns_nothing(demo, demo_config):
    """The top-level one includes it: scripts and sources are the same files."""
    assert demo.jobs(config=demo_config, snakefile="workflow/Snakefile") == {}


def test_snakemakes_own_report_has_captions_code_and_figures(demo, demo_config):
    page = demo.directory / "provenance.html"
    demo.snakemake("--report", str(page), config=demo_config, check=0)
    html = page.read_text()
    for caption in ("operations", "curves", "verdicts", "workflow"):
        text = (demo.source / f"workflow/report/{caption}.rst").read_text()
        assert " ".join(text.split()[:5]) in " ".join(html.split())
    assert "compare_seeds" in html
    assert "Reproducibility" in html


@pytest.mark.one_in(8)
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            {"workloads": {"factorization": {"hyperparameters": {"learning_rate": 0.02}}}},
            {
                "train": 4,
                "compare_repeats": 2,
                "locate": 2,
                "timing": 1,
                "cost": 1,
                **FIGURES_OF_RUNS,
                **END,
            },
        ),
        (
            {"variants": {"deterministic": {"threads": 1}}},
            {
                "train": 4,
                "compare_repeats": 2,
                "locate": 2,
                "timing": 2,
                "cost": 2,
                **dict.fromkeys(FIGURES_OF_RUNS, 2),
                **END,
            },
        ),
        (
            {"reproducibility": {"seeds": [2]}},
            {
                "train": 8,
                "compare_repeats": 4,
                "locate": 4,
                "strip": 1,
                **dict.fromkeys(FIGURES_OF_RUNS, 2),
                **END,
            },
        ),
        # A further seed trains its own runs only; the lowest is the one that is drawn in full.
        (
            {"reproducibility": {"seeds": [1, 2]}},
            {
                "train": 8,
                "compare_repeats": 4,
                "locate": 4,
                **dict.fromkeys(["operations", "growth", "curves"], 2),
                **END,
            },
        ),
        (
            {"reproducibility": {"cost": {"rounds": 7}}},
            {"timing": 2, "cost": 2, **END},
        ),
        (
            {"datasets": {"ratings": {"parameters": {"noise": 0.6}}}},
            {
                "prepare": 1,
                "train": 4,
                "compare_repeats": 2,
                "locate": 2,
                "timing": 1,
                "cost": 1,
                **FIGURES_OF_RUNS,
                **END,
            },
        ),
        # A variant has its colour from the place among all, and the page lists all of them.
        (
            {"variants": {"unused": {"threads": 1}}},
            {"cost": 2, **dict.fromkeys(FIGURES_OF_RUNS, 2), "report": 1, "all": 1},
        ),
    ],
    ids=[
        "hyperparameter",
        "variant",
        "seed",
        "further seed",
        "rounds",
        "dataset",
        "unused variant",
    ],
)
def test_a_changed_config_reruns_what_depends_on_it(demo, demo_config, change, expected):
    assert demo.jobs(config=merged(demo_config, change)) == expected


@pytest.mark.one_in(15)
@pytest.mark.parametrize(
    ("file", "old", "new", "expected"),
    [
        (
            "src/twinrun/workloads/factorization.py",
            "* 0.1",
            "* 0.2",
            {
                "train": 4,
                "compare_repeats": 2,
                "locate": 2,
                "timing": 1,
                "cost": 1,
                **FIGURES_OF_RUNS,
                **END,
            },
        ),
        (
            "src/twinrun/data/ratings.py",
            "rank**-0.25",
            "rank**-0.5",
            {
                "prepare": 1,
                "train": 4,
                "compare_repeats": 2,
                "locate": 2,
                "timing": 1,
                "cost": 1,
                **FIGURES_OF_RUNS,
                **END,
            },
        ),
        (
            "src/twinrun/figures/growth.py",
            "relative L2 distance",
            "L2 distance",
            {"growth": 2, "report": 1, "all": 1},
        ),
        ("workflow/report/growth.rst", "e", "é", {}),
        ("workflow/report/style.css", "{", " {", {"report": 1, "all": 1}),
        ("src/twinrun/config/reference.py", "def reference(", "def page(", {}),
        ("config.yaml", "# The full-size studies.", "# Full-size studies.", {}),
        # Of what is hashed: only what it does counts, and how a failure is worded does not.
        ("src/twinrun/workloads/factorization.py", '"""', '"""A changed docstring: ', {}),
        ("src/twinrun/training/train.py", "\nimport", "\n# A comment.\nimport", {}),
        ("src/twinrun/errors.py", "out of memory (", "too little memory (", {}),
        ("workflow/scripts/train.py", "\nif __name__", "\n# A comment.\nif __name__", {}),
        (
            "workflow/scripts/train.py",
            "threads=cores",
            "threads=int(cores)",
            {
                "train": 8,
                "compare_repeats": 4,
                "locate": 4,
                "strip": 1,
                **dict.fromkeys(FIGURES_OF_RUNS, 2),
                **END,
            },
        ),
        (
            "workflow/scripts/growth.py",
            "if __name__",
            "print()\nif __name__",
            {"growth": 2, "report": 1, "all": 1},
        ),
    ],
    ids=[
        "workload",
        "data maker",
        "figure style",
        "caption",
        "page style",
        "docs",
        "comment in the config",
        "docstring",
        "comment",
        "sentence of an error",
        "comment in a script",
        "training script",
        "figure script",
    ],
)
def test_a_changed_source_reruns_what_depends_on_it(demo, demo_config, file, old, new, expected):
    with edited(demo, file, old, new):
        assert demo.jobs(config=demo_config) == expected


def test_a_fresh_checkout_of_the_same_sources_reruns_nothing(demo, demo_config):
    """Of every file: rules, scripts, package, schema, templates, environments, profiles, config."""
    files = [file for file in demo.source.rglob("*") if file.is_file() and not file.is_symlink()]
    assert demo.source / "workflow/scripts/train.py" in files
    for file in files:
        fresh = file.with_name(f"{file.name}.fresh")
        shutil.copyfile(file, fresh)
        fresh.replace(file)
    assert demo.jobs(config=demo_config) == {}


def test_touched_inputs_of_the_same_content_rerun_nothing(demo, demo_config):
    files = [
        file
        for folder in ("data", "runs", "comparisons", "locations", "timings", "verdicts")
        for file in (demo.directory / "results" / folder).rglob("*")
        if file.is_file()
    ]
    assert len({file.suffix for file in files}) > 3
    for file in files:
        file.touch()
    assert demo.jobs(config=demo_config) == {}


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("file", "rule"),
    [
        ("figures/reproducibility/denoiser/curves.svg", "curves"),
        ("runs/denoiser/deterministic/seed1/repeat2/weights.safetensors", "train"),
        ("comparisons/reproducibility/denoiser/deterministic.json", "compare_repeats"),
        ("locations/reproducibility/denoiser/deterministic.json", "locate"),
        ("timings/determinism_denoiser.json", "timing"),
    ],
)
def test_a_missing_artifact_is_made_again(demo, demo_config, file, rule):
    path = demo.directory / "results" / file
    moved = path.rename(path.with_suffix(".moved"))
    try:
        jobs = demo.jobs(config=demo_config)
    finally:
        moved.rename(path)
    assert jobs[rule] == 1
    others = {"train", "compare_repeats", "timing", "prepare"} - {rule, "compare_repeats"}
    assert not others & set(jobs)


@pytest.mark.exhaustive  # a minute; tests/gate/test_stale.py sees what is hashed
def test_a_changed_sister_package_reruns_the_training(project):
    """A package beside the user's own, which he imports, decides what is trained."""
    mine = project.directory / "mine"
    shutil.copytree(ROOT / "tests/own_module", mine)
    sister = project.directory / "elsewhere/sister.py"
    sister.parent.mkdir()
    sister.write_text("def scale(loss):\n    return loss\n")
    model = mine / "spirals_model.py"
    model.write_text("import importlib\n\nimportlib.import_module('sister')\n" + model.read_text())
    there = {"PYTHONPATH": str(sister.parent)}
    run = "results/runs/mine/deterministic/seed1/repeat1/run.json"
    project.snakemake(run, "--configfile", "mine/config.yaml", check=0, **there)
    assert (
        "Nothing to be done"
        in project.snakemake(run, "--configfile", "mine/config.yaml", check=0, **there).text
    )
    sister.write_text("import time\n\n\ndef scale(loss):\n    return loss * time.time()\n")
    jobs = project.jobs(run, "--configfile", "mine/config.yaml", **there)
    assert jobs["train"] == 1


@pytest.mark.exhaustive  # minutes; by the same parameter as a changed package
@pytest.mark.parametrize("dataset", ["notes.csv", "notes"])
def test_a_data_file_that_an_older_one_replaces_reruns_the_training(project, dataset):
    """Red before: Snakemake goes by times, and `mv`, `cp -p`, `tar` and `rsync` keep them."""
    mine = project.directory / "mine"
    shutil.copytree(ROOT / "tests/own_module", mine)
    data = mine / "spirals_data.py"
    data.write_text(data.read_text().replace("points: int = 600", "path, points: int = 600"))
    config = (mine / "config.yaml").read_text().replace("epochs:", "dataset: notes\n    epochs:")
    (mine / "config.yaml").write_text(f"{config}datasets: {{notes: {{file: {dataset}}}}}\n")
    notes = project.directory / (dataset if dataset == "notes.csv" else f"{dataset}/notes.csv")
    notes.parent.mkdir(exist_ok=True)
    notes.write_text("1,2\n")
    run = "results/runs/mine/deterministic/seed1/repeat1/run.json"
    options = ("--configfile", "mine/config.yaml")
    project.snakemake(run, *options, check=0)
    assert "Nothing to be done" in project.snakemake(run, *options, check=0).text
    notes.touch()
    assert "Nothing to be done" in project.snakemake(run, *options, check=0).text
    other = project.directory / "other.csv"
    other.write_text("1,3\n")
    os.utime(other, ns=(0, 0))
    other.rename(notes)
    assert project.jobs(run, *options)["train"] == 1


def test_a_table_that_a_dataset_is_made_of_makes_it_again(project):
    """Red before: what its function reads by itself was known to nobody."""
    rows = project.directory / "rows.csv"
    rows.write_text("1,2\n")
    made = project.directory / "made.py"
    made.write_text(
        "import numpy as np\n\ndef rows():\n    return {'x': np.loadtxt('rows.csv', delimiter=',')}"
    )
    config = project.directory / "made.yaml"
    config.write_text("datasets: {rows: {make: 'made:rows'}}\n")
    target = ("results/data/rows.npz", "--configfile", "made.yaml")
    there = {"PYTHONPATH": str(project.directory)}
    project.snakemake(*target, check=0, **there)
    assert project.jobs(*target, **there) == {}
    rows.write_text("1,3\n")
    assert project.jobs(*target, **there) == {"prepare": 1}
