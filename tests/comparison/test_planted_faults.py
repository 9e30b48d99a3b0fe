"""Every planted fault is found with the right class and place; clean modules raise no alarm.

Trainings and replays run in this process, one after another; only where the fault is about
processes do they have their own.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pandas as pd
import pytest
from auditing import PLAIN, audit, compared, in_this_process, located, train, workload
from example_trainings import HERE

from twinrun.comparison.difference_words import told_apart
from twinrun.process.launching import launch
from twinrun.verdicts.equality import repeats
from twinrun.verdicts.evidence import Evidence


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch):
    with in_this_process(monkeypatch):
        yield


@pytest.mark.exhaustive
def test_a_random_augmentation_without_a_seed(tmp_path):
    found, location = audit(tmp_path, data="UnseededAugmentation")
    first = found["first_difference"]
    assert (first["step"], first["cause"]) == (1, "data content")
    assert first["quantity"] == "content of the batch"
    assert "No operation of a step decides it" in location["sentence"]


def test_numpy_draws_in_data_workers(tmp_path):
    settings = workload(data="NumpyInWorkers")
    runs = [
        train(tmp_path, 1, settings, PLAIN | {"data_workers": n}, name=name)
        for name, n in (("none", 0), ("two", 2))
    ]
    first = compared(tmp_path, runs, across=True)["first_difference"]
    assert (first["step"], first["cause"], first["tensor"]) == (1, "RNG state", "numpy")


@pytest.mark.exhaustive
def test_iteration_over_a_set_of_strings(tmp_path):
    settings = workload(data="SetOfStrings")
    with ThreadPoolExecutor() as both:
        runs = both.map(
            lambda seed: train(
                tmp_path, seed, settings, start=launch, environment={"PYTHONHASHSEED": str(seed)}
            ),
            (1, 2),
        )
    first = compared(tmp_path, list(runs))["first_difference"]
    assert (first["step"], first["cause"]) == (1, "data order")


def test_a_dropout_seeded_from_the_clock(tmp_path):
    found, location = audit(tmp_path, module="TimeSeededDropout")
    assert found["first_difference"]["cause"] == "forward"
    op = location["op"]
    assert (location["step"], location["cause"]) == (1, "RNG state")
    assert (op["phase"], op["module"], op["op"]) == ("forward", "dropout", "aten::bernoulli")
    assert op["source"].endswith(f"faults.py:{line_of('torch.bernoulli')}")


def test_a_callback_that_draws_a_random_number(tmp_path):
    found, location = audit(tmp_path, module="DrawingCallback")
    first = found["first_difference"]
    assert (first["step"], first["cause"], first["tensor"]) == (3, "RNG state", "torch")
    assert "find what draws from or seeds the global random gener" in location["sentence"]


def test_a_swapped_batch(tmp_path):
    found, _ = audit(tmp_path, data="SwappedBatch")
    first = found["first_difference"]
    assert (first["step"], first["cause"]) == (2, "data order")


def test_a_flipped_sign_in_the_backward_of_one_layer(tmp_path):
    found, location = audit(tmp_path, module="FlippedSign")
    assert found["first_difference"]["cause"] == "backward"
    assert found["first_difference"]["tensor"] == "norm.bias"  # the nearest before the layer
    op = location["op"]
    assert (op["phase"], op["module"], op["op"]) == ("backward", "dropout", "aten::mul")
    assert op["differs_in"] == "inputs"


def test_a_buffer_updated_from_the_clock(tmp_path):
    found, location = audit(tmp_path, module="ClockBuffer")
    first = found["first_difference"]
    assert (first["step"], first["cause"], first["tensor"]) == (1, "forward", "clock")
    op = location["op"]
    assert (op["phase"], op["op"], op["differs_in"]) == ("forward", "aten::fill_", "inputs")
    assert op["source"].endswith(f"faults.py:{line_of('self.clock.fill_')}")


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("module", "setting", "step"),
    [
        ("ClockRate", "learning rate of group 0", 2),
        ("ClockRateFromTheStart", "learning rate of group 1", 1),
        ("ClockSchedule", "learning rate of group 0", 3),
        ("ClockBetas", "betas[0] of group 0", 1),
        ("ClockRateOfOne", "learning rate of group 0 of optimizer 1", 2),
    ],
)
def test_a_setting_of_the_optimizer_that_follows_the_clock(tmp_path, module, setting, step):
    """At 1c62e3e: "optimizer state", which "gave the same every time"."""
    found, location = audit(tmp_path, module=module)
    first = found["first_difference"]
    assert (first["quantity"], first["tensor"]) == ("optimizer settings", setting)
    assert (first["step"], first["cause"]) == (step, "optimizer")
    left, right = first["values"]
    assert left != right
    assert (location["answer"], location["op"]) == ("not located", None)
    left, right = told_apart(left, right)
    told = f"from step {step}: the {setting} is {left} in one run and {right} in the other."
    assert told in location["sentence"]
    assert "look for what sets it, and from what (a schedule, a callback" in location["sentence"]
    (row,) = [row for row in repeats([Evidence(path="x", found=found)]) if row["key"] == "repeats"]
    assert told.rstrip(".") in row["measured"]


def test_a_fault_of_one_step_shows_in_every_repeat(tmp_path, monkeypatch):
    """A repeat shows nothing where it reads the clock's last 10 ms as the run did: 20 in 10^7."""
    monkeypatch.setattr("twinrun.comparison.locate.REPEATS", 20)
    settings = workload("LateClock") | {"epochs": 2}
    found = compared(tmp_path, [train(tmp_path, repeat, settings) for repeat in (1, 2)])
    assert found["first_difference"]["step"] == 8
    location = located(tmp_path, settings, PLAIN)
    assert (location["repeats"], location["fired"]) == (20, 20)
    assert location["op"]["source"].endswith(f"faults.py:{line_of('loss + time.time_ns()')}")


@pytest.mark.exhaustive  # a minute, and where the race stays silent nothing is shown
@pytest.mark.skipif(os.cpu_count() < 2, reason="a race takes two cores")
def test_a_racing_gather(tmp_path, monkeypatch):
    """A race need not fire: it has ten trainings to, and a hundred repeats of the step.

    Where it stays silent nothing was shown, so the test is skipped and does not pass.
    """
    monkeypatch.setattr("twinrun.comparison.locate.REPEATS", 100)
    settings, variant = workload(module="RacingGather"), PLAIN | {"threads": 2}
    runs = [train(tmp_path, repeat, settings, variant) for repeat in range(1, 11)]
    found = compared(tmp_path, runs)
    if found["answer"] == "equal":
        pytest.skip("the race did not fire in 10 trainings of 5 steps")
    first = found["first_difference"]
    assert (first["cause"], first["tensor"]) == ("backward", "table")
    location = located(tmp_path, settings, variant)
    if not location["fired"]:
        assert "a race that did not happen again" in location["sentence"]
        pytest.skip("the race did not fire in 100 repeats of the step")
    op = location["op"]
    assert (op["op"], op["phase"], op["parameter"]) == ("aten::index_put", "backward", "table")
    assert op["source"].endswith(f"faults.py:{line_of('self.table[rows]')}")
    assert "`deterministic: true`" in location["sentence"]


def test_memory_that_nothing_has_written(tmp_path):
    """The operation that reads it is named, and none after it."""
    found, location = audit(tmp_path, module="Uninitialised")
    assert found["first_difference"]["cause"] == "forward"
    op = location["op"]
    assert (op["phase"], op["op"]) == ("forward", "aten::nan_to_num")
    assert op["source"].endswith(f"faults.py:{line_of('unwritten.nan_to_num()')}")
    # Red before: "gave other values from equal inputs, torch documents no remedy for it".
    assert "read memory that no operation had written" in location["sentence"]


def test_weights_that_the_seed_does_not_decide(tmp_path):
    found, _ = audit(tmp_path, module="UnseededWeights")
    first = found["first_difference"]
    assert (first["step"], first["cause"], first["tensor"]) == (
        0,
        "initial weights",
        "second.weight",
    )


@pytest.mark.one_in(3)
@pytest.mark.parametrize("module", ["Base", "TwoOptimizers", "Frozen"])
def test_a_clean_module_raises_no_alarm(tmp_path, module):
    runs = [train(tmp_path, repeat, workload(module)) for repeat in (1, 2, 3)]
    found = compared(tmp_path, runs)
    assert (found["answer"], found["first_difference"]) == ("equal", None)
    steps = pd.read_csv(runs[0].with_name("steps.csv"))
    assert steps["optimizer"].nunique() == steps["gradients"].nunique() == 5


def line_of(code):
    lines = Path(HERE, "faults.py").read_text().splitlines()
    return next(number for number, line in enumerate(lines, start=1) if code in line)
