"""What jobs ask of time, from the seconds of a first step to minutes: worked by hand."""

from dataclasses import replace

import pytest
from example_sizes import measured
from standard_config import resolved

from twinrun.config import memory, runtime
from twinrun.config.inputs import Inputs
from twinrun.config.minutes import Minutes
from twinrun.config.params import Params

RUN = {"workload": "denoiser", "variant": "deterministic", "seed": "1", "repeat": "1"}
OF_STUDY = {"workload": "denoiser", "variant": "deterministic", "study": "reproducibility"}


def clocked(step, *, parameters=1000, steps=100, **changes):
    """Return what a rehearsal measures whose first step takes so long, at one thread."""
    found = measured(parameters, steps=steps)
    return {**found, "sizes": {**found["sizes"], "step_seconds": step, **changes}}


@pytest.fixture
def plain():
    settings = resolved()
    return settings.workloads["denoiser"], settings.variants["deterministic"]


def trained(plain, *, epochs=20, threads=1, **told):
    workload, variant = plain
    trainer = replace(workload.trainer, **told)
    return replace(workload, epochs=epochs, trainer=trainer), replace(variant, threads=threads)


def test_without_a_rehearsal_and_for_what_is_short_it_is_what_it_was(plain):
    timing = resolved().timings["determinism_denoiser"]
    for found in (None, clocked(0.01)):
        asked = trained(plain)
        assert runtime.of_training(found, *asked) == 120
        assert runtime.of_timing(found, asked[0], timing, [plain[1]] * 2) == 120
    assert runtime.of_location(None, *trained(plain), seeds=3) == 36
    assert runtime.of_comparison(None, pairs=5, seeds=3) == 36
    assert runtime.of_comparison(None, pairs=1) == 30


def test_a_wider_precision_takes_longer(plain):
    """Red before: a run in float64 asked for the time of one in float32."""
    found = clocked(10.2)
    workload, variant = trained(plain)
    asked, exact, narrow = (
        runtime.of_training(found, workload, replace(variant, precision=precision)) - runtime.REST
        for precision in ("32-true", "64-true", "bf16-true")
    )
    assert abs(exact - 2 * asked) <= 1
    assert narrow == asked


@pytest.mark.parametrize(
    ("step", "told", "minutes"),
    [
        # 20 epochs of 100 batches, 10 s each, 2.5 times for a slower node.
        (10.0, {}, 30 + 20 * 100 * 10 * 2.5 / 60),
        # Where no second step was clocked, a short first one is no warm-up either.
        (0.2, {"epochs": 500}, 30 + 500 * 100 * 0.2 * 2.5 / 60),
        (10.0, {"max_steps": 1000}, 30 + 1000 * 10 * 2.5 / 60),
        (10.0, {"max_steps": 1000, "epochs": -1}, 30 + 1000 * 10 * 2.5 / 60),
        # An epoch has as many mini-batches as without.
        (10.0, {"accumulate_grad_batches": 2}, 30 + 20 * 100 * 10 * 2.5 / 60),
        (10.0, {"accumulate_grad_batches": {"0": 1, "4": 3}, "max_steps": 500},
         30 + 1500 * 10 * 2.5 / 60),
    ],
)  # fmt: skip
def test_a_training_has_its_steps(plain, step, told, minutes):
    assert runtime.of_training(clocked(step), *trained(plain, **told)) == -(-minutes // 1)


def test_a_slow_first_step_counts_once(plain):
    """Red before: of a module that compiles by itself, 84 days for 100,000 steps of 1 ms."""
    compiled = clocked(29.2, steps=1000, later_step_seconds=0.001)
    assert runtime.of_training(compiled, *trained(plain, epochs=100)) == 120
    workload, variant = trained(plain, epochs=100)
    seconds = 2.5 * (100_000 * 0.001 + 29.199)
    replays = 2.5 * 21 * 20 * 0.001
    assert runtime.of_location(compiled, workload, variant, 1) == 32 + -(-(seconds + replays) // 60)
    # Minutes of compiling are waited for once, and a later step is no faster than it was clocked.
    long = clocked(6000.0, steps=1000, later_step_seconds=0.1)
    assert runtime.of_training(long, *trained(plain, epochs=10)) == -(
        -(30 + 2.5 * (10_000 * 0.1 + 5999.9) / 60) // 1
    )
    # What is slow at each step stays slow, and is never taken for less than was clocked.
    slow = clocked(10.0, later_step_seconds=11.0)
    assert runtime.of_training(slow, *trained(plain)) == 30 + -(-2.5 * 20 * 100 * 11 // 60)


def test_a_short_step_counts_as_it_was_clocked(plain):
    """Red before: 0.02 s of a steady 0.22 s, so that 100,000 steps asked for 122 minutes of 352."""
    of = {"validation_batches": 500, "evaluation_batches": 700}
    first = of | {"validation_seconds": 0.25, "evaluation_seconds": 0.3}
    later = first | {"later_validation_seconds": 0.24, "later_evaluation_seconds": 0.35}
    asked = trained(plain, epochs=1000)
    seconds = 100_000 * 0.2197 + 1000 * 500 * 0.25 + 700 * 0.3
    found = runtime.of_training(clocked(0.2197, **first), *asked)
    assert found == 30 + -(-2.5 * seconds // 60)
    seconds = 100_000 * 0.21 + 0.0097 + 1000 * 500 * 0.24 + 0.01 + 700 * 0.35
    found = runtime.of_training(clocked(0.2197, later_step_seconds=0.21, **later), *asked)
    assert found == 30 + -(-2.5 * seconds // 60)


def test_a_slow_first_validation_counts_once_too(plain):
    of = {"validation_seconds": 30.0, "validation_batches": 500, "later_validation_seconds": 0.1}
    of |= {"evaluation_seconds": 60.0, "evaluation_batches": 700, "later_evaluation_seconds": 0.2}
    once = 29.9 + 59.8
    found = runtime.of_training(clocked(10.0, later_step_seconds=5.0, **of), *trained(plain))
    seconds = 20 * 100 * 5 + 20 * 500 * 0.1 + 700 * 0.2 + 5.2 + once
    assert found == -(-(30 + 2.5 * seconds / 60) // 1)


def test_a_stream_is_ended_by_its_steps_or_nobody_knows(plain):
    found = clocked(10.0, steps=None)
    limited = runtime.of_training(found, *trained(plain, max_steps=2000))
    assert limited == runtime.of_training(clocked(10.0), *trained(plain))
    assert runtime.of_training(found, *trained(plain)) == 120


@pytest.mark.parametrize(
    ("batches", "told", "validated"),
    [
        # Nobody knows when a stream ends: no more often than the epochs that it may have.
        (200, {"epochs": 50}, 50 * 200),
        (200, {"epochs": 50, "check_val_every_n_epoch": 5}, 10 * 200),
        (200, {"epochs": 50_000}, 20_000 * 200),
        (200, {"epochs": -1, "val_check_interval": 100}, 200 * 200),
        # Without a number of epochs, once: docs/cluster.md says so.
        (200, {"epochs": -1}, 200),
        # Without any length as many are validated as are trained.
        (None, {"epochs": 50}, 20_000),
        (None, {"epochs": -1}, 20_000),
        (None, {"epochs": -1, "val_check_interval": 100}, 20_000),
    ],
)
def test_a_stream_is_validated_as_often_as_is_known(plain, batches, told, validated):
    """Red before: once, whatever the epochs; and 4 million batches where no loader had a length."""
    found = clocked(0.6, steps=None, validation_seconds=0.8, validation_batches=batches)
    asked = runtime.of_training(found, *trained(plain, max_steps=20_000, **told))
    assert asked == 30 + -(-2.5 * (20_000 * 0.6 + validated * 0.8) // 60)


def test_a_test_without_a_length_is_as_long_as_an_epoch(plain):
    """Red before: of the optimizer's steps, not of mini-batches; and nothing beside a stream."""
    of = {"evaluation_seconds": 2.0, "evaluation_batches": None}
    summed = runtime.of_training(clocked(10.0, **of), *trained(plain, accumulate_grad_batches=2))
    assert summed == -(-(30 + 2.5 * (20 * 100 * 10 + 100 * 2) / 60) // 1)
    found = clocked(10.0, steps=None, **of)
    streamed = runtime.of_training(found, *trained(plain, max_steps=2000))
    assert streamed == -(-(30 + 2.5 * (2000 * 10 + 100 * 2) / 60) // 1)


def test_validation_test_and_prediction_count(plain):
    # 20 validations of 50 batches, a second each; 7 batches of test and prediction, 2 s each.
    of = {"validation_seconds": 1.0, "validation_batches": 50}
    of |= {"evaluation_seconds": 2.0, "evaluation_batches": 7}
    steps = 20 * 100 * 10
    asked = trained(plain)
    both = runtime.of_training(clocked(10.0, **of), *asked)
    assert both == -(-(30 + 2.5 * (steps + 20 * 50 + 7 * 2) / 60) // 1)
    rare = runtime.of_training(clocked(10.0, **of), *trained(plain, check_val_every_n_epoch=5))
    assert rare == -(-(30 + 2.5 * (steps + 4 * 50 + 7 * 2) / 60) // 1)
    often = runtime.of_training(clocked(10.0, **of), *trained(plain, val_check_interval=0.25))
    assert often == -(-(30 + 2.5 * (steps + 80 * 50 + 7 * 2) / 60) // 1)
    each = runtime.of_training(clocked(10.0, **of), *trained(plain, val_check_interval=10))
    assert each == -(-(30 + 2.5 * (steps + 200 * 50 + 7 * 2) / 60) // 1)
    unknown = runtime.of_training(clocked(10.0, **of | {"validation_batches": None}), *asked)
    assert unknown == -(-(30 + 2.5 * (steps + 20 * 100 + 7 * 2) / 60) // 1)
    without = replace(asked[1], validation=False)
    assert runtime.of_training(clocked(10.0, **of), asked[0], without) == -(
        -(30 + 2.5 * (steps + 7 * 2) / 60) // 1
    )


def test_fewer_threads_fast_steps_and_stops_take_longer(plain):
    workload, variant = trained(plain, threads=2)
    found = clocked(10.0, threads=4)
    steps = 20 * 100 * 10 * 2.5 / 60
    assert runtime.of_training(found, workload, variant) == -(-(30 + 2 * steps) // 1)
    assert runtime.of_training(found, workload, replace(variant, threads=8)) == -(
        -(30 + steps) // 1
    )
    stopped = replace(variant, threads=4, stop="mid_epoch")
    assert runtime.of_training(found, workload, stopped) == -(-(30 + 2 * steps) // 1)
    # 600 steps of short trainings, and 20 minutes to compile.
    fast = replace(variant, threads=4, compile="step")
    assert runtime.of_training(found, workload, fast) == -(
        -(30 + steps + 600 * 10 * 2.5 / 60 + 20) // 1
    )


def test_a_timing_measures_all_variants_at_all_sizes(plain):
    timing = replace(
        resolved().timings["determinism_denoiser"], rounds=12, steps=5, phases=["train", "trainer"]
    )
    workload, variant = trained(plain)
    # 12 rounds of 5 steps and a warm-up of 100, at 25 s each.
    of_phase = (12 * 5 + 100) * 10 * 2.5 / 60
    asked = runtime.of_timing(clocked(10.0), workload, timing, [variant] * 3)
    assert asked == -(-(30 + 3 * 2 * of_phase) // 1)
    sized = replace(timing, size="points", sizes=[1, 2, 3, 4])
    asked = runtime.of_timing(clocked(10.0), workload, sized, [variant] * 3)
    assert asked == -(-(30 + 4 * 3 * 2 * of_phase) // 1)


def test_locating_trains_and_replays_for_each_seed(plain):
    workload, variant = trained(plain)
    seconds = (20 * 100 + 21 * 20) * 10 * 2.5
    assert runtime.of_location(clocked(10.0), workload, variant, 3) == 36 + 3 * seconds / 60


def test_comparisons_read_both_sides():
    # A GB of weights: 2 minutes a pair.
    assert runtime.of_comparison(clocked(1.0, parameters=2**28), pairs=5, seeds=3) == 36 + 10
    assert runtime.of_comparison(clocked(1.0, parameters=2**28), pairs=1) == 32
    assert runtime.of_comparison(clocked(1.0), pairs=1) == 31


def test_rules_ask_by_the_last_rehearsal_and_more_at_each_attempt(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = resolved()
    minutes = Minutes(Params(Inputs(settings), []))
    seeds = len(settings.config["reproducibility"]["seeds"])
    asked = [
        minutes.of_run(RUN, 1),
        minutes.of_location(OF_STUDY, 1),
        minutes.of_seeds(OF_STUDY, 1),
    ]
    assert asked == [120, 30 + 2 * seeds, 30 + 2 * seeds]
    memory.write({"denoiser": clocked(20.2, parameters=2**28)})
    assert minutes.of_run(RUN, 1) > 120 < minutes.of_location(OF_STUDY, 1)
    assert minutes.of_seeds(OF_STUDY, 1) == 30 + 2 * seeds + 2 * seeds
    assert minutes.of_timing({"timing": "determinism_denoiser"}, 1) > 120
    for of in (minutes.of_run, minutes.of_location, minutes.of_seeds):
        assert of(OF_STUDY | RUN, 3) == 3 * of(OF_STUDY | RUN, 1)
    change = {"workload": "denoiser", "cell": "repeat"}
    assert minutes.of_change(change, 2) == 2 * 32
    unrehearsed = Minutes(Params(Inputs(resolved(rehearsal=False)), []))
    assert unrehearsed.of_run(RUN, 1) == 120
