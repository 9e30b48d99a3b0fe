"""A network that has become NaN is known by its weights, whatever it is measured to be."""

import pytest
import torch
from example_trainings import VARIANT, WORKLOAD, arguments
from exploding import Averages, ByHand, Explodes, Masked, Overflows, Skips, SkipsAFew, Sorts

from twinrun import artifacts
from twinrun.process.launching import environment_of, launch
from twinrun.training.without_numbers import without_numbers


@pytest.mark.parametrize(
    ("network", "reason"),
    [
        (Sorts, None),
        (Masked, None),
        (Explodes, "its weights are NaN or infinite (hidden.bias and 3 more tensors)"),
        (Averages, "its weights are NaN or infinite (running)"),
        (Skips, "no step of its last epoch has a loss that is a number"),
        (SkipsAFew, None),
        (ByHand, None),
        (Overflows, "all that it predicts as prediction is NaN"),
    ],
)
def test_a_run_says_whether_it_left_a_result(tmp_path, network, reason):
    workload = WORKLOAD | {"module": f"exploding:{network.__name__}"}
    environment = environment_of(seed=1, deterministic=True, threads=VARIANT["threads"])
    launch("twinrun.training.train:train", arguments(tmp_path, workload, VARIANT), environment)
    manifest = artifacts.read_json(tmp_path / "run.json")
    assert manifest["ended"] == "finished"
    assert manifest["no_result"] == reason
    if network is Explodes:
        assert manifest["metrics"]["test_accuracy"] == 1.0


def test_tensors_of_any_kind_are_looked_at():
    tensors = {
        "half": torch.tensor([1.0, torch.nan], dtype=torch.bfloat16),
        "byte": torch.tensor([torch.nan]).to(torch.float8_e5m2),
        "complex": torch.tensor([complex(torch.nan, 0)]),
        "whole": torch.tensor([1]),
        "none": torch.zeros(0),
        "meta": torch.zeros(2, device="meta"),
        "lazy": torch.nn.UninitializedParameter(),
        "sparse": torch.sparse_coo_tensor([[0]], [torch.nan], (3,)),
    }
    found = without_numbers((name, "buffer", tensor) for name, tensor in tensors.items())
    assert found == {"half", "byte", "complex", "sparse"}
