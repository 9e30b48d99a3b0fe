"""Objects that cannot be looked at cost no answer: their attributes are left out, or named."""

import doctest

import hostile
import pytest
from example_trainings import VARIANT, WORKLOAD, arguments

from twinrun import containers
from twinrun.batches import Opaque, leaves, num_bytes
from twinrun.checkpoint.looks import handles, look
from twinrun.comparison.module_attributes import attribute_fingerprints_of, attributes_of
from twinrun.copied_batches import copied
from twinrun.process.launching import environment_of, launch
from twinrun.timing.own_modules import holds_itself
from twinrun.trace.fingerprints import fingerprint_tree
from twinrun.training.not_held import prints_not_held
from twinrun.values_inside import values_in


def test_the_examples_in_the_docstrings():
    assert doctest.testmod(containers).failed == 0


def test_weights_are_found_beside_them():
    """Red before: a tuple without a length, as e3nn's Irreps, lost the whole training."""
    module = hostile.Holds()
    assert {"closed_key[0]", "hidden.closed_key[0]"} <= prints_not_held(module, []).keys()


@pytest.mark.parametrize("name", hostile.objects())
def test_each_can_be_asked_for_what_it_holds(name):
    value = hostile.objects()[name]
    list(values_in({name: value}, ""))
    assert isinstance(look(value, ()), str)
    list(handles(value, ()))
    assert isinstance(fingerprint_tree([value]), int)
    assert num_bytes([value]) >= 0
    copied([value])


def test_what_refuses_is_said_to_be_opaque():
    found = [leaf for _, leaf in leaves([hostile.Closed(), hostile.NotListed(a=1)])]
    assert found == [Opaque("hostile.Closed"), Opaque("hostile.NotListed")]


def test_replays_and_timings_look_at_them_too():
    module = hostile.Holds()
    assert "calls" not in attributes_of(module)[""]["plain"]
    attribute_fingerprints_of(module)
    assert not holds_itself(module)


@pytest.mark.parametrize(
    "module", ["Holds", pytest.param("HoldsInOptimizer", marks=pytest.mark.exhaustive)]
)
def test_a_module_and_its_data_are_trained_with_them(tmp_path, module):
    """Red before: a key of the data's that cannot be written ended the training."""
    workload = {**WORKLOAD, "module": f"hostile:{module}", "data": "hostile:HoldsToo"}
    launch(
        "twinrun.training.train:train",
        arguments(tmp_path, workload, VARIANT, minutes=0),
        environment_of(seed=1, deterministic=True, threads=1),
    )
    assert (tmp_path / "run.json").exists()
