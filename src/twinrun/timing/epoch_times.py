"""What several workers buy: the seconds that the epochs of runs took, by variant.

Measured are whole epochs of training steps, from the first step's start to the last one's end, in
runs that trace every step; the first epoch of a run is left out and shown apart. The runs follow
one another, so unlike a timing's rounds their epochs are no pairs: a ratio is one of medians, and
its interval follows from the intervals of both. It is of seconds per sample, since an epoch may
leave samples out, or end early; where no loader tells how many there are, of seconds per step, if
the mini-batches are the same. Does without torch.
"""

from collections.abc import Container, Iterable, Sequence
from pathlib import Path
from typing import Literal, TypedDict

import numpy as np
import pandas as pd

from twinrun import artifacts, run_files
from twinrun.run_records import FailedRun, RunManifest
from twinrun.timing.ratios import CONFIDENCE, UNSTABLE_IQR_SHARE, median_interval
from twinrun.timing.summary import Ratio, Skipped

OF_RUN = ["variant", "workers", "seed", "repeat"]
COLUMNS = [*OF_RUN, "epoch", "seconds", "communication", "steps", "samples"]
Unit = Literal["samples", "steps"]


class EpochMedian(TypedDict):
    """The epochs of one variant, over all its runs."""

    variant: str
    """The variant."""
    workers: int
    """Its worker processes."""
    size: None
    """None: epochs are measured at one size only."""
    phase: str
    """`train`, as in a timing."""
    seconds: float
    """Median of an epoch without the first ones."""
    low: float
    """Lower quartile of these epochs."""
    high: float
    """Upper quartile of these epochs."""
    iqr_share: float
    """Interquartile range of the seconds per sample, or per step, as a share of their median."""
    steps: float
    """Median steps of an epoch."""
    samples: float | None
    """Median samples of an epoch; None where they are not known of each."""
    epochs: int
    """Epochs that were measured."""
    unstable: bool
    """Whether the share is so large that something else disturbed the measurement."""
    communication: float
    """Share of the time in which the first worker exchanged with the others or waited."""
    first_epoch: float
    """Median seconds of the first epochs."""


class EpochRatio(Ratio):
    """A variant's epochs compared with the baseline's."""

    efficiency: float
    """The speed-up divided by how many times as many workers made it."""
    per: Unit
    """Of what the seconds are compared."""


class Scaling(TypedDict):
    """The epochs of a workload's runs, variant by variant."""

    workload: str
    """The workload."""
    baseline: str
    """The variant that the others are compared with: that of the first run."""
    medians: list[EpochMedian]
    """A row for each variant."""
    ratios: list[EpochRatio]
    """A row for each variant but the baseline."""
    skipped: list[Skipped]
    """Variants whose epochs could not be measured."""


def read(path: str | Path) -> Scaling:
    """Read a summary.

    Raises:
        TwinrunError: if the file is no whole record of one.
    """
    return artifacts.read_record(path, Scaling)


def summarise(runs: Sequence[str | Path], *, epochs: str | Path, summary: str | Path) -> None:
    """Write the table of epochs, and a summary of each variant as JSON.

    Args:
        runs: run.json of runs of one workload; the variant of the first is the baseline.
        epochs: path of the CSV, a row for each run and epoch.
        summary: path of the JSON.
    """
    identities = [run_files.read_ended(run) for run in runs]
    failures = {run: run_files.failure_of(run) for run in runs}
    # A training that failed has no seconds. `_skipped` names a variant of which all runs failed.
    manifests = [run_files.read_run(run) for run in runs if failures[run] is None]
    same = {run["variant"] for run in manifests if _has_same_batches(run)}
    # A process begins slowly, and which epochs began one is not known.
    found = [row for run in manifests if not run["resumed_at"] for row in _epochs(run)]
    rows = pd.DataFrame(found, columns=COLUMNS)
    artifacts.write_csv(epochs, rows)
    baseline = identities[0]["variant"]
    # With one epoch in all runs there is no other. Beside longer runs a first epoch, with its
    # start-up, is nothing to compare: a variant that has no other one is left out and named.
    steady = rows[rows["epoch"] > 1] if (rows["epoch"] > 1).any() else rows
    groups = {v: steady[steady["variant"] == v] for v in steady["variant"].unique()}
    firsts = rows[rows["epoch"] == 1].groupby("variant")["seconds"].median()
    scaling: Scaling = {
        "workload": identities[0]["workload"],
        "baseline": baseline,
        "medians": [
            _median(variant, group, first_epoch=firsts.loc[variant])
            for variant, group in groups.items()
        ],
        # The baseline itself may have failed: then there is no ratio, and the medians stand alone.
        "ratios": [
            _ratio(variant, group, groups[baseline], unit)
            for variant, group in groups.items()
            if variant != baseline and baseline in groups
            for unit in _unit([group, groups[baseline]], is_same={variant, baseline} <= same)
        ],
        "skipped": _skipped(identities, failures.values(), measured=groups, started=firsts.index),
    }
    artifacts.write_record(summary, scaling, Scaling)


def _skipped(
    runs: Iterable[RunManifest | FailedRun],
    failures: Iterable[str | None],
    *,
    measured: Container[str],
    started: Container[str],
) -> list[Skipped]:
    """Return the variants without an epoch that counts, each with the first reason.

    Args:
        runs: of all variants.
        failures: the sentence of each run that failed.
        measured: the variants whose epochs count.
        started: those that ended an epoch.
    """
    reasons: dict[str, str] = {}
    for run, failure in zip(runs, failures, strict=True):
        if run["variant"] in started:
            why = "its runs have one epoch each, and the first epoch of a run is left out"
        elif failure is None and run_files.left_network(run) and run["resumed_at"]:
            why = "it was resumed, and some of its epochs began a process"
        else:
            why = failure or "it ended before its first epoch"
        if run["variant"] not in measured:
            reasons.setdefault(run["variant"], why)
    return [
        {"variant": v, "size": None, "phase": None, "reason": reason}
        for v, reason in reasons.items()
    ]


def _epochs(manifest: RunManifest) -> list[dict[str, object]]:
    """Return a row for each epoch of a run."""
    seconds = manifest["seconds"]
    run = {
        "variant": manifest["variant"],
        "workers": run_files.variant_of(manifest).devices,
        "seed": manifest["seed"],
        "repeat": manifest["repeat"],
    }
    of_epochs = (seconds[name] for name in ("epochs", "communication", "steps", "samples"))
    return [
        dict(zip(COLUMNS, (*run.values(), epoch, *found), strict=True))
        for epoch, found in enumerate(zip(*of_epochs, strict=True), start=1)
    ]


def _has_same_batches(manifest: RunManifest) -> bool:
    """Say whether the mini-batches of a run are those of one worker."""
    variant = run_files.variant_of(manifest)
    is_cut = variant.sharding == "canonical" and not variant.scale_batch_with_devices
    return variant.devices == 1 or is_cut


def _unit(groups: Sequence[pd.DataFrame], *, is_same: bool) -> list[Unit]:
    """Return of what the seconds of epochs are to be compared; nothing if of nothing."""
    if all(group["samples"].notna().all() for group in groups):
        return ["samples"]
    return ["steps"] if is_same else []


def _median(variant: str, epochs: pd.DataFrame, *, first_epoch: float) -> EpochMedian:
    low, middle, high = epochs["seconds"].quantile([0.25, 0.5, 0.75])
    (unit,) = _unit([epochs], is_same=True)
    least, usual, most = (epochs["seconds"] / epochs[unit]).quantile([0.25, 0.5, 0.75])
    iqr_share = (most - least) / usual
    return {
        "variant": variant,
        # A number of NumPy, like those below: `write_record` makes them Python's.
        "workers": epochs["workers"].iloc[0],
        "size": None,
        "phase": "train",
        "seconds": middle,
        "low": low,
        "high": high,
        "iqr_share": iqr_share,
        "steps": epochs["steps"].median(),
        "samples": epochs["samples"].median() if unit == "samples" else None,
        "epochs": len(epochs),
        "unstable": iqr_share > UNSTABLE_IQR_SHARE,
        # Of all seconds together. The mean of the epochs' shares would count short epochs like
        # long ones.
        "communication": epochs["communication"].sum() / epochs["seconds"].sum(),
        "first_epoch": first_epoch,
    }


def _ratio(variant: str, epochs: pd.DataFrame, baseline: pd.DataFrame, unit: Unit) -> EpochRatio:
    """Compare a variant with the baseline; efficiency is the speed-up for each more worker."""
    both = (epochs, baseline)
    own, base = ((table["seconds"] / table[unit]).to_numpy(dtype=float) for table in both)
    low, high = interval_of_ratio(own, base) or (None, None)
    ratio = np.median(own) / np.median(base)
    workers = epochs["workers"].iloc[0] / baseline["workers"].iloc[0]
    return {
        "variant": variant,
        "size": None,
        "phase": "train",
        "time_ratio": float(ratio),
        "low": low,
        "high": high,
        "efficiency": float(1 / ratio / workers),
        "per": unit,
    }


def interval_of_ratio(values: np.ndarray, baseline: np.ndarray) -> tuple[float, float] | None:
    """Return a 95 % interval of the ratio of two medians; None for fewer than 7 values on a side.

    Each median misses its own interval in 2.5 % of cases, so one of the two in at most 5 %
    (Bonferroni).

    Args:
        values: (N,) seconds of a variant, per sample or step.
        baseline: (M,) likewise of the baseline.
    """
    # ASSUME that epochs are independent, also those of one run.
    confidence = 1 - (1 - CONFIDENCE) / 2
    own, base = (median_interval(array, confidence) for array in (values, baseline))
    # The smallest ratio has the largest baseline below it.
    return None if own is None or base is None else (own[0] / base[1], own[1] / base[0])
