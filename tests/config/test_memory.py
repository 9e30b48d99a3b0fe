"""What jobs ask of memory, from sizes to MiB."""

from dataclasses import replace

import pytest
from example_sizes import BASE, MIB, measured
from standard_config import resolved

from twinrun.config import memory
from twinrun.config.inputs import Inputs
from twinrun.config.params import Params

RUN = {"workload": "denoiser", "variant": "deterministic", "seed": "1", "repeat": "1"}
TIMING = {"timing": "determinism_denoiser"}


@pytest.fixture
def variants():
    return resolved().variants


@pytest.mark.parametrize("found", [None, measured(100_000), measured(10_000_000)])
def test_small_networks_ask_for_what_they_always_did(variants, found):
    plain = variants["deterministic"]
    assert memory.of_training(found, plain) == memory.of_replay(found, plain) == memory.FLOOR
    assert memory.of_training(found, replace(plain, devices=2)) == 2 * memory.FLOOR


def test_300_million_parameters_get_what_they_hold_at_once(variants):
    """With Adam: weights, gradients, two states, and a checkpoint that is read beside it."""
    held = 7 * 4 * 300e6 / MIB
    found, plain = measured(300_000_000), variants["deterministic"]
    asked = memory.of_training(found, plain)
    assert held + 450 < asked < 1.4 * (held + 450)
    assert memory.of_training(found, replace(plain, devices=4)) == 4 * asked
    # Its own state, the start that was saved, and the optimizer's state while it is put back.
    assert 10 * 4 * 300e6 / MIB < memory.of_replay(found, plain) < 1.5 * 10 * 4 * 300e6 / MIB
    assert memory.of_training(found, replace(plain, compile="step")) > asked


def test_what_the_forward_pass_holds_counts(variants):
    plain = variants["deterministic"]
    assert memory.of_training(measured(1_000_000, peak=20_000), plain) > 20_000
    waiting = measured(1_000_000, peak=4_000, batch=2**30)
    more = memory.of_training(waiting, replace(plain, data_workers=4))
    assert more > memory.of_training(waiting, plain) + 8 * 1024


def test_what_loaders_start_by_themselves_counts(variants):
    """Red before: 6 workers with two batches each were asked for only where a variant says them."""
    plain = variants["deterministic"]
    timing = resolved().timings["determinism_denoiser"]
    found, own = (
        measured(1_000_000, peak=4_000, batch=100 * MIB, workers=workers)
        for workers in ((0, 0, 0), (6, 24, 200 * MIB))
    )
    pairs = zip(*(of_each(one, plain, timing) for one in (found, own)), strict=True)
    more = [b - a for a, b in pairs]
    for one in more:
        assert abs(one - memory.SPARE * (24 * 100 + 6 * 200)) <= 2 * memory.STEP
    # A process, its batch and two that are ready; with a validation's at the same time.
    asked = memory.of_training(found, replace(plain, data_workers=3))
    each = memory.WORKER / MIB + 300
    assert abs(asked - memory.of_training(found, plain) - 1.25 * 3 * each) <= memory.STEP
    found["sizes"]["validation_batches"] = 4
    more = memory.of_training(found, replace(plain, data_workers=3)) - asked
    assert abs(more - 1.25 * 3 * each) <= memory.STEP


def of_each(found, variant, timing):
    return [
        memory.of_training(found, variant),
        memory.of_replay(found, variant),
        memory.of_timing(found, timing, [variant, variant]),
    ]


@pytest.mark.parametrize("changes", [{}, {"compile": "step"}], ids=str)
def test_a_wider_precision_holds_wider_numbers(variants, changes):
    """Red before: a run in float64 asked for what its rehearsal took in float32."""
    plain = replace(variants["deterministic"], **changes)
    double = replace(plain, precision="64-true")
    timing = resolved().timings["determinism_denoiser"]
    # One of wide layers, and one of wide activations.
    for found in (measured(300_000_000), measured(1_000_000, peak=20_000)):
        single, exact = (of_each(found, variant, timing) for variant in (plain, double))
        # All but the imports, and what is proven in float64 in any case.
        fixed = BASE * memory.SPARE + memory.TRACE * memory.SPARE + memory.STEP
        kept = 6 * memory.KEPT_BYTES / MIB * memory.SPARE
        for one, other, rest in zip(single, exact, (fixed, fixed, fixed + kept), strict=True):
            assert (1 if changes else 2) * (one - rest) <= other <= 2 * one
    assert memory.of_training(measured(1_000_000, peak=5_000), double) > 1.25 * (
        BASE + 2 * (5_000 - BASE)
    )


def test_what_is_as_wide_or_narrower_asks_for_no_other_memory(variants):
    plain = variants["deterministic"]
    found = measured(300_000_000)
    assert memory.of_training(found, replace(plain, precision="bf16-true")) == (
        memory.of_training(found, plain)
    )
    assert memory.of_training(measured(300_000_000, precision="64-true"), plain) == (
        memory.of_training(found, plain)
    )
    # A mixed precision has its parameters in float32, and what a pass keeps in 16 bits.
    mixed = measured(1_000_000, peak=20_000, precision="bf16-mixed")
    assert memory.of_training(mixed, plain) > 1.25 * (BASE + 2 * 19_500)
    parameters = measured(300_000_000, precision="bf16-mixed")
    assert memory.of_training(parameters, plain) < 1.05 * memory.of_training(found, plain)


def test_what_comes_in_later_steps_counts(variants):
    """Red before: a network whose body is thawed asked for what its frozen one took."""
    plain, timing = variants["deterministic"], resolved().timings["determinism_denoiser"]
    size = 4 * 300_000_000
    found = measured(300_000_000, optimizer=0, peak=1_800)
    later = measured(300_000_000, optimizer=0, peak=1_800, later=(size, 2 * size))
    # Gradients and two states more, and the states once in a checkpoint that is read.
    more = [
        b - a for a, b in zip(*(of_each(of, plain, timing) for of in (found, later)), strict=True)
    ]
    times = [3 + 2, 3 + 4, 3 + 2 * 2]
    for one, expected in zip(more, times, strict=True):
        assert abs(one - memory.SPARE * expected * size / MIB) <= 2 * memory.STEP
    double = replace(plain, precision="64-true")
    assert memory.of_training(later, double) - memory.of_training(found, double) > 1.9 * more[0]


@pytest.mark.parametrize("averages", [0, 1])
def test_there_is_a_reserve_above_what_was_measured(variants, averages):
    """Adam, 100 million parameters on a CPU, resumed in mid-epoch, without and with an average.

    Before checkpoints were written without copies, one took 3,970 MiB of 4,100, and 4,690 of 4,600.
    """
    used, peak = [(3_049, 2_020), (3_842, 2_467)][averages]
    found = measured(100_687_872, peak=peak, averages=averages)
    assert 1.15 * used < memory.of_training(found, variants["deterministic"]) < 2 * used


def test_what_callbacks_hold_is_in_a_checkpoint_that_is_read(variants):
    """Red before: it was asked for nowhere beside the peak; its state may be kept once more."""
    plain, size = variants["deterministic"], 4 * 100_000_000
    without, with_it = (
        memory.of_training(measured(100_000_000, peak=4_000, averages=count), plain)
        for count in (0, 1)
    )
    assert abs(with_it - without - memory.SPARE * 2 * size / MIB) <= 2 * memory.STEP


def test_a_timing_holds_all_its_variants_at_once(variants):
    settings = resolved()
    timing, plain = settings.timings["determinism_denoiser"], variants["deterministic"]
    found, state = measured(100_000_000), 4 * 4 * 100e6 / MIB
    two, three = (memory.of_timing(found, timing, [plain] * count) for count in (2, 3))
    assert 450 + 3 * state < two
    assert state < three - two < 2 * state * memory.SPARE
    both = replace(timing, phases=["train", "trainer"])
    assert memory.of_timing(found, both, [plain] * 2) > two + 2 * state
    # Batches are kept until they are enough.
    stream = measured(100_000_000, batch=2**26, steps=None)
    assert memory.of_timing(stream, timing, [plain] * 2) - two < 3 * 2 * 400 * memory.SPARE


def test_a_rule_asks_by_the_last_rehearsal(tmp_path, monkeypatch):
    """Read when it asks, as the rehearsal comes after the rules have been read."""
    monkeypatch.chdir(tmp_path)
    params = Params(Inputs(resolved()), [])
    asked = [params.memory_of_run, params.memory_of_replay]
    assert [of(RUN, 2) for of in asked] == [8000, 8000]
    assert params.memory_of_timing(TIMING, 3) == 12000
    memory.write({"denoiser": measured(500_000_000)})
    assert all(of(RUN, 1) > 8 * 4 * 500 for of in asked)
    assert params.memory_of_run(RUN, 2) == 2 * params.memory_of_run(RUN, 1)
    assert params.memory_of_timing(TIMING, 1) > 3 * 4 * 4 * 500
    unrehearsed = Params(Inputs(resolved(rehearsal=False)), [])
    assert unrehearsed.memory_of_run(RUN, 1) == memory.FLOOR
    memory.SIZES.write_text("{")
    assert params.memory_of_run(RUN, 1) == memory.FLOOR


def test_for_a_trial_that_was_not_rehearsed_speaks_the_largest_of_its_sweep(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small, large = measured(1000), measured(500_000_000)
    memory.write({"digits~width~8": small, "digits~width~9": large, "peaks": measured(10)})
    assert memory.measured_of("digits~width~8") == small
    assert memory.measured_of("digits~width~9~rate~2") == large
    assert memory.measured_of("denoiser") is None
