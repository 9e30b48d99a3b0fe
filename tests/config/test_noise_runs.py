"""Which runs are put on the scale of the study noise: those of the same baseline, each once."""

import pytest
from standard_config import resolved

from twinrun.config.inputs import Inputs, perturbed_seed
from twinrun.config.noise_runs import changes, left_out, scale
from twinrun.config.params import Params

FOLDER = "results/runs/digits-few/serial"


def test_the_scale_is_the_reference_its_repeat_perturbations_and_seeds():
    settings = resolved(noise={"seeds": [3, 4], "perturbations": 2})
    found = [(run["kind"], run["run"]) for run in scale(settings, "digits-few", "serial")]
    assert found == [
        ("reference", f"{FOLDER}/seed3/repeat1/run.json"),
        ("repeat", f"{FOLDER}/seed3/repeat2/run.json"),
        ("perturbation", f"{FOLDER}/seed3-ulp1/repeat1/run.json"),
        ("perturbation", f"{FOLDER}/seed3-ulp2/repeat1/run.json"),
        ("seed", f"{FOLDER}/seed4/repeat1/run.json"),
    ]


def test_a_perturbed_run_is_told_its_perturbation_and_trains_from_its_seed():
    params = Params(Inputs(resolved()), [])
    wildcards = {"workload": "digits-few", "variant": "serial", "seed": "7-ulp12", "repeat": "1"}
    found = params.settings_of_run(wildcards)
    assert found["identity"]["seed"] == found["training"]["seed"] == 7
    assert found["identity"]["perturbation"] == 12
    plain = params.settings_of_run({**wildcards, "seed": "7"})
    assert plain["identity"]["perturbation"] == 0
    assert plain["training"] == found["training"]
    assert perturbed_seed("7-ulp12") == (7, 12)


def test_the_cells_of_the_matrix_are_on_the_scale_of_their_baseline():
    settings = resolved()
    found = changes(settings, "digits-few", "serial")
    assert {run["study"] for run in found} == {"matrix"}
    assert len(found) == len(settings.cells) - 2  # neither the repeat nor the seed is a change
    assert found[0]["label"] == "threads: 2"
    assert found[0]["run"] == "results/runs/digits-few/serial-threads-2/seed1/repeat1/run.json"
    assert left_out(settings, "digits-few", "serial") == []


@pytest.mark.parametrize(
    ("noise", "expected"),
    [
        ({"seeds": [2, 3]}, ["matrix, whose baseline is serial, seed 1"]),
        ({"variants": ["eager"]}, ["matrix, whose baseline is serial, seed 1"]),
    ],
)
def test_what_has_another_baseline_is_left_out_by_name(noise, expected):
    settings = resolved(noise=noise)
    variant = settings.config["noise"]["variants"][0]
    assert changes(settings, "digits-few", variant) == []
    assert left_out(settings, "digits-few", variant) == expected


def test_variants_of_other_studies_and_resumed_trainings_are_changes_too():
    settings = resolved(
        noise={"workloads": ["digits", "denoiser-short"], "variants": ["eager", "serial"]}
    )
    (compiled,) = changes(settings, "digits", "eager")
    assert (compiled["study"], compiled["label"]) == ("acceleration", "compiled")
    stopped = changes(settings, "denoiser-short", "serial")
    # Between two micro-batches is compared with a whole training that accumulates too.
    assert len(stopped) == 10
    assert {run["study"] for run in stopped} == {"resume"}
    expected = ["resume, whose baseline is serial-accumulate-2, seed 1"]
    assert left_out(settings, "denoiser-short", "serial") == expected


def test_what_cannot_run_here_says_why():
    settings = resolved(noise={"workloads": ["peaks"], "variants": ["cpu"]})
    found = {run["label"]: run for run in changes(settings, "peaks", "cpu")}
    assert found["cpu-fast"]["not_run"] is None
    # Neither is asked for where there is no GPU.
    assert "gpu" not in found
