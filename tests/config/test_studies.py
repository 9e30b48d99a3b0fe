"""What each study asks for."""

import importlib
from collections import Counter
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
import yaml
from example_trainings import VARIANT
from standard_config import resolved

from twinrun.config.definitions import Variant
from twinrun.config.inputs import Inputs
from twinrun.config.reference import SCHEMA
from twinrun.config.studies import STUDIES
from twinrun.config.timed_variants import untimed, why_untimed
from twinrun.errors import TwinrunError
from twinrun.verdicts.studies import STUDIES as VERDICTS

ROOT = Path(__file__).parents[2]


def study(name, **sections):
    return STUDIES[name](name, Inputs(resolved(**sections)))


def folders(paths):
    """Count paths by their folder in results/."""
    assert all(path.startswith("results/") for path in paths)
    return Counter(path.split("/")[1] for path in paths)


def names(paths, folder):
    """Name the files in a folder of results/, without their suffix."""
    start = f"results/{folder}/"
    return sorted(p.removeprefix(start).rpartition(".")[0] for p in paths if p.startswith(start))


def test_a_study_stands_in_each_of_the_places_that_the_recipe_names():
    """In CONTRIBUTING.md: the schema, the class, the verdicts, the section and its template."""
    schema = yaml.safe_load(SCHEMA.read_text())["properties"]
    assert schema["studies"]["items"]["enum"] == list(STUDIES)
    assert {*STUDIES} <= schema.keys()
    assert VERDICTS.keys() == STUDIES.keys()
    for name in STUDIES:
        assert callable(importlib.import_module(f"twinrun.report.{name}").section)
        assert (ROOT / f"workflow/report/sections/{name}.html.j2").exists()
    assert len(list(ROOT.glob("workflow/report/sections/*.j2"))) == len(STUDIES)


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_leaves_what_its_verdicts_rest_on(name):
    found = study(name)
    assert found.compared()
    assert {*found.compared(), *found.timed(), *found.located()} <= {*found.results({})}


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_that_the_config_does_not_list_is_no_target(name):
    """Nothing has checked or rehearsed it, and it has no cells, stops or timings."""
    others = [other for other in STUDIES if other != name][:2]
    with pytest.raises(TwinrunError) as refused:
        study(name, studies=others).results({})
    first, second = others
    assert str(refused.value) == (
        f"studies: is [{first}, {second}], and the target {name} is a study that is not among "
        f"them; list it to run it, studies: [{first}, {second}, {name}]"
    )


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_asks_for_each_file_once(name):
    assert max(Counter(study(name).results({})).values()) == 1


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("reproducibility", ["comparisons/reproducibility/peaks/serial.json"]),
        ("devices", []),
        ("parallel", ["comparisons/parallel/peaks/serial.json"]),
        ("sweep", ["sweeps/peaks.json"]),
        ("contest", ["contests/digits-few/serial.json"]),
        ("matrix", ["matrix/peaks.json"]),
        ("resume", ["resumes/peaks/serial.json"]),
        ("noise", ["noise/peaks/serial.json"]),
    ],
)
def test_the_verdicts_of_a_study_rest_on_what_it_compared(name, expected):
    section = {"workloads": ["peaks"], **({} if name == "matrix" else {"variants": ["serial"]})}
    found = study(name, studies=[name], **{name: section}).compared()
    assert found == [f"results/{path}" for path in expected]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, ["noise/peaks/serial.json"]),
        ({"epochs": 2000}, ["noise/peaks/serial.json"]),
        ({"epochs": 2}, []),
        ({"seeds": [1, 2]}, []),
        ({"variants": ["one-worker"]}, []),
        ({"workloads": ["digits"]}, []),
    ],
)
def test_a_sweep_of_one_seed_rests_on_the_noise_of_what_is_trained_alike(change, expected):
    sweep = {"workloads": ["peaks"], "variants": ["serial"], "seeds": [1], "epochs": None}
    noise = {"workloads": ["peaks"], "variants": ["serial"]}
    names = ["sweep", "noise"]
    found = study("sweep", studies=names, sweep={**sweep, **change}, noise=noise).compared()
    assert found[1:] == [f"results/{path}" for path in expected]
    assert study("sweep", studies=["sweep"], sweep=sweep, noise=noise).compared()[1:] == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("reproducibility", ["timings/determinism_denoiser", "timings/determinism_factorization"]),
        ("devices", ["timings/devices_peaks"]),
        ("acceleration", ["timings/acceleration_digits"]),
        ("parallel", ["scaling/digits-short"]),
        ("sweep", []),
        ("contest", []),
        ("matrix", []),
        ("resume", []),
        ("noise", []),
    ],
)
def test_what_a_study_timed(name, expected):
    assert study(name).timed() == [f"results/{path}.json" for path in expected]


def test_only_the_study_reproducibility_looks_for_operations():
    assert [name for name in STUDIES if study(name).located()] == ["reproducibility"]


def test_a_missing_file_of_a_run_is_made_again():
    """Two workloads, two variants, one seed, two repeats; of each run three files."""
    asked = study("reproducibility").results({})
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
    section = {"workloads": ["factorization"]}
    asked = study("reproducibility", reproducibility=section).figures()
    drawn = ["cost", "curves", "first_layer", "growth", "layers", "operations"]
    assert names(asked, "figures/reproducibility/factorization") == drawn
    single = section | {"variants": ["deterministic"]}
    asked = study("reproducibility", reproducibility=single).figures()
    assert names(asked, "figures/reproducibility/factorization") == drawn[1:]  # nothing is timed


@pytest.mark.parametrize(
    ("changes", "without"),
    [
        ({"devices": 2}, "devices: 2"),
        ({"accumulate": 2}, "accumulate: 2"),
        ({"environment": {"MKL_CBWR": "COMPATIBLE"}}, "environment"),
        ({"stop": "epoch_end", "accumulate": 4}, "accumulate: 4 and stop: epoch_end"),
    ],
)
def test_one_process_that_does_whole_steps_is_timed(changes, without):
    assert why_untimed(msgspec.convert(VARIANT, Variant)) is None
    why = why_untimed(msgspec.convert(VARIANT | changes, Variant))
    assert why == f"a timing is one process that does whole steps, without {without}"


def test_what_changes_only_what_a_timing_leaves_out_is_not_timed():
    """Red before: data workers were said to make no difference, by steps without loading."""
    base = msgspec.convert(VARIANT, Variant)
    loads, both = {"data_workers": 2, "logging": True}, {"data_workers": 2, "compile": "module"}
    variants = {"base": base, "loads": replace(base, **loads), "both": replace(base, **both)}
    assert untimed([*variants], variants) == {
        "loads": "a timing leaves out data_workers and logging, and nothing else is other than "
        "under base"
    }


def test_images_are_drawn_of_what_shows_them():
    assert [path for path in study("reproducibility").figures() if path.endswith("/strip.svg")] == [
        "results/figures/reproducibility/denoiser/strip.svg"
    ]


@pytest.mark.parametrize(
    ("name", "figures"),
    [
        ("devices", ["peaks/sizes", "peaks/surfaces"]),
        ("acceleration", ["digits/speeds"]),
        ("parallel", ["digits-short/speedup"]),
        ("sweep", ["digits/trials"]),
        ("contest", []),
        ("matrix", ["digits-few/cells"]),
        ("resume", []),
        ("noise", ["digits-few/serial/divergence", "digits-few/serial/ladder"]),
    ],
)
def test_figures_of_the_other_studies(name, figures):
    assert names(study(name).results({}), f"figures/{name}") == figures


def test_surfaces_are_drawn_of_what_shows_them_and_sizes_of_what_is_timed():
    section = {"workloads": ["digits"], "variants": ["cpu"]}
    assert names(study("devices", devices=section).figures(), "figures/devices") == ["digits/sizes"]
    shown = {"digits": {"shows": {"surface": ["a", "b"]}}}
    asked = study("devices", workloads=shown, devices=section).figures()
    assert names(asked, "figures/devices") == ["digits/sizes", "digits/surfaces"]


@pytest.mark.parametrize(
    "name", ["reproducibility", "devices", "acceleration", "parallel", "sweep"]
)
def test_a_study_without_a_variant_that_can_run_here_asks_for_nothing(name):
    assert study(name, **{name: {"variants": ["gpu"]}}).results({}) == []


def test_of_a_baseline_that_cannot_run_here_the_matrix_is_made_all_the_same():
    """It says of each cell why it did not run."""
    asked = study("matrix", studies=["matrix"], matrix={"baseline": "gpu", "changes": []})
    assert folders(asked.results({})) == {"matrix": 1, "figures": 1}


def test_runs_of_a_matrix_are_trained_once():
    """Every cell is compared with the same run of the baseline."""
    asked = study("matrix", studies=["matrix"], matrix={"changes": [{"threads": 4}]})
    assert len(asked.runs()) == 4  # baseline, repeat, change, other seed


def test_runs_of_resume():
    asked = study("resume", studies=["resume"], resume={"stops": ["epoch_end"]})
    assert folders(asked.results({})) == {"runs": 3, "resumes": 1}


@pytest.mark.parametrize(
    ("section", "contests", "labels"),
    [
        ({"variants": ["serial", "cpu"]}, ["digits-few/cpu", "digits-few/serial"], None),
        (
            {"a": "serial", "b": "cpu", "workloads": ["peaks", "digits"]},
            ["digits/serial", "peaks/serial"],
            {"digits/serial": "serial", "digits/cpu": "cpu"},
        ),
        ({"a": "cpu", "b": "serial"}, ["digits-few/cpu"], None),
        ({"a": "serial", "b": "gpu"}, [], None),
        ({"variants": ["gpu"]}, [], None),
    ],
)
def test_a_contest_is_of_two_workloads_or_of_two_variants(section, contests, labels):
    asked = study("contest", studies=["contest"], contest=section | {"seeds": [1, 2]})
    assert names(asked.compared(), "contests") == contests
    assert len(asked.runs()) == 4 * len(contests)
    if labels:
        workload, variant = contests[0].split("/")
        wildcards = {"workload": workload, "variant": variant}
        assert asked.inputs.candidates(wildcards) == labels
        assert {*asked.inputs.runs_of_contest(wildcards)} < {*asked.runs()}


def test_noise_shares_the_runs_of_other_studies():
    """Of eleven runs the contest has five, the matrix the repeat: the perturbations are new."""
    every = {name: {*study(name).results({})} for name in ("contest", "matrix", "noise")}
    runs = {path for path in every["noise"] if path.startswith("results/runs/")}
    new = runs - every["contest"] - every["matrix"]
    folder = "results/runs/digits-few/serial"
    assert new == {f"{folder}/seed1-ulp{k}/repeat1/run.json" for k in range(1, 6)}
    assert len(runs) == 11
