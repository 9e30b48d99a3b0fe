"""One weight begins one unit in the last place away; everything else begins as it did."""

import numpy as np
import pandas as pd
import pytest
import torch
from example_trainings import VARIANT, WORKLOAD, arguments

from twinrun import artifacts
from twinrun.process.launching import environment_of, launch
from twinrun.run_files import read_run
from twinrun.training.perturbation import Perturbation, perturb


def parameters(dtype=torch.float32):
    return {
        "scale": torch.nn.Parameter(torch.tensor(-1.5, dtype=dtype)),
        "weight": torch.nn.Parameter(torch.full((3, 4), 0.3, dtype=dtype).T),  # not contiguous
        "bias": torch.nn.Parameter(torch.zeros(50, dtype=dtype)),
        "frozen": torch.nn.Parameter(torch.ones(50, dtype=dtype), requires_grad=False),
    }


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_one_weight_moves_by_one_unit_in_the_last_place(dtype):
    before, after = parameters(dtype), parameters(dtype)
    found = perturb(after, 3)
    moved = {
        name: (value - before[name]).nonzero().tolist()
        for name, value in after.items()
        if not torch.equal(value, before[name])
    }
    assert moved == {found["parameter"]: [found["index"]]}
    value = before[found["parameter"]].detach()[tuple(found["index"])]
    assert found["before"] == value.item()
    ulp = torch.finfo(dtype).eps * 2 ** np.floor(np.log2(abs(value.item())))
    assert found["after"] == pytest.approx(value.item() + np.sign(value.item()) * ulp, rel=1e-12)


def large():
    return {
        "small": torch.nn.Parameter(torch.full((100,), 0.3)),
        "weight": torch.nn.Parameter(torch.full((30, 30), 0.3)),
        "bias": torch.nn.Parameter(torch.zeros(50)),
    }


def test_the_number_chooses_the_weight_and_no_weight_that_is_zero():
    chosen = [perturb(large(), number) for number in range(1, 120)]
    assert chosen[:5] == [perturb(large(), number) for number in range(1, 6)]
    assert {found["parameter"] for found in chosen} == {"small", "weight"}
    # Each weight is as probable: of ten one is small; 119 draws, three standard errors.
    share = sum(found["parameter"] == "small" for found in chosen) / len(chosen)
    assert share == pytest.approx(0.1, abs=0.083)


def test_each_number_takes_another_weight_as_long_as_there_are_some():
    """Red before: of 13 weights the first ten numbers took some twice, and all were counted."""
    chosen = [perturb(parameters(), number) for number in range(1, 16)]
    places = [(found["parameter"], *found["index"]) for found in chosen[:13]]
    assert len(set(places)) == 13
    assert chosen[13:] == [None, None]


def test_nothing_else_is_drawn_and_where_no_weight_can_be_changed_none_is():
    state = torch.get_rng_state()
    assert perturb({"bias": torch.nn.Parameter(torch.zeros(3))}, 1) is None
    assert perturb({}, 1) is None
    assert perturb(parameters(), 1) is not None
    assert torch.equal(torch.get_rng_state(), state)


def test_a_resumed_training_is_not_perturbed_again():
    first, second = Perturbation(1), Perturbation(1)
    module = torch.nn.Linear(2, 2)
    trainer = type("Trainer", (), {"optimizers": []})()
    first.on_train_epoch_start(trainer, module)
    second.load_state_dict(first.state_dict())
    weights = {name: value.clone() for name, value in module.state_dict().items()}
    second.on_train_epoch_start(trainer, module)
    assert second.found == first.found is not None
    assert all(torch.equal(value, weights[name]) for name, value in module.state_dict().items())


@pytest.mark.exhaustive
def test_a_run_begins_with_the_change_and_records_it(tmp_path):
    folders = {}
    for number in (0, 2):
        folders[number] = tmp_path / str(number)
        asked = arguments(folders[number], WORKLOAD, VARIANT)
        asked["run"]["identity"] |= {"perturbation": number}
        variables = environment_of(seed=1, deterministic=True, threads=VARIANT["threads"])
        launch("twinrun.training.train:train", asked, variables)
    plain, changed = (read_run(folder / "run.json") for folder in folders.values())
    assert (plain["perturbation"], plain["perturbed"]) == (0, None)
    assert changed["perturbation"] == 2
    found = changed["perturbed"]
    assert (
        abs(np.float32(found["after"]).view(np.int32) - np.float32(found["before"]).view(np.int32))
        == 1
    )
    # The trace begins with the changed weight, and with the same batch and random numbers.
    first, other = (pd.read_csv(f / "steps.csv").loc[0] for f in folders.values())
    assert first["before"] != other["before"]
    assert [first[of] for of in ("batch", "random")] == [other[of] for of in ("batch", "random")]
    weights = [artifacts.read_tensors(f / "weights.safetensors") for f in folders.values()]
    apart = max(abs(weights[0][n] - weights[1][n]).max() for n in weights[0])
    assert 0 < apart < 1e-5
