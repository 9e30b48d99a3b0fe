"""What the workflow would do, from dry runs."""

import re

import pytest

from twinrun.config import memory

from .conftest import ROOT

REPEATS = {"studies": ["reproducibility"]}
DIRECT = {"prepare": 2, "train": 8, "compare_repeats": 4, "timing": 2}
FULL = {
    "prepare": 3,
    "train": 75,
    "compare_repeats": 7,
    "compare_variants": 4,
    "compare_change": 23,
    "timing": 4,
    "scaling": 1,
    "rank": 1,
}
# Twenty-three changes, a repeat and another seed.
MATRIX = {"prepare": 1, "train": 24, "compare_change": 23}
NO_GPU = {"CUDA_VISIBLE_DEVICES": ""}
SELDOM = pytest.mark.exhaustive  # a dry run takes seconds


def seldom(*values):
    """Mark the cases of a table that differ from their neighbours in little."""
    return pytest.param(*values, marks=SELDOM)


def compute(jobs):
    """Keep the rules that compute."""
    return {rule: jobs[rule] for rule in FULL if rule in jobs}


def test_a_fresh_clone_dry_runs_the_full_size_studies(project):
    assert compute(project.jobs(**NO_GPU)) == FULL


def test_a_dry_run_imports_neither_torch_nor_pandas(project):
    """And its jobs ask for the memory that the last rehearsal measured."""
    sizes = dict.fromkeys(memory.Sizes.__annotations__, 5) | {
        "peak_memory_mb": 12_000,
        "loader_workers": 0,
    }
    foreseen = dict.fromkeys(memory.Foreseen.__annotations__, 0) | {"precision": "32-true"}
    found = memory.Measured(sizes=sizes, foreseen=foreseen, steps_per_epoch=7)
    measured = {"denoiser": found}
    memory.write(measured, project.directory / memory.SIZES)
    done = project.snakemake("--dry-run", check=0, PYTHONPROFILEIMPORTTIME="1")
    rules = re.findall(r"^rule (\w+):\n(?:.+\n)*?    resources: .*mem_mb=(\d+)", done.text, re.M)
    asked = {rule: {number for name, number in rules if name == rule} for rule, _ in rules}
    for rule in ("train", "locate", "timing"):
        assert {"4000", "15200"} <= asked[rule]
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "twinrun.config.settings" in imported
    assert not imported & {"torch", "pytorch_lightning", "pandas", "seaborn", "matplotlib"}


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"reproducibility": {"seeds": [1, 2, 3]}}, {**DIRECT, "train": 24}),
        seldom({"reproducibility": {"repeats": 4}}, {**DIRECT, "train": 16}),
        (
            {"reproducibility": {"workloads": ["factorization"]}},
            {"prepare": 1, "train": 4, "compare_repeats": 2, "timing": 1},
        ),
        seldom(
            {"reproducibility": {"variants": ["deterministic"]}},
            {"prepare": 2, "train": 4, "compare_repeats": 2},
        ),
        seldom({"studies": ["matrix"]}, MATRIX),
        (
            {"studies": ["matrix"], "matrix": {"changes": [{"threads": 4}]}},
            {"prepare": 1, "train": 4, "compare_change": 3},
        ),
        # What this machine cannot run is left out; of a baseline that it cannot, everything.
        seldom(
            {"studies": ["matrix"], "matrix": {"changes": [{"accelerator": "gpu"}]}},
            {"prepare": 1, "train": 3, "compare_change": 2},
        ),
        (
            {"studies": ["matrix"], "matrix": {"baseline": "gpu", "changes": [{"threads": 1}]}},
            {"prepare": 1},  # the data is made and shown all the same
        ),
    ],
)
def test_the_config_decides_what_is_run(project, config, expected):
    assert compute(project.jobs(config=REPEATS | config, **NO_GPU)) == expected


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("config", "expected"),
    [
        seldom({"studies": ["devices"]}, {"train": 2, "compare_variants": 1, "timing": 1}),
        (
            {"studies": ["devices"], "accelerator": "gpu"},
            {"train": 4, "compare_variants": 3, "timing": 1},
        ),
        seldom(
            {"studies": ["devices"], "devices": {"seeds": [1, 2, 3], "variants": ["cpu"]}},
            {"train": 3, "timing": 1},
        ),
        seldom({"studies": ["devices"], "devices": {"variants": ["gpu"]}}, {}),
        seldom(
            {"studies": ["acceleration"]},
            {"prepare": 1, "train": 2, "compare_variants": 1, "timing": 1},
        ),
        seldom(
            {"studies": ["acceleration"], "acceleration": {"workloads": ["peaks", "digits"]}},
            {"prepare": 1, "train": 4, "compare_variants": 2, "timing": 2},
        ),
        seldom(
            {"studies": ["acceleration"], "acceleration": {"variants": ["eager"]}},
            {"prepare": 1, "train": 1},
        ),
        (
            {"studies": ["parallel"], "parallel": {"repeats": 3}},
            {"prepare": 1, "train": 9, "compare_repeats": 3, "compare_variants": 2, "scaling": 1},
        ),
        seldom(
            {"studies": ["parallel"], "variants": {"two-workers": {"batch_norm": "synchronised"}}},
            {"prepare": 1, "train": 4, "compare_repeats": 2, "compare_variants": 1, "scaling": 1},
        ),
        # Two studies of the same runs: each compares as many repeats as it asks for.
        (
            {
                "studies": ["parallel", "reproducibility"],
                "reproducibility": {
                    "workloads": ["digits-short"],
                    "variants": ["one-worker"],
                    "repeats": 5,
                },
            },
            {"prepare": 1, "train": 9, "compare_repeats": 4, "compare_variants": 2, "scaling": 1},
        ),
        (
            {"studies": ["sweep"], "sweep": {"seeds": [1, 2], "workloads": ["digits", "peaks"]}},
            {"prepare": 1, "train": 24, "rank": 2},
        ),
    ],
)
def test_studies_of_variants_compare_them_with_the_first(project, config, expected):
    assert compute(project.jobs(config=config, **NO_GPU)) == expected


@pytest.mark.exhaustive
def test_a_users_config_alone_yields_only_his_study(project):
    folder = ROOT / "tests/own_module"
    (project.directory / "mine").mkdir()
    for file in folder.glob("*"):
        if file.is_file():
            (project.directory / "mine" / file.name).write_text(file.read_text())
    jobs = project.jobs("--configfile", "mine/config.yaml")
    assert compute(jobs) == {"train": 4, "compare_repeats": 2, "timing": 1}


@pytest.mark.exhaustive
def test_one_study_is_a_target(project):
    jobs = project.jobs("reproducibility")
    assert compute(jobs) == DIRECT
    assert "report" not in jobs


@pytest.mark.one_in(2)
@pytest.mark.parametrize("accelerator", ["gpu", "auto"])
def test_a_missing_gpu_leaves_its_runs_out_unless_promised(project, accelerator):
    config = REPEATS | {
        "accelerator": accelerator,
        "variants": {"deterministic": {"accelerator": "gpu"}},
    }
    jobs = project.jobs(config=config, CUDA_VISIBLE_DEVICES="")
    assert jobs["train"] == (8 if accelerator == "gpu" else 4)


def test_the_gate_asks_for_what_it_judges(project):
    config = REPEATS | {"require": {"deterministic_pair": "equal", "fingerprint": "expected.json"}}
    jobs = project.jobs("gate", config=config)
    assert compute(jobs) == DIRECT
    assert (jobs["require"], jobs["gate"]) == (1, 1)
    assert "report" not in jobs


def test_the_pairs_of_any_study_that_repeats_can_be_located(project):
    """Of the study parallel, which does not ask for it."""
    location = "results/locations/parallel/digits-short/serial.json"
    jobs = project.jobs("--config", "studies=[parallel]", "--", location, **NO_GPU)
    assert jobs == {"prepare": 1, "train": 2, "compare_repeats": 1, "locate": 1}
