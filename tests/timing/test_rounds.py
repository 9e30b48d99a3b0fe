"""Variants do the same steps on the same batches, under the switches that a run would have."""

import importlib
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from example_trainings import VARIANT

from twinrun import artifacts
from twinrun.config.definitions import Timing, TimingFiles, Variant, Workload
from twinrun.errors import JobError, TwinrunError
from twinrun.timing.break_even import break_even
from twinrun.timing.measure import measure
from twinrun.timing.ratios import ratios
from twinrun.timing.round_length import steps_of_round
from twinrun.timing.summary import read
from twinrun.verdicts.evidence import Evidence
from twinrun.verdicts.speed import costs, prediction_speeds, training_speeds

PLAIN = Variant(**{**VARIANT, "deterministic": False})
SLOW = Variant(**{**VARIANT, "deterministic": True})


@pytest.fixture
def clocked(monkeypatch, tmp_path):
    """Time the variants by the clock of the module, in which only its steps take time."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    monkeypatch.delitem(sys.modules, "lasting_import", raising=False)
    clock = importlib.import_module("lasting_steps").Clock
    monkeypatch.setattr(clock, "now", 0.0)  # behind other tests a difference would be rounded more
    for module in ("timed_variant", "trainer_loop", "fit"):
        monkeypatch.setattr(f"twinrun.timing.{module}.timer", clock.read)

    def timed(
        phases,
        *,
        sizes=(),
        module="lasting_steps:Lasting",
        plain=PLAIN,
        slow=SLOW,
        **hyperparameters,
    ):
        files = TimingFiles(rounds=str(tmp_path / "t.csv"), summary=str(tmp_path / "t.json"))
        measure(
            name="t",
            timing=Timing(
                workload="w",
                variants=[],
                rounds=12,
                steps=7,
                phases=phases,
                size="batch_size" if sizes else None,
                sizes=list(sizes),
            ),
            workload=Workload(
                module=module,
                data="lasting_steps:Sorted",
                dataset=None,
                hyperparameters=hyperparameters,
                epochs=2,
            ),
            variants={"plain": plain, "slow": slow},
            dataset=None,
            search_path=[],
            files=files,
        )
        summary = {**artifacts.read_json(files.summary), "path": files.summary}
        return pd.read_csv(files.rounds), summary

    return timed


@pytest.mark.one_in(2)
@pytest.mark.parametrize("order", ["sorted", "drawn", "drawn by its own"])
@pytest.mark.parametrize("times", [3.0, 128.0])
def test_a_ratio_is_that_of_the_same_batches_in_every_round(clocked, order, times):
    """Seen red: variants filled their rounds, and the fast one went on to longer samples."""
    phases = ["train", "trainer", "predict"]
    found, summary = clocked(phases, order=order, times=times)
    assert summary["skipped"] == []
    by_phase = {row["phase"]: row for row in summary["ratios"]}
    assert by_phase.keys() == set(phases)
    for row in by_phase.values():
        # But for the rounding of seconds by steps.
        assert (row["time_ratio"], row["low"], row["high"]) == pytest.approx((times, times, times))
    # Nothing but the steps takes time, so the Trainer costs none where both had the same batches.
    for row in summary["trainer"]:
        assert (row["time_ratio"], row["low"], row["high"]) == (1, 1, 1)
    steps = found[found["round"] > 0].groupby(["phase", "round"])["steps"].nunique()
    assert (steps == 1).all()


PHASES = ["train", "trainer", "predict"]


def only(rows):
    (row,) = rows
    return row


@pytest.mark.one_in(2)
@pytest.mark.parametrize("order", ["one large", "one large and late"])
def test_no_direction_is_named_that_an_epoch_of_uneven_batches_does_not_have(clocked, order):
    """Seen red: "slower, 100% more time", of a variant that trains an epoch in two thirds."""
    found, summary = clocked(PHASES, module="lasting_steps:DearToStart", order=order)
    rounds = Path(summary["path"]).with_suffix(".csv")
    timing = Evidence(path="t.json", found=read(summary["path"]))
    said = [only(judged(timing)) for judged in (costs, training_speeds, prediction_speeds)]
    assert [row["answer"] for row in said] == ["undecided"] * 3
    rest = "1 larger one than all that were measured may take much of an epoch"
    if order == "one large":
        rest = "and its interval holds that of the median round, 2.00 times the time"
        for row in summary["ratios"]:
            assert 0.6 < row["time_ratio"] < 0.8  # of an epoch: 0.69
            assert row["low"] < row["time_ratio"] < 1 < 2 <= row["high"]
        means = {row["variant"]: row for row in summary["medians"] if row["phase"] == "train"}
        assert means["plain"]["seconds_per_step"] > 0.08  # a small one takes 0.015
    for row in said:
        assert "its mini-batches are uneven (the largest has 20.0 times" in row["measured"]
        assert rest in row["measured"]
    assert break_even(timing.found, "slow", None).is_undecided
    # Nothing but the steps takes time, so the Trainer costs none.
    assert [row["time_ratio"] for row in summary["trainer"]] == pytest.approx([1, 1])
    # As the gate asks, from the files.
    table = artifacts.read_csv(rounds, list(found.columns))
    assert ratios(table, "plain", timing.found["extents"]) == timing.found["ratios"]


OWN = "lasting_steps:InConstructor", "lasting_steps:InHook", "lasting_steps:InStep"


@pytest.mark.parametrize("module", [*OWN, "lasting_import:Lasting"])
def test_what_the_module_sets_by_itself_stays_as_in_a_run(clocked, module):
    """Seen red: "yes, 3 times", where all runs were deterministic and said so."""
    _, summary = clocked(["train"], module=module)
    seconds = [row["seconds_per_step"] for row in summary["medians"] if row["phase"] == "train"]
    assert seconds[0] == seconds[1]
    plain, slow = summary["had"]
    assert plain["switches"]["deterministic"]
    assert [found["setting"] for found in plain["departures"]] == ["deterministic"]
    assert slow["departures"] == []
    timing = Evidence(path="t.json", found=read(summary["path"]))
    (cost,), (speed,) = costs(timing), training_speeds(timing)
    assert summary["ratios"] == []
    why = "under plain, deterministic is True, where the variant says False"
    for verdict in (cost, speed):
        assert (verdict["answer"], verdict["measured"]) == ("not run", why)


def test_threads_that_the_module_sets_are_no_threads_of_the_variant(clocked):
    slow = replace(PLAIN, threads=2)
    _, summary = clocked(["train"], module="lasting_steps:Threads", slow=slow)
    plain, other = summary["had"]
    assert plain["switches"]["threads"] == other["switches"]["threads"] == 1
    assert [found["setting"] for found in other["departures"]] == ["threads"]


def test_a_constructor_that_runs_once_in_a_process_costs_no_variant(clocked, capsys):
    """Seen red: each variant was to construct a module of its own, and none was timed."""
    found, summary = clocked(["train"], module="lasting_steps:OnlyOnce")
    assert summary["skipped"] == []
    assert set(found["variant"]) == {"plain", "slow"}
    assert "RuntimeError: operator is registered already" in capsys.readouterr().err


def test_a_constructor_that_refuses_a_variants_settings_costs_that_variant(clocked):
    found, summary = clocked(["train"], module="lasting_steps:RefusesDeterminism")
    ((variant, reason),) = [(row["variant"], row["reason"]) for row in summary["skipped"]]
    assert (variant, "has no deterministic algorithm" in reason) == ("slow", True)
    assert set(found["variant"]) == {"plain"}


def test_a_setting_that_both_variants_lack_leaves_the_answer(clocked):
    """They were to differ in the algorithms alone, and did."""
    plain, slow = (replace(variant, threads=2) for variant in (PLAIN, SLOW))
    _, summary = clocked(["train"], module="lasting_steps:Threads", plain=plain, slow=slow)
    (row,) = costs(Evidence(path="t.json", found=read(summary["path"])))
    assert row["answer"] == "yes"


@pytest.mark.one_in(2)
@pytest.mark.parametrize("order", ["sorted", "drawn"])
def test_a_size_that_gives_the_batches_of_another_is_no_size(clocked, order):
    """Seen red: a batch of all 60 samples was judged "at 600" too, and at 6,000."""
    sizes = (8, 60, 600, 6000)
    found, summary = clocked(["train", "trainer"], sizes=sizes, order=order)
    assert found["size"].unique().tolist() == [8, 60]
    assert [(row["size"], row["phase"]) for row in summary["ratios"]] == [
        (8, "train"),
        (60, "train"),
        (60, "trainer"),
    ]
    assert [(row["variant"], row["size"], row["reason"]) for row in summary["skipped"]] == [
        (variant, size, f"batch_size {size} gives the batches of batch_size 60")
        for size in (600, 6000)
        for variant in ("plain", "slow")
    ]
    answers = training_speeds(Evidence(path="t.json", found=read(summary["path"])))
    assert [row["answer"] for row in answers] == ["no", "no", *["not run"] * 4]


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        ([1.0], 10),  # the least, and long enough
        ([0.001], 100),
        ([0.001, 0.002], 100),  # the fastest fills the round
        ([0.001, 0.009], 30),  # the slowest holds the others up no longer than that
        ([0.001, 100.0], 10),
    ],
)
def test_a_round_is_long_enough_for_the_fastest_and_not_too_long_for_the_slowest(seconds, expected):
    assert steps_of_round(10, seconds) == expected


@pytest.mark.parametrize(
    ("error", "is_kept"),
    [
        (JobError("its short training was ended by SIGTERM"), False),
        (JobError("out of memory (bad_alloc): give the job more memory"), True),
        (TwinrunError("optimizer: fused was not proven"), True),
    ],
)
def test_a_proof_that_was_killed_is_no_reason_to_skip_a_variant(
    clocked, monkeypatch, error, is_kept
):
    """Red before: the variant had no times for good."""

    def proof_of(_):
        raise error

    monkeypatch.setattr("twinrun.timing.rounds.proof_of", proof_of)
    fast = replace(PLAIN, optimizer="foreach")
    with nullcontext() if is_kept else pytest.raises(JobError):
        _, summary = clocked(["train"], slow=fast)
        assert [row["reason"] for row in summary["skipped"]] == [str(error)]


def test_a_disturbance_is_no_reason_to_skip_a_phase(clocked, monkeypatch):
    """Red before: the phase had no times for good."""

    def warm_up(*_):
        raise RuntimeError("DataLoader worker (pid 7) is killed by signal: Killed.")

    monkeypatch.setattr("twinrun.timing.rounds.TimedVariant.warm_up", warm_up)
    with pytest.raises(RuntimeError, match="is killed by signal"):
        clocked(["train"])


def test_a_clock_too_coarse_for_a_step_leaves_a_round_finite():
    assert steps_of_round(10, [0.0]) <= 10**8 + 10
