"""Real trainings on the scale of noise: what is planted in them is worth what it should be."""

import pytest
from example_trainings import VARIANT, arguments

from twinrun.comparison.noise import weigh as measure
from twinrun.comparison.noise_records import read_noise
from twinrun.luck.scale import scale_of
from twinrun.luck.worth import weigh
from twinrun.process.launching import environment_of, launch

WORKLOAD = {
    "module": "planted:Classifier",
    "data": "planted:Blobs",
    "dataset": None,
    "hyperparameters": {"learning_rate": 0.02},
    "epochs": 2,
}
# Accumulated gradients are the same sums in another order.
CHANGES = {
    "accumulate": {"accumulate": 5},
    "rate": {"environment": {"PLANTED": "rate"}},
    "class": {"environment": {"PLANTED": "class"}},
}


def trained(folder, *, seed=1, perturbation=0, repeat=1, changes=None):
    variant = VARIANT | (changes or {})
    asked = arguments(folder, WORKLOAD, variant, seed=seed)
    asked["run"]["identity"] |= {"perturbation": perturbation, "repeat": repeat}
    variables = environment_of(
        seed=seed, deterministic=True, threads=variant["threads"], further=variant["environment"]
    )
    launch("twinrun.training.train:train", asked, variables)
    return str(folder / "run.json")


# Three perturbations are few: by its own rate one change in ten that only rounds is not called so,
# and which one that is depends on the machine's arithmetic.
@pytest.mark.exhaustive
def test_planted_changes_of_a_real_training(tmp_path):
    runs = [
        ("reference", "seed 1", trained(tmp_path / "reference")),
        ("repeat", "repeat", trained(tmp_path / "repeat", repeat=2)),
        *(
            ("perturbation", f"one ULP {k}", trained(tmp_path / f"ulp{k}", perturbation=k))
            for k in range(1, 4)
        ),
        *(("seed", f"seed {k}", trained(tmp_path / f"seed{k}", seed=k)) for k in range(2, 5)),
        *(("change", name, trained(tmp_path / name, changes=of)) for name, of in CHANGES.items()),
    ]
    listed = [
        {"kind": kind, "label": label, "study": "noise", "run": run, "not_run": None}
        for kind, label, run in runs
    ]
    names = {"workload": "blobs", "variant": "plain", "seed": 1, "left_out": []}
    files = {"steps": tmp_path / "n.steps.csv", "summary": tmp_path / "n.json"}
    measure(listed, **names, **files)
    table = read_noise(tmp_path / "n.json")
    assert table["runs"][1]["answer"] == "equal"
    assert set(table["runs"][1]["values"].values()) == {
        0.0,
        table["runs"][0]["values"]["test_accuracy"],
    }
    found = {run["label"]: weigh(scale_of(table), run).answer for run in table["runs"]}
    assert found["accumulate"] == "no more than rounding"
    assert found["rate"] == found["class"] == "more than another seed"
