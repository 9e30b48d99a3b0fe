"""The proof of fast steps: planted faults are refused by name, and nothing of it stays behind."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import replay_stand_in
import torch
from example_trainings import VARIANT, WORKLOAD, state_of_this_process
from small import Small

from twinrun.acceleration import between, exact_counts, roundings, whole_step
from twinrun.acceleration.compilation import traced_only
from twinrun.acceleration.cuda_graph import CudaGraph
from twinrun.acceleration.evidence import Recorded
from twinrun.acceleration.proof import compare
from twinrun.config.definitions import Training, Variant, Workload
from twinrun.errors import TwinrunError
from twinrun.training import prove as proving
from twinrun.training import remembered_proofs
from twinrun.training.few_batches import BATCHES, few_of
from twinrun.training.prove import EPOCHS, ShortlyTrained, prove
from twinrun.training.remembered_proofs import proven

HERE = Path(__file__).parents[1]
STEP = Variant(**{**VARIANT, "compile": "step"})


def training_of(name, variant=STEP):
    workload = Workload(
        module=f"ordinary_modules:{name}",
        data="ordinary_modules:Points",
        dataset=None,
        hyperparameters={},
        epochs=3,
    )
    return Training(
        workload=workload,
        variant=variant,
        seed=1,
        dataset=None,
        search_path=[str(HERE / "faithfulness")],
    )


def proof_of(name, variant=STEP):
    with traced_only():
        return prove(training_of(name, variant))


def ignore_hooks(monkeypatch):
    for name in ("of_module", "of_trainer", "of_optimizer", "of_parameters"):
        monkeypatch.setattr(between, name, lambda *_: [])


def freeze_rates(monkeypatch):
    monkeypatch.setattr(whole_step.Update, "read_rates", lambda self: None)


def count_in_float32(monkeypatch):
    monkeypatch.setattr(exact_counts, "COUNTING", ())


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("plant", "name", "first_off"),
    [
        (ignore_hooks, "ClippedByHook", "loss of step 3"),
        (ignore_hooks, "ClippedBeforeStep", "loss of step 3"),
        (ignore_hooks, "ClippedByCallback", "loss of step 3"),
        (ignore_hooks, "AroundBackward", "loss of step 3"),
        (ignore_hooks, "WarmUp", "loss of step 4"),
        (ignore_hooks, "AverageByOptimizerHook", "buffer average"),
        (ignore_hooks, "HookFromSecondEpoch", "loss of step 5"),
        (freeze_rates, "StepSchedule", "loss of step 4"),
        (freeze_rates, "EpochSchedule", "loss of step 5"),
        (count_in_float32, "Plain", "loss of step 3"),
    ],
)
def test_a_planted_fault_is_refused_by_the_first_value_that_is_off(
    plant, name, first_off, monkeypatch
):
    plant(monkeypatch)
    message = rf"compile: step does not compute .*{first_off} is \S+ off, .* \(in 64-true"
    with pytest.raises(TwinrunError, match=message):
        proof_of(name)


@pytest.mark.parametrize("changes", [{"optimizer": "foreach"}, {"compile": "step"}], ids=str)
def test_state_in_float32_beside_parameters_in_float64_is_rounded_so(changes):
    """Red before, `foreach`: "eta is 9.3e-08 off, where rounding explains 1.5e-08"."""
    variant = Variant(**{**VARIANT, **changes})
    exact, own = proof_of("KeepsRatesInFloat32", variant)["legs"]
    assert exact["precision"] == "64-true"
    assert exact["distance"] < 1e-6
    assert own["distance"] < 1e-6
    # What is no proof in float64 widens no bound.
    assert own["bound"] == roundings.bound_of(roundings.EPSILONS["ieee"], is_proven=False)


@pytest.mark.exhaustive
@pytest.mark.parametrize("compile_", ["step", "module"])
def test_random_numbers_that_nothing_uses_are_drawn_in_a_proof_too(compile_):
    """Red before: generated code draws them, and the proof's tracing left them out."""
    exact, own = proof_of("DrawsForNothing", Variant(**{**VARIANT, "compile": compile_}))["legs"]
    assert max(exact["distance"], own["distance"]) < 1e-6


def test_another_computation_is_seen_beside_state_in_float32(monkeypatch):
    ignore_hooks(monkeypatch)
    with pytest.raises(TwinrunError, match="loss of step 3"):
        proof_of("KeepsRatesAndClips")


def test_a_proof_says_what_it_rests_on():
    found = proof_of("ClippedByHook")
    assert (found["steps"], found["shapes"]) == (6, 2)
    assert found["in_parts"] == "configure_gradient_clipping of ClippedByHook"
    assert found["not_in_float64"] is None
    exact, own = found["legs"]
    assert (exact["precision"], exact["bound"]) == ("64-true", pytest.approx(1.49e-8, rel=1e-3))
    assert (own["precision"], own["bound"]) == ("32-true", pytest.approx(4.92e-3, rel=1e-3))
    for leg in (exact, own):
        assert leg["distance"] <= leg["bound"]
        assert leg["left_out"] == leg["unrepeated"] == 0
        assert leg["losses"] == {"judged": 6, "of": 6}
        assert leg["parameters"]["judged"] == leg["parameters"]["of"] == 4
    # What is logged was judged in float64.
    assert exact["judged"] > 2 * own["losses"]["of"] + own["parameters"]["of"]
    assert 10 <= own["judged"] < exact["judged"]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"compile": "step"}, "parameter probe.net.weight, outside the module is .* off"),
        ({"optimizer": "foreach"}, None),
    ],
    ids=str,
)
def test_weights_outside_the_module_are_compared(changes, refusal):
    """Red before: a probe that no compiled step trained was proven, by the module's parameters."""
    training = Training(
        workload=Workload(**{**WORKLOAD, "module": "training_apart:Probed"}),
        variant=Variant(**{**VARIANT, **changes}),
        seed=1,
        dataset=None,
        search_path=[str(HERE)],
    )
    with traced_only():
        if refusal is None:
            own = prove(training)["legs"][-1]
            assert own["parameters"] == {"judged": 6, "of": 6}
        else:
            with pytest.raises(TwinrunError, match=refusal):
                prove(training)


def test_what_only_rounding_decides_is_left_out():
    """The gradient of a bias before batch normalisation is rounding; Adam makes a step of it."""
    own = proof_of("BatchNorm", replace(STEP, compile="none", optimizer="foreach"))["legs"][1]
    # The bias, the statistic that it moves, and what the optimizer keeps of it.
    assert 0 < own["left_out"] <= 5
    assert own["judged"] == 22
    assert own["parameters"]["judged"] == own["parameters"]["of"] - 1


@pytest.mark.exhaustive
def test_a_bias_of_0_before_batch_normalisation_is_no_false_alarm():
    """In float64 its gradient is 1e-17, far from what another order of sums makes of it."""
    training = Training(
        workload=Workload(**{**WORKLOAD, "module": "small:Normalised"}),
        variant=STEP,
        seed=1,
        dataset=None,
        search_path=[str(HERE)],
    )
    with traced_only():
        exact, own = prove(training)["legs"]
    for leg in (exact, own):
        assert leg["left_out"] > 0
        assert leg["judged"] > leg["left_out"]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_all_weights_are_perturbed_by_one_unit_in_any_precision(dtype):
    module = torch.nn.Linear(50, 50).to(dtype)
    before = module.weight.detach().clone()
    epsilon = torch.finfo(dtype).eps
    roundings.perturb(module.parameters(), epsilon)
    moved = ((module.weight - before) / before).abs()
    assert moved.min() > 0.4 * epsilon
    assert moved.max() < 1.6 * epsilon


def test_only_what_is_rounded_is_perturbed():
    """Red before: a frozen count made every proof fail."""
    module = torch.nn.Linear(2, 2)
    module.count = torch.nn.Parameter(torch.tensor([3]), requires_grad=False)
    module.phase = torch.nn.Parameter(torch.tensor([1 + 1j]))
    before = {name: each.detach().clone() for name, each in module.named_parameters()}
    roundings.perturb(module.parameters(), 1e-3)
    for name, each in module.named_parameters():
        assert torch.equal(each, before[name]) == (name == "count")
        torch.testing.assert_close(each.detach(), before[name], rtol=1e-2, atol=0)


def test_a_module_that_knows_no_float64_is_proven_in_its_own_precision(monkeypatch):
    own_leg = proving._leg

    def leg(training, own, train, **options):
        if training.variant.precision == "64-true":
            raise RuntimeError("expected Float but found Double")
        assert options.get("proven") is None  # so that the narrow bound holds
        return own_leg(training, own, train, **options)

    monkeypatch.setattr(proving, "_leg", leg)
    found = proof_of("Plain", replace(STEP, compile="none", optimizer="foreach"))
    assert found["not_in_float64"] == "RuntimeError: expected Float but found Double"
    assert [leg["precision"] for leg in found["legs"]] == ["32-true"]


def test_generators_and_switches_are_as_before():
    """The environment is that of the seed: `prove_apart` keeps it in processes of their own."""
    before = state_of_this_process()
    proof_of("Dropout", replace(STEP, compile="none", optimizer="foreach"))
    assert state_of_this_process() == before


def test_a_plain_variant_has_no_proof():
    variant = Variant(**VARIANT)
    assert proven(training_of("Plain", variant)) == (None, None)


def test_a_run_that_is_refused_says_so(monkeypatch):
    ignore_hooks(monkeypatch)
    # A planted fault is in this process alone.
    monkeypatch.setattr(remembered_proofs, "prove_apart", lambda training: (prove(training), {}))
    with traced_only():
        proof, refusal = proven(training_of("ClippedByHook"))
    assert proof is None
    assert refusal.startswith("refused: compile: step does not compute what the plain step")


def test_one_batch_an_epoch_is_proven_over_several_steps():
    workload = replace(training_of("Plain").workload, data="ordinary_modules:OneBatch")
    variant = replace(STEP, compile="none", optimizer="foreach")
    found = prove(replace(training_of("Plain", variant), workload=workload))
    assert (found["steps"], found["shapes"]) == (6, 1)


def test_the_last_batch_of_many_is_among_those_that_are_proven():
    training = Training(
        workload=Workload(**{**WORKLOAD, "hyperparameters": {"size": 1003}}),
        variant=Variant(**{**VARIANT, "optimizer": "foreach"}),
        seed=1,
        dataset=None,
        search_path=[str(HERE)],
    )
    assert prove(training)["shapes"] == 2


def evidence(**numbers):
    return Recorded(numbers=numbers, tensors={})


def judged(plain, *, again=None, perturbed=None, fast=None, **options):
    """Compare; what is not given is as in the plain training."""
    again, perturbed, fast = (plain if of is None else of for of in (again, perturbed, fast))
    return compare(
        plain,
        again,
        [plain, perturbed],
        fast,
        **{"precision": "64-true", "epsilon": 2.0**-52, **options},
    )


def compared(plain, **others):
    return judged(plain, **others).leg


def test_the_least_difference_is_told():
    """Red before: a distance of 0 was said of whatever rounding leaves of a value."""
    plain = evidence(**{"the loss of a": 1.0, "the loss of b": 1e-9})
    assert compared(plain)["distance"] == 0.0
    for fast, told in (((1.0 + 2**-50, 1e-9), 2**-50), ((1.0, 1e-9 + 2**-60), 2**-60)):
        found = evidence(**dict(zip(plain.numbers, fast, strict=True)))
        assert compared(plain, fast=found)["distance"] == pytest.approx(told, rel=1e-3, abs=0)


@pytest.mark.parametrize(
    ("fast", "message"),
    [
        ({"loss": 1.0}, None),
        ({"loss": 1.0 + 1e-9}, None),
        ({"loss": 1.0 + 1e-7}, "loss is 1e-07 off, where rounding explains 1.5e-08"),
        ({"loss": float("nan")}, "loss is inf off"),
        ({}, "loss is there in the plain training only"),
        ({"loss": 1.0, "other": 2.0}, "other is there in the fast training only"),
    ],
)
def test_numbers_are_compared(fast, message):
    plain = evidence(loss=1.0)

    def comparison():
        return compared(plain, fast=evidence(**fast))

    if message is None:
        assert comparison()["fixed"] == 1
    else:
        with pytest.raises(TwinrunError, match=message):
            comparison()


def test_a_value_of_another_shape_is_told_with_both_shapes():
    plain = Recorded(tensors={"buffer seen": torch.zeros(3, 2)})
    fast = Recorded(tensors={"buffer seen": torch.zeros(4)})
    words = "buffer seen has the shape 4 in the fast training and 3x2 in the plain one"
    with pytest.raises(TwinrunError, match=words):
        compared(plain, fast=fast)


def test_a_diverged_training_is_compared_too():
    plain = evidence(first=float("nan"), second=float("inf"))
    found = compared(plain)
    assert (found["fixed"], found["distance"]) == (2, 0.0)
    other = evidence(first=float("nan"), second=float("-inf"))
    with pytest.raises(TwinrunError, match="second is inf off"):
        compared(plain, fast=other)


NUMBERS = [0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 1e308, -1e308]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("expected", NUMBERS)
@pytest.mark.parametrize("found", NUMBERS)
@pytest.mark.parametrize("among", [[], [1.0, 2.0]], ids=["alone", "among others"])
def test_no_number_passes_for_another_one(expected, found, among):
    """Red before: a gradient of NaN where the plain one is 0 was not off."""
    plain, fast = (
        Recorded(
            numbers={},
            tensors={"gradient of w": torch.tensor([value, *among], dtype=torch.float64)},
        )
        for value in (expected, found)
    )

    def comparison():
        return compared(plain, fast=fast)

    if expected == found or (math.isnan(expected) and math.isnan(found)):
        assert comparison()["distance"] == 0.0
    else:
        with pytest.raises(TwinrunError, match=r"gradient of w is .* off"):
            comparison()


def test_after_float64_a_flipped_class_is_no_other_computation_and_a_wrong_weight_is():
    """An accuracy over 64 samples jumps by 1/64 where a logit crosses another one."""

    def evidence(accuracy=0.5, weight=1.0):
        return Recorded(
            numbers={"the loss of step 1": 1.0, "accuracy of step 1": accuracy},
            tensors={"parameter w": torch.full((3,), weight)},
        )

    def leg(fast, **options):
        options |= {"precision": "32-true", "epsilon": torch.finfo(torch.float32).eps}
        return compared(evidence(), fast=fast, **options)

    proven = frozenset(["the loss of step 1", "parameter w"])
    with pytest.raises(TwinrunError, match="accuracy of step 1 is"):
        leg(evidence(accuracy=0.5 + 1 / 64))
    assert leg(evidence(accuracy=0.5 + 1 / 64), proven=proven)["judged"] == 1
    with pytest.raises(TwinrunError, match="parameter w is"):
        leg(evidence(weight=1.01), proven=proven)
    # The wide bound is for what float64 has shown, not for what stands beside it.
    assert leg(evidence(weight=1.001), proven=proven)["distance"] > 3.5e-4
    with pytest.raises(TwinrunError, match="parameter w is"):
        leg(evidence(weight=1.001), proven=frozenset(["the loss of step 1"]))


@pytest.mark.parametrize("batches", [3, 34, 35, 36, 40])
def test_a_last_partial_batch_is_among_the_batches_of_a_proof(batches):
    data = torch.utils.data.TensorDataset(torch.arange(2 * batches - 1.0))
    loader = torch.utils.data.DataLoader(data, batch_size=2)
    assert len(loader) == batches
    assert {len(batch[0]) for batch in few_of(loader)} == {1, 2}


def recorded(loss=1.0, weight=1.0, count=3.0, decisive=("the loss of step 2", "parameter w")):
    """A training of two steps, with one parameter."""
    return Recorded(
        numbers={"the loss of step 1": 1.0, "the loss of step 2": loss},
        tensors={
            "parameter w": torch.tensor([weight]),
            "optimizer step of w": torch.tensor([count]),
        },
        decisive=set(decisive),
    )


def test_counters_and_rates_are_counted_apart():
    """Red before: they were values like any other."""
    found = judged(recorded(), perturbed=recorded(loss=1 + 1e-12, weight=1 + 1e-12))
    assert found.why_none is None
    assert (found.leg["judged"], found.leg["fixed"], found.leg["left_out"]) == (3, 1, 0)
    assert found.leg["losses"] == {"judged": 2, "of": 2}
    assert found.leg["parameters"] == {"judged": 1, "of": 1}


def test_counters_alone_prove_nothing():
    """Red before: `yes`, by the counters and the first loss."""
    found = judged(recorded(), perturbed=recorded(loss=2.0, weight=2.0))
    assert (found.leg["judged"], found.leg["fixed"], found.leg["left_out"]) == (1, 1, 2)
    assert found.why_none.startswith("rounding alone moves every loss after the first update")


def test_what_does_not_repeat_is_told_from_what_rounding_moves():
    """Red before: both were what rounding moves too far."""
    found = judged(recorded(), again=recorded(loss=2.0, weight=2.0))
    assert (found.leg["unrepeated"], found.leg["left_out"]) == (2, 0)
    assert found.why_none == (
        "the plain training does not repeat by itself, so that there is nothing to compare with "
        "(the loss of step 2 is 1 off in a second one)"
    )


def test_a_training_that_moves_nothing_proves_nothing():
    found = judged(recorded(decisive=()))
    assert found.why_none.startswith("its first steps move no parameter")


STUCK = replace(STEP, compile="none", optimizer="foreach")


def small_training(module):
    workload = Workload(**{**WORKLOAD, "module": module, "hyperparameters": {}})
    return Training(workload=workload, variant=STUCK, seed=1, dataset=None, search_path=[str(HERE)])


def test_a_training_by_the_clock_is_not_proven_and_the_reason_is_its_own():
    with pytest.raises(TwinrunError, match="was not proven: the plain training does not repeat"):
        prove(small_training("state_outside:Clocked"))


def test_a_log_of_the_clock_is_left_out_alone():
    exact, own = prove(small_training("state_outside:LogsTheClock"))["legs"]
    assert exact["unrepeated"] > 0
    assert exact["left_out"] == own["left_out"] == own["unrepeated"] == 0
    assert exact["parameters"]["judged"] == exact["parameters"]["of"] == 4


def test_what_rests_on_rounding_alone_is_not_proven(monkeypatch):
    """Every loss after the first update, and every parameter, is beyond what can be compared."""
    monkeypatch.setattr("twinrun.training.prove.noise_of", lambda epsilon: 0.5)
    with pytest.raises(TwinrunError, match="was not proven: rounding alone moves every loss"):
        prove(small_training("small:Small"))


@pytest.mark.parametrize(("meets_it", "is_refused"), [({0}, False), ({4}, False), (set(), True)])
def test_an_event_that_rounding_may_cause_is_looked_for_before_a_refusal(meets_it, is_refused):
    """Red before: refused where the one perturbed training had not met it, by chance."""
    draws = []

    def train(asked):
        is_moved = asked.training.variant.optimizer == "foreach"  # the fast one has met it
        if asked.perturbation:
            draws.append(asked.draw)
            is_moved = asked.draw in meets_it
        shift = 1e-3 if is_moved else 0.0
        evidence = recorded(weight=1 + shift, loss=1 + 1e-12 * asked.draw)
        return ShortlyTrained(evidence=evidence, epsilon=2.0**-52, steps=2, shapes=1, in_parts=None)

    training = training_of("Plain", replace(STUCK, precision="64-true"))
    if is_refused:
        with pytest.raises(TwinrunError, match=r"parameter w is 0\.001 off"):
            prove(training, train)
        assert draws == list(range(8))
    else:
        (leg,) = prove(training, train)["legs"]
        assert (leg["left_out"], leg["losses"]["judged"]) == (1, 2)
        assert draws == list(range(max(meets_it) + 1))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("changes", [{}, {"compile": "step"}, {"precision": "64-true"}])
def test_steps_that_are_captured_are_compared_over_all_epochs(changes, monkeypatch):
    """Red before: the plain training had fewer epochs, so that every captured step was refused."""
    replays = replay_stand_in.put_in_place(monkeypatch)
    variant = Variant(**{**VARIANT, "deterministic": False, "cuda_graph": True, **changes})
    with traced_only():
        found = prove(training_of("EpochSchedule", variant))
    assert found["steps"] == BATCHES * (EPOCHS + CudaGraph.CALLS_TO_WARM_UP)
    assert replays.replayed > replays.recorded > 0
    for leg in found["legs"]:
        assert leg["losses"]["judged"] == leg["losses"]["of"] == found["steps"]


def test_who_has_short_trainings_done_elsewhere_asks_nothing_of_a_gpu(monkeypatch):
    """Processes that are forked later could not use it."""

    def spoilt(*_):
        raise AssertionError("asked")

    for name in ("is_available", "device_count", "_lazy_init"):
        monkeypatch.setattr(torch.cuda, name, spoilt)
    trained = ShortlyTrained(
        evidence=recorded(), epsilon=2.0**-52, steps=2, shapes=1, in_parts=None
    )
    variant = replace(STEP, accelerator="gpu", precision="64-true", cuda_graph=True)
    assert prove(training_of("Plain", variant), lambda asked: trained)["steps"] == 2


class Kind(tuple):
    """As e3nn has them: a tuple that refuses its length, of which torch's compiler asks."""

    def __len__(self):
        raise NotImplementedError


class OfKinds(Small):
    def __init__(self, **options):
        super().__init__(**options)
        self.kinds = [Kind((1, 2)), Kind((3, 4))]

    def forward(self, inputs):
        return super().forward(inputs) * sum(kind[0] for kind in self.kinds)


@pytest.mark.exhaustive
def test_code_that_the_compiler_cannot_follow_is_named_with_a_cure():
    """Red before: "InternalTorchDynamoError: NotImplementedError:"."""
    training = small_training("test_prove:OfKinds")
    training = replace(training, search_path=[*training.search_path, str(Path(__file__).parent)])
    training = replace(training, variant=replace(STUCK, compile="step", optimizer="default"))
    with pytest.raises(TwinrunError) as refused:
        prove(training)
    told = str(refused.value)
    assert "was not proven: InternalTorchDynamoError: NotImplementedError (test_prove.py" in told
    assert told.endswith(
        "torch's compiler cannot follow that code; keep it out of what is compiled (torch.compiler."
        "disable), or take compile: none"
    )
