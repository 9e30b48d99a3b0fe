"""What several workers buy: the seconds that the epochs of runs took, by variant.

Measured are whole epochs of training steps, from the first step's start to the last one's end, in
runs that trace every step; the first epoch of a run is left out and shown apart. The runs follow
one another, so unlike a timing's rounds their epochs are no pairs: the interval of a ratio of
medians comes from drawing each variant's epochs again by itself (bootstrap). Does without torch.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from twinrun import artifacts, run_files
from twinrun.timing.ratios import RESAMPLES, UNSTABLE_IQR_SHARE


def summarise(runs: Sequence[str | Path], *, epochs: str | Path, summary: str | Path) -> None:
    """Write the table of epochs, and a summary of each variant as JSON.

    Args:
        runs: run.json of runs of one workload; the variant of the first is the yardstick.
        epochs: path of the CSV, a row for each run and epoch.
        summary: path of the JSON: medians by variant with their ratios to the yardstick's, shaped
            as those of a timing, with workers, efficiency and the share of communication.
    """
    manifests = [run_files.read_run(run) for run in runs]
    rows = pd.DataFrame([row for manifest in manifests for row in _epochs(manifest)])
    artifacts.write_csv(epochs, rows)
    yardstick = manifests[0]["variant"]
    # With one epoch there is no other.
    steady = rows[rows["epoch"] > 1] if (rows["epoch"] > 1).any() else rows
    groups = {variant: steady[steady["variant"] == variant] for variant in rows["variant"].unique()}
    first_epochs = rows[rows["epoch"] == 1].groupby("variant")["seconds"].median()
    medians = [
        _median(found) | {"first_epoch": float(first_epochs[variant])}
        for variant, found in groups.items()
    ]
    artifacts.write_json(
        summary,
        {
            "workload": manifests[0]["workload"],
            "yardstick": yardstick,
            "medians": medians,
            "ratios": [
                _ratio(found, groups[yardstick])
                for variant, found in groups.items()
                if variant != yardstick
            ],
            "skipped": [],
        },
    )


def _epochs(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    seconds = manifest["seconds"]
    run = {
        "variant": manifest["variant"],
        "workers": manifest["settings"]["variant"]["devices"],
        "seed": manifest["seed"],
        "repeat": manifest["repeat"],
    }
    pairs = zip(seconds["epochs"], seconds["communication"], strict=True)
    return [
        {**run, "epoch": epoch, "seconds": whole, "communication": part}
        for epoch, (whole, part) in enumerate(pairs, start=1)
    ]


def _median(epochs: pd.DataFrame) -> dict[str, Any]:
    low, middle, high = epochs["seconds"].quantile([0.25, 0.5, 0.75])
    iqr_share = (high - low) / middle
    return {
        "variant": epochs["variant"].iloc[0],
        "workers": int(epochs["workers"].iloc[0]),
        "size": None,
        "phase": "train",
        "seconds": middle,
        "low": low,
        "high": high,
        "iqr_share": iqr_share,
        "epochs": len(epochs),
        "unstable": bool(iqr_share > UNSTABLE_IQR_SHARE),
        "communication": epochs["communication"].sum() / epochs["seconds"].sum(),
    }


def _ratio(epochs: pd.DataFrame, yardstick: pd.DataFrame) -> dict[str, Any]:
    """Hold a variant against the yardstick; efficiency is the speed-up for each more worker."""
    found, base = (table["seconds"].to_numpy() for table in (epochs, yardstick))
    generator = np.random.default_rng(0)
    drawn, drawn_base = (
        np.median(generator.choice(values, (RESAMPLES, len(values))), axis=1)
        for values in (found, base)
    )
    low, high = np.quantile(drawn / drawn_base, [0.025, 0.975])
    ratio = float(np.median(found) / np.median(base))
    workers = epochs["workers"].iloc[0] / yardstick["workers"].iloc[0]
    return {
        "variant": epochs["variant"].iloc[0],
        "size": None,
        "phase": "train",
        "time_ratio": ratio,
        "low": float(low),
        "high": float(high),
        "efficiency": float(1 / ratio / workers),
    }
