"""Tensors that are replaced, that come late, or that no module holds, are traced and compared."""

import pytest
from auditing import audit, compared, in_this_process, train, workload

from twinrun import artifacts


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch):
    with in_this_process(monkeypatch):
        yield


def first_of(found):
    first = found["first_difference"]
    return first["step"], first["quantity"], first["tensor"]


def audited(folder, module):
    return audit(folder, module=module, faults="faults_of_tensors")


def test_a_buffer_that_is_assigned_anew(tmp_path):
    found, location = audited(tmp_path, "ReassignedBuffer")
    assert first_of(found) == (3, "buffers", "running")
    assert "faults_of_tensors.py" in location["op"]["source"]


def test_a_buffer_that_comes_late(tmp_path):
    found, location = audited(tmp_path, "LateBuffer")
    assert first_of(found) == (3, "buffers", "late")
    assert location["op"]["op"] == "aten::add_"


def test_a_layer_that_is_replaced(tmp_path):
    found, location = audited(tmp_path, "ReplacedLayer")
    assert first_of(found) == (3, "gradients", "second.weight")
    assert location["op"]["phase"] == "backward"


def test_weights_that_an_optimizer_trains_and_no_module_holds(tmp_path):
    found, _ = audited(tmp_path, "HiddenNetwork")
    assert found["answer"] == "differs"
    # Its weight and its bias, and nothing of the module.
    assert found["parameters"]["tensors_differing"] == 2
    assert first_of(found) == (0, "initial parameters", "optimizer 0, group 0, parameter 7")


def test_gradients_of_such_weights(tmp_path):
    found, location = audited(tmp_path, "HiddenGradient")
    assert first_of(found)[:2] == (3, "gradients")
    assert location["op"]["phase"] == "backward"


def test_such_weights_are_among_the_files_of_a_run(tmp_path):
    settings = workload("HiddenNetwork", faults="faults_of_tensors")
    run = train(tmp_path, 1, settings)
    kept = artifacts.read_tensors(run.with_name("weights.safetensors"))
    shapes = {name: kept[name].shape for name in kept if "optimizer" in name}
    assert sorted(shapes.values()) == [(1,), (1, 4)]


def test_gradients_are_seen_where_torchs_own_optimizer_steps(tmp_path):
    found, location = audited(tmp_path, "TorchsOwnStep")
    assert first_of(found) == (3, "gradients", "first.bias")
    op = location["op"]
    assert (op["phase"], op["op"]) == ("backward", "aten::add")


def test_a_skipped_batch_shifts_no_state(tmp_path):
    settings = workload("SkipsTheRest", faults="faults_of_tensors") | {"epochs": 3}
    found = compared(tmp_path, [train(tmp_path, repeat, settings) for repeat in (1, 2)])
    assert first_of(found) == (4, "RNG states after the step", "torch")
    arrays = artifacts.read_arrays(tmp_path / "plain" / "repeat1" / "fingerprints.npz")
    # What a step leaves is what the next one starts with, but for a shuffle between two epochs.
    assert (arrays["random"][1::2] == arrays["random_after"][::2]).all()


def test_what_another_thread_computes_is_not_said_to_be_outside_of_torch(tmp_path):
    _, location = audited(tmp_path, "AnotherThread")
    assert location["op"]["op"] == "aten::tanh"
    assert "from outside of what is traced (a clock, a set, NumPy" in location["sentence"]
    assert "another thread" in location["sentence"]
