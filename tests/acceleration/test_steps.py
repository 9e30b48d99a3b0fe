"""Fast steps compute what the plain step computes, and count what they compile."""

import copy
from collections import defaultdict

import pytest
import torch
from example_trainings import VARIANT
from points_and_images import Images, Regression, images, points
from pytorch_lightning.plugins.precision import DoublePrecision, Precision

from twinrun.acceleration.compilation import compiler_switches, traced_only
from twinrun.acceleration.placement import lay_out, lay_out_batch
from twinrun.acceleration.steps import Prediction, TrainingStep, check
from twinrun.config.definitions import Variant
from twinrun.errors import TwinrunError
from twinrun.timing.bare_step import in_precision

PLAIN = {**VARIANT, "deterministic": False}
WHOLE = {**PLAIN, "compile": "step"}
STEPS = 50


def optimizer_of(module):
    """Return the optimizer of one of the modules here, which give it in three forms."""
    found = module.configure_optimizers()
    if isinstance(found, dict):
        return found["optimizer"]
    return found[0][0] if isinstance(found, tuple) else found


class Trained:
    """A module after some steps under a variant."""

    def __init__(self, module, batches, *, steps=STEPS, **changes):
        variant = Variant(**{**PLAIN, **changes})
        torch.manual_seed(3)
        precision = DoublePrecision() if variant.precision == "64-true" else Precision()
        self.module = precision.convert_module(copy.deepcopy(module))
        lay_out(self.module, variant.layout)
        self.module.log = lambda *arguments: None
        self.optimizer = optimizer_of(self.module)
        self.step = TrainingStep(
            in_precision(self.module.training_step, precision),
            self.optimizer,
            variant,
            self.module,
        )
        batches = [lay_out_batch(precision.convert_input(b), variant.layout) for b in batches]
        self.losses = [float(self.step(batches[i % len(batches)], i)) for i in range(steps)]

    def error(self, exact):
        """The largest difference of a parameter or buffer from those of an exact training."""
        mine, others = (of.module.state_dict().values() for of in (self, exact))
        return max((a.double() - b.double()).abs().max() for a, b in zip(mine, others, strict=True))


@pytest.fixture(scope="module", autouse=True)
def switches():
    with compiler_switches():
        yield


@pytest.fixture(scope="module")
def regression():
    torch.manual_seed(0)
    return Regression()


@pytest.fixture(scope="module")
def whole(regression):
    return Trained(regression, [points()], compile="step", layout="features_first")


@pytest.fixture(scope="module")
def plain(regression):
    return Trained(regression, [points()])


def assert_as_exact(fast, exact):
    """Hold a fast training to a bound of rounding against float64.

    A step rounds every value by half a unit in the last place of the largest at most, several times
    over; in a well-conditioned problem that adds up over the steps and does not grow. A missing or
    doubled step is a thousand times as far off, as the planted fault shows.
    """
    largest = max(float(value.abs().max()) for value in exact.module.state_dict().values())
    assert fast.error(exact) <= STEPS * torch.finfo(torch.float32).eps * max(largest, 1)


def test_a_whole_step_with_features_first_equals_the_plain_one(whole, regression):
    exact = Trained(regression, [points()], precision="64-true")
    assert_as_exact(whole, exact)
    assert whole.losses == pytest.approx(exact.losses, rel=1e-5)
    one_step_less = Trained(regression, [points()], steps=STEPS - 1)
    assert one_step_less.error(exact) > 1000 * whole.error(exact)
    assert torch.equal(whole.module.unused.weight, regression.unused.weight)


@pytest.mark.exhaustive
def test_channels_last_compiled_equals_the_plain_step():
    torch.manual_seed(0)
    module, batches = Images(), [images(seed=1), images(seed=2)]
    fast = Trained(module, batches, compile="step", layout="channels_last")
    exact = Trained(module, batches, precision="64-true")
    assert_as_exact(fast, exact)
    assert fast.module.network[0].weight.is_contiguous(memory_format=torch.channels_last)
    assert fast.module.network[1].num_batches_tracked == STEPS


@pytest.mark.parametrize("form", ["foreach", "fused"])
def test_another_form_of_the_optimizer_equals_the_plain_one(regression, form):
    exact = Trained(regression, [points()], precision="64-true")
    assert_as_exact(Trained(regression, [points()], optimizer=form), exact)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", ["AdamW", "Adamax", "RAdam", "Adagrad"])
def test_counts_of_an_optimizer_are_the_plain_ones_between_whole_steps(name, regression):
    """Red before: counts were float64, and each fingerprint of the state another from step 2 on."""
    found = []
    for compile_ in ("none", "step"):
        module = copy.deepcopy(regression)
        optimizer = getattr(torch.optim, name)(module.parameters(), lr=0.01)
        module.log = lambda *arguments: None
        step = TrainingStep(
            module.training_step, optimizer, Variant(**{**PLAIN, "compile": compile_}), module
        )
        seen = []
        for index in range(4):
            step(points(), index)
            if index == 2:  # a callback may begin to count anew
                for state in optimizer.state.values():
                    state["step"].zero_()
            states = optimizer.state_dict()["state"]
            seen.append({key: state["step"].clone() for key, state in states.items()})
        found.append(seen)
    plain, whole = found
    assert str(whole) == str(plain)
    assert {value.dtype for value in plain[0].values()} == {torch.float32}


def clear(optimizer):
    optimizer.state.clear()


def exchange(optimizer):
    optimizer.state = defaultdict(dict)


def empty(optimizer):
    for parameter in optimizer.state:
        optimizer.state[parameter] = {}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("forget", [clear, exchange, empty])
def test_an_optimizer_that_begins_anew_counts_as_exactly(forget, regression):
    """Red before: by a count in float32, with RAdam 100 times as far off as a plain update.

    The bound is twice the plain training's own error, and a count in float32 is 10 times beyond.
    """
    ends = []
    for changes in ({"precision": "64-true"}, {}, {"compile": "step"}):
        module = copy.deepcopy(regression)
        module = module.double() if "precision" in changes else module
        module.log = lambda *arguments: None
        optimizer = torch.optim.RAdam(module.parameters(), lr=0.01)
        variant = Variant(**{**PLAIN, **changes})
        step = TrainingStep(module.training_step, optimizer, variant, module)
        batch = [part.to(module.output.weight.dtype) for part in points()]
        with traced_only():
            for index in range(24):
                if index in (8, 16):
                    forget(optimizer)
                step(batch, index)
        ends.append(torch.cat([p.detach().flatten().double() for p in module.parameters()]))
    exact, plain, whole = ends
    assert (whole - exact).abs().max() < 2 * (plain - exact).abs().max()


def test_gradients_can_be_seen_after_a_whole_step(whole, plain):
    for (name, fast), slow in zip(
        whole.module.named_parameters(), plain.module.parameters(), strict=True
    ):
        assert (fast.grad is None) == (slow.grad is None), name
        if slow.grad is not None:
            torch.testing.assert_close(fast.grad, slow.grad, rtol=1e-3, atol=1e-5)


def test_one_graph_serves_all_steps(whole):
    counts = whole.step.counts()
    assert counts == {  # the first step of all was a plain one
        "calls": STEPS - 1,
        "compilations": 1,
        "reasons": [],
    }


@pytest.mark.exhaustive
def test_another_shape_compiles_again_and_says_why(whole, capsys):
    before = whole.step.counts()["calls"]
    whole.module.zero_grad()  # as the Trainer does when a fit begins
    for count in (640, 640, 1280, 640):
        whole.step(lay_out_batch(points(count), "features_first"), 0)
    counts = whole.step.counts()
    assert (counts["calls"], counts["compilations"]) == (before + 4, 2)
    assert "batch of 640 x 3 and 640 x 1" in counts["reasons"][0]
    assert counts["reasons"][0] in capsys.readouterr().out


def test_a_prediction_compiles_once():
    torch.manual_seed(0)
    module, batch = Images().eval(), images()
    predict = Prediction(module.predict_step, Variant(**WHOLE))
    found = predict(batch, 0)
    assert not found.requires_grad
    with torch.no_grad():
        torch.testing.assert_close(found, module.predict_step(batch, 0), rtol=1e-5, atol=1e-5)
    predict(batch, 1)
    assert predict.compiled.counts()["compilations"] == 1


def test_a_step_that_cannot_be_one_graph_is_done_in_parts(plain):
    class Reading(Regression):
        def training_step(self, batch, batch_idx):
            loss = super().training_step(batch, batch_idx)["loss"]
            return loss if loss.item() > 0 else -loss

    torch.manual_seed(0)
    reading = Trained(Reading(), [points()], compile="step")
    assert "does not compile into one graph" in reading.step.in_parts
    torch.testing.assert_close(reading.module.state_dict(), plain.module.state_dict())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layout": "features_first"}, "layout: features_first works on code compiled"),
        ({"compile": "step", "optimizer": "fused"}, "a compiled step fuses it by itself"),
        ({"cuda_graph": True}, "cuda_graph: needs a CUDA device"),
    ],
)
def test_settings_that_contradict_each_other(changes, message):
    with pytest.raises(TwinrunError, match=message):
        check(Variant(**{**PLAIN, **changes}))


def test_an_optimizer_without_a_fused_form_is_named(regression):
    regression = copy.deepcopy(regression)
    regression.configure_optimizers = lambda: torch.optim.Rprop(regression.parameters())
    with pytest.raises(TwinrunError, match="Rprop has no fused form"):
        Trained(regression, [points()], optimizer="fused")
