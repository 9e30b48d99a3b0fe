"""Steps that a callback tries ahead of the training of several workers."""

import numpy as np
import pandas as pd
import pytest
from example_trainings import VARIANT, WORKLOAD, arguments

from twinrun import artifacts
from twinrun.process.launching import environment_of, launch

WORKLOAD = {**WORKLOAD, "module": "tries_steps:Tries", "data": "tries_steps:Halves", "epochs": 5}


def trained(folder, devices):
    variant = {**VARIANT, "precision": "64-true", "threads": 1, "devices": devices}
    launch(
        "twinrun.training.train:train",
        arguments(folder, WORKLOAD, variant),
        environment_of(seed=1, deterministic=True, threads=1),
        workers=devices,
    )
    return folder


@pytest.mark.exhaustive
def test_a_learning_rate_that_workers_find_is_that_of_whole_mini_batches(tmp_path):
    """Red before: Lightning refused what was logged within the finder's steps and after them."""
    one, two = (trained(tmp_path / str(devices), devices) for devices in (1, 2))
    curves = [pd.read_csv(folder / "epochs.csv") for folder in (one, two)]
    assert curves[0].rate[0] != 0.05
    np.testing.assert_allclose(*curves, rtol=1e-9)
    weights = [artifacts.read_tensors(folder / "weights.safetensors") for folder in (one, two)]
    for name, expected in weights[0].items():
        assert weights[1][name] == pytest.approx(expected, rel=1e-9), name
    assert artifacts.read_json(two / "run.json")["departures"] == []
