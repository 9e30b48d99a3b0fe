"""Rounding stays within its bound at every precision, planted changes do not: real trainings.

Each network is trained twice from the same weights on the same batches. TF32 is made on a CPU: the
factors of every product are rounded to its 11 bits.
"""

import copy
import functools
import math
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from example_trainings import VARIANT
from torch import nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from twinrun.comparison import rounding
from twinrun.comparison.formats import formats_of

HOW = {
    "64-true": {"precision": "64-true"},
    "32-true": {"precision": "32-true"},
    "TF32": {"precision": "32-true", "accelerator": "gpu"},
    "16-mixed": {"precision": "16-mixed"},
    "bf16-mixed": {"precision": "bf16-mixed"},
}
AUTOCAST = {"16-mixed": torch.float16, "bf16-mixed": torch.bfloat16}
PRODUCTS = (functional.linear, functional.conv2d, torch.conv2d)
STEPS_BEFORE = {"normed": 30, "dense": 0}  # steps before: a trained network, and a fresh one


class RoundsFactors(TorchFunctionMode):
    """Rounds the factors of products to the significand of TF32; gradients pass."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function in PRODUCTS:
            args = (*(self.rounded(factor) for factor in args[:2]), *args[2:])
        return function(*args, **(kwargs or {}))

    def rounded(self, values):
        bits = values.detach().contiguous().view(torch.int32)
        nearest = (bits + 2**12 & -(2**13)).view(torch.float32)
        return values + (nearest - values).detach()


def network(name):
    torch.manual_seed(0)
    if name == "dense":
        return nn.Sequential(
            nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 5)
        )
    layers = [nn.Conv2d(1, 8, 3, padding=1)]
    for _ in range(3):
        layers += [nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5))


def batches(name, number):
    torch.manual_seed(1)
    shape = (32, 20) if name == "dense" else (32, 1, 8, 8)
    return [(torch.randn(shape), torch.randint(5, (32,))) for _ in range(number)]


def losses(start, data, how, *, rate=0.1, weight=1.0, parts=1):
    """Train from a start; return the loss of each step as float64, and what the last step left."""
    module, state = copy.deepcopy(start)
    if how == "64-true":
        module.double()
    optimizer = torch.optim.SGD(module.parameters(), lr=rate, momentum=0.9)
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict(copy.deepcopy(state) | {"param_groups": groups})
    scaler = torch.amp.GradScaler("cpu", enabled=how == "16-mixed", init_scale=2.0**10)
    found = []
    for inputs, targets in data:
        inputs = inputs.double() if how == "64-true" else inputs
        optimizer.zero_grad()
        total = 0.0
        for part in range(parts):
            with torch.autocast("cpu", AUTOCAST.get(how), enabled=how in AUTOCAST):
                scores = module(inputs[part::parts])
            scores = scores.float() if how in AUTOCAST else scores
            loss = weight * functional.cross_entropy(scores, targets[part::parts])
            scaler.scale(loss / parts).backward()
            total += loss.item() / parts
        scaler.step(optimizer)
        scaler.update()
        found.append(total)
    return found, (module, optimizer.state_dict())


@functools.cache
def start_of(name):
    """Return a network, its optimizer's state, and the batches of the two steps that follow."""
    module = network(name)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    data = batches(name, STEPS_BEFORE[name] + 2)
    _, start = losses((module, optimizer.state_dict()), data[:-2], "32-true")
    return start, data[-2:]


@functools.cache
def trained(name, how, **changes):
    """Train a network for a step and a next one; return both losses."""
    start, data = start_of(name)
    if how == "TF32":
        with RoundsFactors():
            return losses(start, data, how, **changes)[0]
    return losses(start, data, how, **changes)[0]


def formats(name, how):
    dtype = "float64" if how == "64-true" else "float32"
    manifest = {
        "settings": {"variant": VARIANT | HOW[how]},
        "tensors": [
            {"name": key, "kind": "parameter", "shape": list(p.shape), "dtype": dtype}
            for key, p in network(name).named_parameters()
        ],
    }
    return formats_of(manifest, np.array([1.1]))


def ratios(name, first, second, **changes):
    """Return how far the losses of two trainings are apart, in units of the bound."""
    runs = [formats(name, how) for how in (first, second)]
    pairs = zip(trained(name, first), trained(name, second, **changes), strict=True)
    return [
        abs(other - loss) / loss / rounding.bound(*runs, steps_after=after, shrunk=1)
        for after, (loss, other) in enumerate(pairs)
    ]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("name", STEPS_BEFORE)
def test_rounding_alone_stays_far_below_its_bound(name, how):
    found = ratios(name, "32-true", how)
    assert max(found) < 0.1
    assert max(found) > 0 or how == "32-true"


@pytest.mark.parametrize(
    ("name", "how", "changes"),
    [
        ("normed", "32-true", {"parts": 2}),  # statistics of half a batch
        ("normed", "32-true", {"rate": 0.11}),
        ("dense", "32-true", {"rate": 0.101}),
        ("dense", "64-true", {"rate": 0.1 + 1e-6}),
        ("normed", "TF32", {"weight": 1.03}),
        ("dense", "TF32", {"weight": 1.03}),
        ("dense", "16-mixed", {"weight": 1.03}),
        ("dense", "bf16-mixed", {"weight": 1.2}),
    ],
)
def test_what_computes_something_else_goes_beyond_the_bound(name, how, changes):
    assert max(ratios(name, how, how, **changes)) > 1


def test_a_loss_that_shrank_to_nothing_is_explained_by_anything():
    runs = [formats("dense", "32-true")] * 2
    assert rounding.bound(*runs, steps_after=0, shrunk=0) == float("inf")
    whole, part = (rounding.bound(*runs, steps_after=0, shrunk=s) for s in (1, 0.01))
    assert part == pytest.approx(10 * whole)


@pytest.mark.parametrize("how", HOW)
def test_about_the_root_of_the_roundings(how):
    """The formula by hand, for 6 tensors whose products have 20 + 64 + 64 terms."""
    stored, summed = {
        "64-true": (2**-53, 2**-53),
        "32-true": (2**-24, 2**-24),
        "TF32": (2**-11, 2**-24),
        "16-mixed": (2**-11, 2**-24),
        "bf16-mixed": (2**-8, 2**-24),
    }[how]
    root = (12 * stored**2 + 148 * summed**2) ** 0.5
    run = formats("dense", how)
    assert rounding.error(run, steps_after=0) == pytest.approx(3 * root, rel=0.03)
    assert rounding.error(run, steps_after=1) == pytest.approx(6 * root, rel=0.06)


@pytest.mark.parametrize("how", [how for how in HOW if how != "64-true"])
def test_an_optimizer_of_other_settings_shows_in_the_parameters_whatever_the_precision(how):
    """The next loss hardly moves when the learning rate is ten times as large."""
    start, data = start_of("dense")
    found = {}
    for name, changes in {"plain": {}, "fast": {"rate": 1.0}}.items():
        with RoundsFactors() if how == "TF32" else nullcontext():
            _, (module, _) = losses(start, data[:1], how, **changes)
        found[name] = nn.utils.parameters_to_vector(module.parameters()).detach()
    apart = (found["fast"] - found["plain"]).norm() / found["plain"].norm()
    assert apart > 10 * rounding.update_bound(formats("dense", how))


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad"])
def test_one_update_computed_in_two_ways_stays_far_below_its_bound(name):
    def updated(dtype):
        torch.manual_seed(0)
        module = network("dense").to(dtype)
        for parameter in module.parameters():
            parameter.grad = torch.randn(parameter.shape, dtype=torch.float32).to(dtype)
        getattr(torch.optim, name)(module.parameters(), lr=0.1, weight_decay=0.01).step()
        return nn.utils.parameters_to_vector(module.parameters()).detach().double()

    exact, found = updated(torch.float64), updated(torch.float32)
    apart = (found - exact).norm() / exact.norm()
    assert 0 < apart < 0.1 * rounding.update_bound(formats("dense", "32-true"))


UNIT = {"float32": 2.0**-24, "float64": 2.0**-53, "bfloat16": 2.0**-8}


def with_parameter(shape, dtype):
    tensor = {"name": "weight", "kind": "parameter", "shape": shape, "dtype": dtype}
    manifest = {"settings": {"variant": VARIANT}, "tensors": [tensor]}
    return formats_of(manifest, np.array([1.1]))


@pytest.mark.parametrize("shape", [(1,), (50, 40)])
@pytest.mark.parametrize("dtype", UNIT)
def test_updates_of_both_runs_may_err_as_far_as_the_model_allows_and_no_further(shape, dtype):
    """Of n roundings at most 3 sqrt(n) more go one way than the other: up in one run, down in one.

    An element has 20 of them, and as many as there are elements are in a norm; in bfloat16, whose
    sums are in float32, these are nothing beside the 20.
    """
    roundings = 20 if dtype == "bfloat16" else 20 + math.prod(shape)
    surplus = int(3 * roundings**0.5)
    surplus -= (surplus - roundings) % 2  # as many as can be
    for more, is_explained in ((surplus, True), (surplus + 2, False)):
        up, down = (
            math.expm1(
                (roundings + sign * more) / 2 * math.log1p(UNIT[dtype])
                + (roundings - sign * more) / 2 * math.log1p(-UNIT[dtype])
            )
            for sign in (1, -1)
        )
        bound = rounding.update_bound(with_parameter(shape, dtype))
        assert (up - down <= bound) == is_explained


@pytest.mark.parametrize("elements", [10**6, 10**9])
def test_a_large_network_in_bfloat16_does_not_hide_every_update(elements):
    """Red before: 1e12 for a million parameters, and an OverflowError for fifty million."""
    assert rounding.update_bound(with_parameter((elements,), "bfloat16")) < 0.2


def test_a_bound_beyond_all_numbers_is_infinite():
    """Red before: an OverflowError, of parameters that stay equal for thousands of steps."""
    run = formats("normed", "bf16-mixed")
    assert rounding.bound(run, run, steps_after=10**6, shrunk=1) == math.inf
