"""The record of a timing: what `measure` writes as JSON and verdicts, figures and report read.

Seconds are per training step or prediction batch. A ratio is a variant's seconds divided by the
baseline's: above 1 is slower. Everything here is derived from the table of rounds beside the JSON.
"""

from pathlib import Path
from typing import Literal, NotRequired, TypedDict

from twinrun import artifacts
from twinrun.config.definitions import Timing, Variant, Workload
from twinrun.process.environment import Environment, Switches
from twinrun.process.imported_code import Imported
from twinrun.proof_records import Proof
from twinrun.run_records import Departure

# What is measured in rounds, and what once before them.
TimedPhase = Literal["train", "trainer", "predict"]
RowPhase = Literal["train", "trainer", "predict", "transfer", "first_call"]


class TimingSettings(TypedDict):
    """What was asked for."""

    timing: Timing
    """The timing, as resolved from the config."""
    workload: Workload
    """The workload, likewise."""
    variants: dict[str, Variant]
    """The variants by name, likewise; the first is the baseline."""
    seed: int
    """The seed of the initial weights and of the order of the data."""


class InRounds(TypedDict):
    """What torch compiled in the rounds of a median, inside of the clock."""

    graphs: int
    """How many graphs."""
    reason: str | None
    """Why the last of them was compiled again, in torch's words; None where it gives no reason."""


class Uneven(TypedDict):
    """How far the mini-batches of a phase are from one size."""

    times: float
    """Elements of the largest over those of the middle one of the measured."""
    unmeasured: int
    """How many were not measured and are larger than all that were, if that may be much time."""


class UnevenRatio(Uneven):
    """The same behind a ratio."""

    of_rounds: float
    """The median of the ratios of each round, which is that of ordinary mini-batches."""


class Median(TypedDict):
    """The rounds of one variant at one size in one phase."""

    variant: str
    """The variant that was measured."""
    device: str
    """torch's type of the device that it ran on, `cpu` or `cuda`."""
    size: int | None
    """The value of the hyperparameter that the timing varies; None where it varies none."""
    phase: RowPhase
    """`train`, `trainer`, `predict`, or once each `transfer` and `first_call`."""
    seconds_per_step: float
    """The median over the rounds; of uneven mini-batches the mean over all steps."""
    iqr_share: float
    """The interquartile range of the rounds as a share of the median."""
    rounds: int
    """Rounds that were measured."""
    steps: int
    """Steps in all of them."""
    unstable: bool
    """Whether the share is so large that something else disturbed the measurement."""
    compiled: NotRequired[InRounds]
    """What was compiled meanwhile; absent if nothing was."""


class Interval(TypedDict):
    """A time ratio with its 95 % interval."""

    time_ratio: float
    """The median over the rounds; of uneven mini-batches that of all rounds together."""
    low: float | None
    """Lower end of the interval; None for too few rounds, for which there is no interval."""
    high: float | None
    """Upper end of the interval, likewise."""
    uneven: NotRequired[UnevenRatio]
    """What is known of uneven mini-batches; absent where they are even."""


class Ratio(Interval):
    """A variant compared with the baseline at one size in one phase."""

    variant: str
    """The variant, never the baseline."""
    size: int | None
    """As for `Median`."""
    phase: TimedPhase
    """What was measured."""


class Overhead(Interval):
    """A step through Lightning's Trainer compared with the bare step of the same variant."""

    variant: str
    """The variant."""
    size: int | None
    """As for `Median`."""


class Compilation(TypedDict):
    """What torch compiled for one variant in one phase, by torch's own counters."""

    variant: str
    """The compiled variant."""
    size: int | None
    """As for `Median`."""
    phase: TimedPhase
    """What was compiled, `train` or `predict`."""
    calls: int
    """Calls of the compiled function."""
    compilations: int
    """How many of these calls compiled."""
    reasons: list[str]
    """Why it was compiled again, in torch's words."""


class Agreement(TypedDict):
    """Whether a variant predicts what the baseline predicts, from the same initial weights."""

    variant: str
    """The variant, never the baseline."""
    size: int | None
    """As for `Median`."""
    distance: float | None
    """The largest relative L2 distance of a tensor of floating-point numbers that was predicted
    before any training; NaN where one has a NaN, None where there is no such tensor."""
    integers: int
    """How many integers and booleans were predicted, which have no tolerance."""
    integers_differing: int
    """How many of these differ."""
    tolerance: float
    """The distance up to which it counts as rounding."""


class TimedProof(TypedDict):
    """Whether a variant's fast steps compute what plain ones compute, proven before its timing."""

    variant: str
    """The variant, the baseline or another."""
    size: int | None
    """As for `Median`."""
    proof: Proof | None
    """None for a variant that was refused."""
    refused: str | None
    """Why: which value was off."""


class Extent(TypedDict):
    """How many batches a whole epoch and a whole prediction have; None where nobody can say."""

    size: int | None
    """As for `Median`."""
    train: int | None
    """Batches of an epoch of training."""
    predict: int | None
    """Batches of the prediction."""
    uneven: NotRequired[dict[str, Uneven]]
    """By phase, `train` or `predict`, what is known of uneven batches; absent if all are even."""


class SwitchesHad(TypedDict):
    """What torch was set to when the rounds of a variant had been measured."""

    switches: Switches
    """As the user's code had left them."""
    departures: list[Departure]
    """Where they are not what the variant says."""


class Had(SwitchesHad):
    """The same of one variant at one size."""

    variant: str
    """The variant."""
    size: int | None
    """As for `Median`."""


class Skipped(TypedDict):
    """A variant, or one phase of it, that could not be measured."""

    variant: str
    """The variant."""
    size: int | None
    """As for `Median`."""
    phase: RowPhase | None
    """As for `Median`; None for a variant of which nothing could be measured."""
    reason: str
    """Why, in one sentence."""
    reasons: NotRequired[dict[str, str]]
    """The same by phase, of a variant whose phases failed for several reasons."""


def reason_in(skipped: Skipped, phase: str) -> str:
    """Return why there is no measurement of a phase: first its own reason, then the others."""
    if "reasons" not in skipped:
        return skipped["reason"]
    reasons = skipped["reasons"]
    # Of all phases, None, is what had the variant left out before they were tried.
    own = [reasons[of] for of in (phase, "None") if of in reasons]
    return "; ".join(dict.fromkeys([*own, *reasons.values()]))


class TimingSummary(TypedDict):
    """A whole timing."""

    timing: str
    """Its name."""
    workload: str
    """The workload that was timed."""
    baseline: str
    """The variant that the others are compared with."""
    settings: TimingSettings
    """What was asked for."""
    environment: Environment
    """The machine and its software: see `twinrun.process.environment.describe`."""
    code: Imported
    """The user's modules, as the timing's process imported them."""
    medians: list[Median]
    """A row for each variant, size and phase that was measured."""
    ratios: list[Ratio]
    """A row for each variant but the baseline, size and phase measured in rounds, if the settings
    in which the two differ took effect; otherwise there is a row in `skipped`."""
    trainer: list[Overhead]
    """A row for each variant whose step was measured through the Trainer too."""
    compilation: list[Compilation]
    """A row for each compiled variant, size and phase."""
    proofs: list[TimedProof]
    """A row for each variant with fast steps, and size."""
    agreement: list[Agreement]
    """A row for each variant but the baseline that predicts."""
    extents: list[Extent]
    """A row for each size."""
    had: list[Had]
    """A row for each variant that was measured, and size."""
    skipped: list[Skipped]
    """A row for each variant, size and phase that could not be measured, or not compared."""
    without_epoch_hooks: list[Skipped]
    """A row for each variant and size whose bare steps were timed with no end of an epoch between
    them, because a hook of the epoch's end failed there."""


def read(path: str | Path) -> TimingSummary:
    """Read a timing.

    Raises:
        TwinrunError: if the file is no whole record of one.
    """
    return artifacts.read_record(path, TimingSummary)


def write(path: str | Path, summary: TimingSummary) -> None:
    """Write a timing, checked."""
    artifacts.write_record(path, summary, TimingSummary)
