"""What a replayed step does not see: recorded anew, or the run is in doubt."""

import late_in_replays as modules
import numpy as np
import pytest
from example_trainings import HERE, VARIANT, WORKLOAD, arguments

from twinrun import artifacts
from twinrun.process.launching import environment_of, launch

# Red before: nothing was said of any, and the weights were not those of plain steps.
NAMED = {
    "Warm": "Warm.training_step reads current_epoch",
    "WarmInAHelper": "WarmInAHelper.weight reads global_step",
    "Lazy": "Lazy.shared reads the number of the batch",
    "Share": "what Share.drop.p was",
    "Scale": "what Scale.scale was",
    "Hyperparameter": "what Hyperparameter.hparams.width was",
    "OfTheFile": "what late_in_replays.SCALE was",
    "Loss": "what Loss.distance was",
    "Tensor": "what Tensor.centre was",
    "OfACallback": "what OfACallback.scale was",
}
RECORDED_ANEW = ["Buffer", "Frozen", "Layer", "LossLayer", "Shrinks", "Hook", "Moments"]
UNCHANGED = ["Usual", "HandsTheNumberOn"]


@pytest.fixture(scope="module")
def trained(request, tmp_path_factory):
    """Train what is asked for, captured in one process and the same without in another."""
    folder = tmp_path_factory.mktemp("late")
    here = [each for each in request.session.items if each.path == request.path]
    asked = list(dict.fromkeys(each.callspec.params["name"] for each in here))
    places = {}
    for function, is_captured, names in (
        ("late_in_replays:train_captured", True, asked),
        ("training_together:train_each", False, [each for each in asked if each in RECORDED_ANEW]),
    ):
        runs = []
        for name in names:
            place = places[name, is_captured] = folder / f"{name}-{is_captured}"
            place.mkdir()
            workload = WORKLOAD | {
                "module": f"late_in_replays:{name}",
                "data": None,
                "hyperparameters": {},
                "epochs": modules.LATE + 1,
                "test": False,
                "predict": False,
            }
            variant = VARIANT | {"deterministic": False, "cuda_graph": is_captured}
            runs.append(arguments(place, workload, variant)["run"])
        variables = environment_of(seed=1, deterministic=False, threads=VARIANT["threads"])
        launch(function, {"runs": runs}, variables | {"PYTHONPATH": HERE})
    return places


def manifest_of(trained, name):
    manifest = artifacts.read_json(trained[name, True] / "run.json")
    assert manifest["ended"] == "finished"
    return manifest


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", NAMED)
def test_what_changes_behind_a_recording_and_is_not_seen_puts_the_run_in_doubt(trained, name):
    (doubt,) = manifest_of(trained, name)["doubts"]
    assert NAMED[name] in doubt
    assert "cuda_graph" in doubt


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", RECORDED_ANEW)
def test_a_step_is_recorded_anew_where_layers_memory_modes_or_hooks_are_others(trained, name):
    assert manifest_of(trained, name)["doubts"] == []
    captured, plain = (
        artifacts.read_tensors(trained[name, which] / "weights.safetensors")
        for which in (True, False)
    )
    for key, weight in plain.items():
        np.testing.assert_allclose(captured[key], weight, rtol=1e-3, atol=1e-5, err_msg=key)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", UNCHANGED)
def test_a_usual_step_is_not_in_doubt(trained, name):
    assert manifest_of(trained, name)["doubts"] == []
