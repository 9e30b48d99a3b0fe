"""A network that has become NaN is known by its weights, whatever it is measured to be."""

import pytest
import torch
from example_trainings import HERE, VARIANT, WORKLOAD, arguments
from exploding import (
    Averages,
    ByHand,
    Explodes,
    HandsOn,
    LossIsInfinite,
    LossIsNaN,
    Masked,
    NormalizesNothing,
    Once,
    Overflows,
    Skips,
    SkipsAFew,
    Sorts,
    Sparse,
)

from twinrun import artifacts
from twinrun.errors import TwinrunError
from twinrun.process.launching import environment_of, launch
from twinrun.training.without_numbers import why_no_result, without_numbers

NAN_LOSS = "its loss is NaN in each step of its last epoch"
NO_LOSS = "no step of its last epoch has a finite loss"


EACH = [
    (Sorts, None, []),
    (Masked, None, []),
    (Explodes, "its weights are NaN or infinite (hidden.bias and 3 more tensors)", []),
    (Averages, None, ["running is NaN"]),
    (NormalizesNothing, "its weights are NaN or infinite (norm.running_mean)", []),
    (LossIsNaN, NAN_LOSS, []),
    (LossIsInfinite, None, [NO_LOSS]),
    (HandsOn, None, []),
    (Skips, None, [NO_LOSS]),
    (SkipsAFew, None, []),
    (ByHand, None, []),
    (Overflows, "all numbers that it predicts are NaN", []),
]
# Red before: of a training without a whole trace nobody looked at the losses.
THINNED = [(LossIsNaN, None, NAN_LOSS), (SkipsAFew, {"every": 5}, None)]


@pytest.fixture(scope="module")
def manifests(request, tmp_path_factory):
    """What each left, all trained in one process, by its class and by what of it is traced."""
    folder = tmp_path_factory.mktemp("each")
    here = [each for each in request.session.items if each.path == request.path]
    cases = [each.callspec.params for each in here if hasattr(each, "callspec")]
    wanted = {case["network"] for case in cases if {"reason", "doubts"} <= case.keys()}
    asked = [(network, {}) for network, *_ in EACH if network in wanted]
    asked += [(network, {"trace": trace}) for network, trace, _ in THINNED]
    runs, folders = [], {}
    for number, (network, variant) in enumerate(asked):
        place = folders[network, *variant] = folder / str(number)
        place.mkdir()
        runs.append(arguments(place, workload_of(network), VARIANT | variant)["run"])
    variables = environment() | {"PYTHONPATH": HERE}
    launch("training_together:train_each", {"runs": runs}, variables)
    return {key: artifacts.read_json(place / "run.json") for key, place in folders.items()}


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("network", "reason", "doubts"), EACH)
def test_a_run_says_whether_it_left_a_result(manifests, network, reason, doubts):
    manifest = manifests[(network,)]
    assert manifest["ended"] == "finished"
    assert (manifest["no_result"], manifest["doubts"]) == (reason, doubts)
    if network is Explodes:
        assert manifest["metrics"]["test_accuracy"] == 1.0


@pytest.mark.parametrize(("network", "trace", "reason"), THINNED)
def test_losses_are_looked_at_in_every_step_whatever_is_traced(manifests, network, trace, reason):
    manifest = manifests[network, "trace"]
    assert (manifest["no_result"], manifest["doubts"]) == (reason, [])


@pytest.mark.exhaustive
@pytest.mark.parametrize("variant", [{"devices": 2}, {"accumulate": 2}], ids=str)
def test_losses_are_those_of_whole_mini_batches(tmp_path, variant):
    assert trained(tmp_path, LossIsNaN, trace=None, **variant)["no_result"] == NAN_LOSS


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("network", "doubts", "resume"),
    [
        (Once, [], "twinrun"),
        *(
            pytest.param(*case, marks=pytest.mark.exhaustive)
            for case in [
                (Once, [], "lightning"),
                (Skips, [NO_LOSS], "twinrun"),
                (Skips, [NO_LOSS], "lightning"),
            ]
        ),
    ],
)
def test_a_resumed_training_knows_the_losses_of_before(tmp_path, network, doubts, resume):
    """It is stopped in its last epoch, behind the only step of it that has a loss.

    Red before: the stop itself was a failure, since its process ends at once.
    """
    stop = {"stop": "mid_epoch", "resume": resume}
    manifest = trained(tmp_path, network, epochs=2, trace=None, **stop)
    assert len(manifest["resumed_at"]) == 1
    assert (manifest["no_result"], manifest["doubts"]) == (None, doubts)


@pytest.mark.exhaustive
def test_what_is_refused_keeps_the_words_of_its_refusal(tmp_path):
    with pytest.raises(TwinrunError, match=r"of Sparse is torch\.sparse_csr, which cannot"):
        trained(tmp_path, Sparse)


def trained(folder, network, *, epochs=3, **variant):
    asked = arguments(folder, workload_of(network, epochs), VARIANT | variant)
    for is_stopped in [True, False] if "stop" in variant else [False]:
        asked["is_stopped"] = is_stopped
        launch(
            "twinrun.training.train:train", asked, environment(), workers=variant.get("devices", 1)
        )
    return artifacts.read_json(folder / "run.json")


def workload_of(network, epochs=3):
    return WORKLOAD | {"module": f"exploding:{network.__name__}", "epochs": epochs}


def environment():
    return environment_of(seed=1, deterministic=True, threads=VARIANT["threads"])


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


def test_of_a_training_without_a_step_there_is_no_doubt_about_a_loss():
    """Red at 959891d6: a run that was refused before its first step was called in doubt."""
    assert why_no_result(torch.nn.Linear(1, 1), [], {}, None, 0) == (None, [])
    assert why_no_result(torch.nn.Linear(1, 1), [], {}, None, 1) == (None, [NO_LOSS])
