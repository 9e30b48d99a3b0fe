"""A network that has become NaN is known by its weights, whatever it is measured to be."""

import pytest
import torch
from example_trainings import VARIANT, WORKLOAD, arguments
from exploding import (
    Averages,
    ByHand,
    Explodes,
    HandsOn,
    LossIsInfinite,
    LossIsNaN,
    Masked,
    NormalizesNothing,
    Overflows,
    Skips,
    SkipsAFew,
    Sorts,
    Sparse,
)

from twinrun import artifacts
from twinrun.errors import TwinrunError
from twinrun.process.launching import environment_of, launch
from twinrun.training.without_numbers import without_numbers

NO_LOSS = "no step of its last epoch has a finite loss"


@pytest.mark.parametrize(
    ("network", "reason", "doubts"),
    [
        (Sorts, None, []),
        (Masked, None, []),
        (Explodes, "its weights are NaN or infinite (hidden.bias and 3 more tensors)", []),
        (Averages, None, ["running is NaN"]),
        (NormalizesNothing, "its weights are NaN or infinite (norm.running_mean)", []),
        (LossIsNaN, "its loss is NaN in each step of its last epoch", []),
        (LossIsInfinite, None, [NO_LOSS]),
        (HandsOn, None, []),
        (Skips, None, [NO_LOSS]),
        (SkipsAFew, None, []),
        (ByHand, None, []),
        (Overflows, "all numbers that it predicts are NaN", []),
    ],
)
def test_a_run_says_whether_it_left_a_result(tmp_path, network, reason, doubts):
    manifest = trained(tmp_path, network)
    assert manifest["ended"] == "finished"
    assert (manifest["no_result"], manifest["doubts"]) == (reason, doubts)
    if network is Explodes:
        assert manifest["metrics"]["test_accuracy"] == 1.0


@pytest.mark.parametrize("network", [SkipsAFew, Skips])
def test_of_a_thinned_trace_the_losses_tell_nothing(tmp_path, network):
    """Red before: the steps that were traced were those that are left out."""
    manifest = trained(tmp_path, network, trace={"every": 5})
    assert (manifest["no_result"], manifest["doubts"]) == (None, [])


def test_what_is_refused_keeps_the_words_of_its_refusal(tmp_path):
    with pytest.raises(TwinrunError, match=r"of Sparse is torch\.sparse_csr, which cannot"):
        trained(tmp_path, Sparse)


def trained(folder, network, **variant):
    workload = WORKLOAD | {"module": f"exploding:{network.__name__}"}
    environment = environment_of(seed=1, deterministic=True, threads=VARIANT["threads"])
    launch(
        "twinrun.training.train:train", arguments(folder, workload, VARIANT | variant), environment
    )
    return artifacts.read_json(folder / "run.json")


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
    assert found == {"half", "byte", "complex"}
