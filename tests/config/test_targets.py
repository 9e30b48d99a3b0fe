"""What each study and the report ask for."""

from collections import Counter

import pytest
from standard_config import resolved

from twinrun.config.inputs import Inputs
from twinrun.config.targets import Targets

STUDIES = resolved().studies


def of(**sections):
    return Targets(Inputs(resolved(**sections)))


def folders(paths):
    """Count paths by their folder in results/."""
    assert all(path.startswith("results/") for path in paths)
    return Counter(path.split("/")[1] for path in paths)


def names(paths, folder):
    """Name the files in a folder of results/, without their suffix."""
    start = f"results/{folder}/"
    return sorted(p.removeprefix(start).rpartition(".")[0] for p in paths if p.startswith(start))


@pytest.mark.parametrize("study", STUDIES)
def test_a_study_asks_for_what_its_verdicts_rest_on(study):
    targets = of()
    asked = getattr(targets, study)({})
    compared = targets.inputs.comparisons_of_study({"study": study})
    assert compared
    assert {*compared, *targets.inputs.timings_of_study({"study": study})} <= {*asked}
    assert {*targets.inputs.locations_of_study({"study": study})} <= {*asked}


@pytest.mark.parametrize("study", STUDIES)
def test_a_study_asks_for_each_file_once(study):
    assert max(Counter(getattr(of(), study)({})).values()) == 1


def test_every_study_of_the_schema_is_known():
    """The standard config runs all of them, and `all` joins the chosen ones."""
    targets = of()
    joined = targets.studies({})
    assert joined == [path for study in STUDIES for path in getattr(targets, study)({})]
    assert of(studies=["sweep", "devices"]).studies({}) == [
        *targets.sweep({}),
        *targets.devices({}),
    ]


def test_a_missing_file_of_a_run_is_made_again():
    """Two workloads, two variants, one seed, two repeats; of each run three files."""
    asked = of(studies=["reproducibility"]).reproducibility({})
    assert folders(asked) == {
        "runs": 24,
        "comparisons": 4,
        "locations": 4,
        "timings": 2,
        "figures": 13,
    }
    run = "results/runs/denoiser/deterministic/seed1/repeat2"
    files = [path for path in asked if path.startswith(run)]
    assert files == [f"{run}/{f}" for f in ("weights.safetensors", "steps.csv", "fingerprints.npz")]


def test_figures_of_reproducibility():
    asked = of(reproducibility={"workloads": ["factorization"]}).reproducibility({})
    drawn = ["cost", "curves", "first_layer", "growth", "layers", "operations"]
    assert names(asked, "figures/reproducibility/factorization") == drawn
    single = {"workloads": ["factorization"], "variants": ["deterministic"]}
    asked = of(reproducibility=single).reproducibility({})
    assert names(asked, "figures/reproducibility/factorization") == drawn[1:]  # nothing is timed


def test_images_are_drawn_of_what_shows_them():
    asked = of().reproducibility({})
    assert [path for path in asked if path.endswith("/strip.svg")] == [
        "results/figures/reproducibility/denoiser/strip.svg"
    ]


@pytest.mark.parametrize(
    ("study", "figures"),
    [
        ("devices", ["peaks/sizes", "peaks/surfaces"]),
        ("acceleration", ["digits/speeds"]),
        ("parallel", ["digits-short/speedup"]),
        ("sweep", ["digits/trials"]),
        ("matrix", ["digits-few/cells"]),
        ("resume", []),
    ],
)
def test_figures_of_the_other_studies(study, figures):
    assert names(getattr(of(), study)({}), f"figures/{study}") == figures


def test_surfaces_are_drawn_of_what_shows_them_and_sizes_of_what_is_timed():
    asked = of(devices={"workloads": ["digits"], "variants": ["cpu"]}).devices({})
    assert names(asked, "figures/devices") == ["digits/sizes"]
    shown = {"digits": {"shows": {"surface": ["a", "b"]}}}
    asked = of(workloads=shown, devices={"workloads": ["digits"], "variants": ["cpu"]}).devices({})
    assert names(asked, "figures/devices") == ["digits/sizes", "digits/surfaces"]


@pytest.mark.parametrize(
    "study", ["reproducibility", "devices", "acceleration", "parallel", "sweep"]
)
def test_a_study_without_a_variant_that_can_run_here_asks_for_nothing(study):
    assert getattr(of(**{study: {"variants": ["gpu"]}}), study)({}) == []


def test_of_a_baseline_that_cannot_run_here_the_matrix_is_made_all_the_same():
    """It says of each cell why it did not run."""
    asked = of(studies=["matrix"], matrix={"baseline": "gpu", "changes": []}).matrix({})
    assert folders(asked) == {"matrix": 1, "figures": 1}


def test_runs_of_a_matrix_are_trained_once():
    """Every cell is compared with the same run of the baseline."""
    asked = of(studies=["matrix"], matrix={"changes": [{"threads": 4}]}).matrix({})
    assert folders(asked)["runs"] == 4  # baseline, repeat, change, other seed


def test_runs_of_resume():
    asked = of(studies=["resume"], resume={"stops": ["epoch_end"]}).resume({})
    assert folders(asked) == {"runs": 3, "resumes": 1}


def test_datasets_that_are_made_and_used():
    asked = of(studies=["reproducibility"]).datasets({})
    assert names(asked, "data") == ["digits", "ratings"]
    assert names(asked, "figures/data") == ["digits"]
    assert of(studies=["devices"]).datasets({}) == []  # peaks computes its own


def test_the_report_reads_run_json_alone_of_runs():
    targets = of()
    read = targets.read_by_report({})
    asked = {*targets.studies({})}
    assert {path.rpartition(".")[2] for path in read} == {"json", "svg"}
    runs = [path for path in read if path.startswith("results/runs/")]
    assert {path.rpartition("/")[2] for path in runs} == {"run.json"}
    assert folders(runs)["runs"] == len({path.rpartition("/")[0] for path in runs})
    folders_of_runs = {path.rpartition("/")[0] for path in asked if "/runs/" in path}
    assert {path.rpartition("/")[0] for path in runs} == folders_of_runs
    others = {path for path in asked if path.endswith((".json", ".svg"))}
    assert {*read} - others <= {*runs}
