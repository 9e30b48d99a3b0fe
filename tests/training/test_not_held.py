"""What a training moves and neither its module nor Lightning's optimizers hold is found."""

import doctest

import pytest
import torch
from comparing import compared
from example_trainings import VARIANT, WORKLOAD, arguments
from training_apart import GLOBAL, Beside, Held, Templated, by_hand

from twinrun import held_elsewhere, run_files
from twinrun.held_elsewhere import leaves_alive
from twinrun.process.launching import environment_of, launch
from twinrun.training.not_held import began_with, prints_not_held


def test_the_examples_in_the_docstrings():
    assert doctest.testmod(held_elsewhere).failed == 0


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("object", {"agent.net.weight", "agent.net.bias"}),
        ("slotted", {"agent.net.weight", "agent.net.bias"}),
        ("list", {"agent[0].net.weight", "agent[0].net.bias"}),
        ("closure", {"SGD, group 0, parameter 0", "SGD, group 0, parameter 1"}),
        ("partial", {"SGD, group 0, parameter 0", "SGD, group 0, parameter 1"}),
        ("global", {"SGD, group 0, parameter 0", "SGD, group 0, parameter 1"}),
        ("by hand", {"a tensor of shape [4, 1]"}),
    ],
)
def test_weights_are_found_wherever_they_lie(kind, names):
    """Red before: none of them was named."""
    module = Beside(kind)
    before = prints_not_held(module, [])
    module._update(torch.ones(2, 4), torch.ones(2, 1))
    found = prints_not_held(module, [])
    GLOBAL.clear()
    assert found.keys() >= names
    assert all(found[name] != before.get(name) for name in names)
    repeated = Beside(kind)
    del module  # whose own would still be found
    repeated._update(torch.ones(2, 4), torch.ones(2, 1))
    assert any(prints_not_held(repeated, [])[name] != found[name] for name in names)
    GLOBAL.clear()


def test_what_lightning_holds_is_none_of_it():
    module = Held()
    optimizer = module.configure_optimizers()
    assert "own, group 0, parameter 0" not in prints_not_held(module, [optimizer])
    assert "kept[0].weight" not in prints_not_held(module, [optimizer])
    assert "kept[0].weight" in prints_not_held(module, [])


def test_no_property_is_asked_and_no_circle_walked_twice():
    class Asked:
        def __init__(self):
            self.itself, self.many = self, [torch.zeros(1, requires_grad=True)] * 3

        @property
        def weight(self):
            raise AssertionError

    module = torch.nn.Linear(1, 1)
    module.asked = Asked()
    assert "asked.many[0]" in prints_not_held(module, [])


def test_a_tensor_of_one_step_that_somebody_still_holds_is_not_compared():
    """Red before: two trainings that repeat differed, by what a thread or a failure had kept."""
    module, kept = torch.nn.Linear(4, 1), by_hand()
    alive = leaves_alive()
    kept(torch.ones(2, 4), torch.ones(2, 1))
    image = torch.rand(3, 4, requires_grad=True)
    module(image).sum().backward()
    found = prints_not_held(module, [], (alive, {}))
    assert found["a tensor of shape [4, 1]"]["prints"] != [""]
    assert found["a tensor of shape [3, 4], made in the training"]["prints"] == [""]
    assert not any(each["is_reached"] for each in found.values())


def test_what_is_as_it_was_where_the_training_began_was_not_trained():
    """Red before: an input that a network is differentiated by was named like a weight."""
    module = Beside("object")
    points = torch.rand(3, 4, requires_grad=True)
    module.points = [points]
    began = began_with(leaves_alive(), {id(p) for p in module.parameters()})
    module._update(torch.ones(2, 4), torch.ones(2, 1))
    module.agent.net(points).sum().backward()
    module.points += [torch.ones(1, requires_grad=True)]  # made later: nobody knows
    found = prints_not_held(module, [], began)
    still = {name for name, each in found.items() if each["is_still"]}
    assert still & {"points[0]", "points[1]", "agent.net.weight", "agent.net.bias"} == {"points[0]"}


def test_lightnings_copy_of_the_hyperparameters_is_no_weight_that_is_trained():
    """Red before: a condition of 14 names, each of a tensor that nothing trains."""
    assert prints_not_held(Templated(torch.nn.Linear(4, 1)), []).keys() == {"points"}


@pytest.mark.exhaustive
def test_a_training_knows_what_it_began_with(tmp_path):
    workload = {**WORKLOAD, "module": "training_apart:Templated", "epochs": 1}
    workload["hyperparameters"] = {"size": 40}
    asked = arguments(tmp_path / "run", workload, VARIANT)
    environment = environment_of(seed=1, deterministic=True, threads=VARIANT["threads"])
    launch("twinrun.training.train:train", asked, environment)
    found = run_files.read_run(tmp_path / "run/run.json")["not_held"]
    assert {name: each["is_still"] for name, each in found.items()} == {"points": True}


def test_a_view_that_may_not_be_asked_ends_no_training():
    """Red before: "A view was created in no_grad mode and its base ... has been modified"."""
    module, base = torch.nn.Linear(1, 1), torch.zeros(2)
    with torch.no_grad():
        module.part = base[:1]
    base.add_(torch.ones(2, requires_grad=True))
    with pytest.raises(RuntimeError, match="created in no_grad mode"):
        assert module.part.is_leaf
    assert id(module.part) not in leaves_alive()
    assert "part" not in prints_not_held(module, [])


@pytest.mark.exhaustive
def test_a_pair_that_trains_another_network_beside_its_own_differs(tmp_path):
    """Red before: `equal`, and nothing beside it, of a pair that ended in other weights."""
    workload = {**WORKLOAD, "module": "training_apart:Beside", "epochs": 1}
    workload["hyperparameters"] = {"kind": "slotted", "size": 40}
    runs = []
    for repeat in (1, 2):
        asked = arguments(tmp_path / f"repeat{repeat}", workload, VARIANT)
        asked["run"]["identity"]["repeat"] = repeat
        environment = environment_of(seed=1, deterministic=True, threads=VARIANT["threads"])
        launch("twinrun.training.train:train", asked, environment)
        runs.append(tmp_path / f"repeat{repeat}" / "run.json")
    assert run_files.read_run(runs[0])["not_held"].keys() == {"agent.net.weight", "agent.net.bias"}
    assert compared(tmp_path, *runs)[0]["answer"] == "differs"
