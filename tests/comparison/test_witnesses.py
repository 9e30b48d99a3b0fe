"""What may be called rounding, and what more than it: by all that shows a difference."""

import json

import numpy as np
import pytest
from auditing import PLAIN, in_this_process, train
from comparing import compared
from example_runs import write_run

from twinrun.comparison.difference_size import size_of
from twinrun.comparison.witnesses import by_losses, by_parameters, by_updates, diverging

STEPS = 6


def judged(folder, *runs):
    summary, _, steps = compared(folder, *runs, across=True)
    size = size_of(summary, folder / "seed1.steps.csv")
    seen = diverging(summary, summary["first_difference"], steps)
    return size, [*by_parameters(seen), *by_losses(seen), *by_updates(seen)]


def apart_from_step_2(folder, first, *samples_and_losses):
    """Write two runs, of which a quantity differs first in step 2, and then the parameters."""
    planted = [
        (2, first, "head.weight" if first != "loss" else None),
        *((step, "parameters", "head.weight") for step in range(2, STEPS + 1)),
    ]
    return [
        write_run(
            folder, repeat, sample=sample, losses=losses, planted=planted if repeat == 2 else []
        )
        for repeat, (sample, losses) in enumerate(samples_and_losses, 1)
    ]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("is_apart", [*np.ndindex(2, 2, 2)])
@pytest.mark.parametrize("first", ["loss", "gradients", "optimizer", "parameters"])
def test_rounding_is_said_only_where_no_witness_goes_further(tmp_path, first, is_apart):
    """Red before: of equal gradients the parameters alone were asked."""
    at_once, by_loss, by_update = is_apart
    way = np.cumsum(np.ones(STEPS))[:, None] * np.ones((STEPS, 4))
    other = way * (1 + (1e-4 if at_once else 1e-9) * (way >= 2))
    other += 1e-2 * by_update * np.clip(way - 2, 0, None)
    losses = np.where(np.arange(STEPS) > 2, 1.1 + 1e-3 * by_loss, 1.1)
    runs = apart_from_step_2(tmp_path, first, (way, np.full(STEPS, 1.1)), (other, losses))
    size, seen = judged(tmp_path, *runs)
    beyond = {witness.of for witness in seen if witness.apart > witness.bound}
    # Behind the steps that witnesses look at, which are two of those here.
    is_later = by_loss and first in ("loss", "gradients")
    assert (size.size == "rounding") == (not beyond and not is_later)
    is_sure = "parameters" in beyond or {"losses", "updates"} <= beyond
    assert (size.size == "algorithmic") == is_sure
    assert beyond or not any(is_apart) or first in ("loss", "gradients")


def trained(
    folder,
    module,
    monkeypatch,
    *,
    variant=None,
    environment=None,
    precision="32-true",
    **hyperparameters,
):
    """Train a module plainly and under a change; return the size of what differs."""
    settings = {
        "module": f"rounded:{module}",
        "data": "rounded:Whole",
        "dataset": None,
        "hyperparameters": hyperparameters,
        "epochs": 2,
    }
    runs = []
    with in_this_process(monkeypatch):
        plain = PLAIN | {"precision": precision}
        runs.append(train(folder, 1, settings, plain))
        for name, value in (environment or {}).items():
            monkeypatch.setenv(name, value)
        changed = plain | (variant or {}) | {"environment": environment or {}}
        runs.append(train(folder, 1, settings, changed, name="changed"))
    return judged(folder, *runs)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("optimizer", ["Adam", "AdamW", "RMSprop", "Adagrad"])
def test_clipping_that_the_first_update_does_not_feel(tmp_path, monkeypatch, optimizer):
    """Red before: "no more than rounding explains", of what ends 1 % apart."""
    size, _ = trained(
        tmp_path, "Clipped", monkeypatch, environment={"CLIP": "0.1"}, optimizer=optimizer
    )
    assert size.size == "algorithmic", size.sentence()


@pytest.mark.exhaustive
@pytest.mark.parametrize("optimizer", ["AdamW", "Adam", "Adagrad"])
def test_a_fused_update_is_rounding(tmp_path, monkeypatch, optimizer):
    """Wide: of few parameters a fused update rounds all as another does, on some processors."""
    changed = {"optimizer": "fused"}
    size, _ = trained(
        tmp_path, "Clipped", monkeypatch, variant=changed, optimizer=optimizer, width=512
    )
    assert size.size == "rounding", size.sentence()


def test_a_double_network_is_judged_by_its_own_digits(tmp_path, monkeypatch):
    """Red before: "no more than rounding", 1e8 times what float64 rounds."""
    size, _ = trained(
        tmp_path, "Precise", monkeypatch, environment={"PENALTY": "1e-8"}, precision="64-true"
    )
    assert size.size == "algorithmic", size.sentence()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("environment", [{"FLIPPED": "1"}, {"PENALTY": "1e-8"}])
def test_what_a_double_network_is_given_in_float32_may_be_rounded_so(
    tmp_path, monkeypatch, environment
):
    """Red before: "more than rounding", of the order of a sum in float32 ahead of the network."""
    size, seen = trained(tmp_path, "Standardised", monkeypatch, environment=environment)
    assert size.size == "undecided", size.sentence()
    assert "types of numbers are mixed" in size.sentence()
    assert max(witness.apart / witness.least for witness in seen) > 1


def test_a_double_network_may_still_compute_something_else(tmp_path, monkeypatch):
    size, _ = trained(tmp_path, "Standardised", monkeypatch, environment={"PENALTY": "1e-2"})
    assert size.size == "algorithmic", size.sentence()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("precision", ["32-true", "64-true"])
def test_its_rounding_is_rounding(tmp_path, monkeypatch, precision):
    size, seen = trained(
        tmp_path, "Precise", monkeypatch, environment={"FLIPPED": "1"}, precision=precision
    )
    assert size.size == "rounding", size.sentence()
    assert max(witness.least for witness in seen) < 1e-6


def test_a_double_network_with_a_loss_of_float32_may_round_as_either(tmp_path, monkeypatch):
    size, _ = trained(
        tmp_path, "Precise", monkeypatch, environment={"PENALTY": "1e-8"}, single=True
    )
    assert size.size == "undecided"
    assert "types of numbers are mixed" in size.sentence()


def test_a_critic_under_bfloat16_is_not_said_to_compute_something_else(tmp_path, monkeypatch):
    """Red before: "more than rounding explains", of another precision alone."""
    size, _ = trained(tmp_path, "Critic", monkeypatch, variant={"precision": "bf16-mixed"})
    assert size.size != "algorithmic", size.sentence()


def test_nor_is_a_step_that_adam_makes_of_rounding_alone(tmp_path, monkeypatch):
    """Red before: "algorithmic" by the updates alone, of samples in another order."""
    size, _ = trained(tmp_path, "HandsOn", monkeypatch, environment={"FLIPPED": "1"})
    assert size.size == "undecided", size.sentence()


@pytest.mark.one_in(4)
@pytest.mark.parametrize("optimizer", ["Adam", "AdamW", "RMSprop", "Adagrad"])
def test_nor_is_a_training_that_begins_where_all_is_rounding(tmp_path, monkeypatch, optimizer):
    """Red before: "more than rounding", of a student of itself, whose first steps are by chance."""
    size, _ = trained(
        tmp_path, "Taught", monkeypatch, environment={"FLIPPED": "1"}, optimizer=optimizer
    )
    assert size.size == "undecided", size.sentence()
    # Which of them shows it depends on how a processor sums.
    shown = ("do not go the same way", "the loss rises from")
    assert any(words in size.sentence() for words in shown)


@pytest.mark.parametrize(
    ("start", "size"), [(1e-13, "undecided"), (1e-3, "algorithmic"), (1.1, "algorithmic")]
)
def test_a_loss_that_is_rounding_beside_the_next_ones_decides_nothing(tmp_path, start, size):
    """Red before, on a processor that turns few of the first steps: "algorithmic"."""
    way = np.cumsum(np.ones(STEPS))[:, None] * np.ones((STEPS, 4))
    losses = np.array([1.1, start, *[1.1] * (STEPS - 2)])
    others = np.where(np.arange(STEPS) > 0, losses * 1.5, losses)
    moved = way + 0.3 * (way >= 2)
    runs = apart_from_step_2(tmp_path, "loss", (way, losses), (moved, others))
    judgement, _ = judged(tmp_path, *runs)
    assert judgement.size == size, judgement.sentence()
    assert ("the loss rises from 1.00×10⁻¹³ to 1.10 at once" in judgement.sentence()) == (
        size == "undecided"
    )


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "inside",
    [{"eps": 1e-3}, {"betas": (0.9, 0.99)}, {"betas": (0.8, 0.999)}, {"weight_decay": 0.1}],
)
def test_what_adam_is_told_for_its_step_alone_is_no_rounding(tmp_path, monkeypatch, inside):
    environment = {"INSIDE": json.dumps(inside)}
    size, _ = trained(tmp_path, "SetsInside", monkeypatch, environment=environment)
    assert size.size == "algorithmic", size.sentence()
