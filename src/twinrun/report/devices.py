"""The section of the study devices: from which size on is another device faster?"""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pandas as pd

from twinrun import artifacts
from twinrun.figures.predictions import read_shown, rmse
from twinrun.report.gains import gains, pays
from twinrun.report.measured_sizes import where
from twinrun.report.results import ReportedRun, Results
from twinrun.report.worths import contrasts
from twinrun.run_files import read_run, verified
from twinrun.timing.break_even import break_even
from twinrun.timing.crossings import Crossing, crossing
from twinrun.timing.ratios import exponents
from twinrun.timing.summary import TimingSummary
from twinrun.timing.trained import Trained, trained_of


def section(results: Results) -> dict[str, object]:
    """Return what the section's template needs."""
    study = results.config["devices"]
    return {
        "size": study["size"],
        "seeds": study["seeds"],
        "workloads": [_workload(results, name) for name in study["workloads"]],
    }


def _workload(results: Results, workload: str) -> dict[str, object]:
    settings = results.config["workloads"][workload]
    folder = f"devices/{workload}"
    return {
        "name": workload,
        "module": settings["module"],
        "length": results.length_of(workload),
        "absent": results.absent("devices"),
        "untimed": results.untimed("devices", workload),
        "figures": {
            name: results.figures.get(f"{folder}/{name}") for name in ("sizes", "surfaces")
        },
        "timing": _timing(
            results.timings.get(f"devices_{workload}"),
            trained_of(results.runs_of_study("devices", workload)).get(workload),
        ),
        "gains": gains(results, "devices", workload, None),
        **_networks(results, workload),
        "contrasts": contrasts(results, "devices", workload),
    }


def _timing(timing: TimingSummary | None, trained: Trained | None) -> dict[str, object] | None:
    """Return a row for each variant and size, the growth of each variant and the crossovers."""
    if timing is None:
        return None
    # A row for each step that was timed: the first call and the transfer stand beside it.
    medians = [median for median in timing["medians"] if median["phase"] == "train"]
    seconds = {
        (median["phase"], median["variant"], median["size"]): median["seconds_per_step"]
        for median in timing["medians"]
    }
    ratios = {
        (ratio["variant"], ratio["size"]): ratio
        for ratio in timing["ratios"]
        if ratio["phase"] == "train"
    }
    loops = {(ratio["variant"], ratio["size"]): ratio for ratio in timing["trainer"]}
    keys = [(median["variant"], median["size"]) for median in medians]
    unit = str(timing["settings"]["timing"].size)
    return {
        "baseline": timing["baseline"],
        "rows": [
            {
                **median,
                "first_call": seconds["first_call", *key],
                "transfer": seconds["transfer", *key],
                "ratio": ratios.get(key),
                "loop": loops.get(key),
                "pays": pays(break_even(timing, *key, trained)) if key in ratios else None,
            }
            for median, key in zip(medians, keys, strict=True)
        ],
        "growth": _growth(pd.DataFrame(medians)) if medians else [],
        "proofs": timing["proofs"],
        "without_epoch_hooks": timing["without_epoch_hooks"],
        "agreement": timing["agreement"],
        "crossings": [{**found, "besides": _besides(found, unit)} for found in crossing(timing)],
        "skipped": timing["skipped"],
        "unstable": any(median["unstable"] for median in medians),
    }


def _besides(found: Crossing, unit: str) -> str:
    """Say what is known of sizes; beside a size from which on all are faster, what is not known."""
    every = [size for sizes in found["sizes"].values() for size in sizes]
    is_told = found["crossover"] is None
    return "; ".join(
        f"{known} {where(sizes, every, unit)}"
        for known, sizes in found["sizes"].items()
        if is_told or known in ("undecided", "not run", "not comparable")
    )


def _growth(medians: pd.DataFrame) -> list[dict[str, object]]:
    """Return for each variant the exponents of the time between its smallest and largest sizes."""
    found = []
    for variant, rows in medians.sort_values("size").groupby("variant", sort=False):
        sizes, seconds = (rows[key].to_numpy() for key in ("size", "seconds_per_step"))
        # One size says nothing of how the time grows.
        if len(sizes) > 1:
            slopes = list(exponents(sizes, seconds))
            ends = {"first": slopes[0], "last": slopes[-1], "from": sizes[-2], "to": sizes[-1]}
            found.append({"variant": variant, "start": sizes[0], "second": sizes[1], **ends})
    return found


def _networks(results: Results, workload: str) -> dict[str, object]:
    """Return loss and RMSE of each network, and the RMSE between those of one seed."""
    runs = results.runs_of_study("devices", workload)
    names = results.config["workloads"][workload]["shows"].get("surface", [])
    predicted = {(run["variant"], run["seed"]): read_shown(run["path"], names)[0] for run in runs}
    networks = [
        {
            "variant": run["variant"],
            "seed": run["seed"],
            "loss": _last_loss(run),
            "rmse": _apart(found, found, names),
            "fit_seconds": run["seconds"]["fit"],
        }
        for run, found in zip(runs, predicted.values(), strict=True)
    ]
    between = [
        {"first": a[0], "second": b[0], "seed": a[1], "rmse": apart}
        for (a, first), (b, second) in combinations(predicted.items(), 2)
        # Networks of unlike seeds differ anyway.
        if a[1] == b[1] and (apart := _apart(first, second, names[:1])) is not None
    ]
    failed = results.unfinished("devices", workload)
    return {"networks": networks, "between": between, "failed": failed}


def _apart(
    first: dict[str, np.ndarray], second: dict[str, np.ndarray], names: Sequence[str]
) -> float | None:
    """Return the RMSE between what is named first in one and last in the other, if both are."""
    if not names or names[0] not in first or names[-1] not in second:
        return None
    values, others = first[names[0]], second[names[-1]]
    return rmse(values, others) if values.size == others.size else None


def _last_loss(run: ReportedRun) -> float:
    """Return the mean loss of the last epoch's steps; NaN where a step has none, or no trace."""
    # Not from epochs.csv: what a module logs its loss as is its own affair.
    steps = artifacts.read_csv(verified(run["path"], "steps.csv"), ["epoch", "loss"])
    if len(steps) < read_run(run["path"])["steps"]:
        return float("nan")
    last = steps[steps["epoch"] == steps["epoch"].max()]
    return float(last["loss"].mean(skipna=False))
