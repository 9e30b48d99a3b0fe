"""The trials of a sweep, ranked by a metric.

A trial that failed or was stopped has no rank and comes last, with the reason; so does one whose
metric is no number, or that has not logged it. Does without torch.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeGuard

import pandas as pd

from twinrun import artifacts, run_files
from twinrun.comparison.study_records import Ranking, Trial, write_ranking
from twinrun.run_records import FailedRun, RunManifest

Manifest = RunManifest | FailedRun

OF_RUN = ("variant", "seed")
OF_TABLE = ("rank", "ended")


def rank(
    runs: Sequence[str | Path],
    *,
    workload: str,
    metric: str,
    best: str,
    table: str | Path,
    summary: str | Path,
) -> None:
    """Write the ranking as a table, and with what it is made of as JSON.

    Args:
        runs: run.json of every trial and seed; the table of epochs lies beside it.
        workload: the one that the trials vary.
        metric: of the test, or of the last epoch.
        best: `highest` or `lowest`.
        table: path of the CSV.
        summary: path of the JSON.
    """
    manifests = [run_files.read_ended(run) for run in runs]
    trials = [
        _trial(manifest, Path(run), point, metric)
        for manifest, run, point in zip(manifests, runs, _points(manifests), strict=True)
    ]
    sign = -1 if best == "highest" else 1
    # Infinity has no sign here: where the highest is best, too, a trial without a number comes
    # last. Sorting is stable, so trials of one value stay in the order of the runs.
    trials.sort(key=lambda trial: sign * trial["value"] if _is_number(trial["value"]) else math.inf)
    for rank_of_trial, trial in enumerate(trials, start=1):
        if _is_number(trial["value"]):
            trial["rank"] = rank_of_trial
    ranked_by = _apart(metric, trials[0]["point"])
    rows = [
        {"rank": trial["rank"], **trial["point"], ranked_by: trial["value"], **trial["metrics"]}
        | {"ended": trial["ended"]}
        for trial in trials
    ]
    # Int64 with a capital knows missing values: one trial without a rank would make all of them
    # floats.
    artifacts.write_csv(table, pd.DataFrame(rows).astype({"rank": "Int64"}))
    write_ranking(
        summary,
        Ranking(
            workload=workload,
            metric=metric,
            best=best,
            finished=sum(trial["ended"] == "finished" for trial in trials),
            same=_same(trials, manifests, runs),
            trials=trials,
        ),
    )


def _same(
    trials: Sequence[Trial], manifests: Sequence[Manifest], runs: Sequence[str | Path]
) -> list[list[str]]:
    """Group the labels of the finished trials that end in the same weights, in their order."""
    weights = {
        # Spelled as in `_trial`: the path is the key.
        Path(run).as_posix(): manifest["weights_sha256"]
        for run, manifest in zip(runs, manifests, strict=True)
        if run_files.left_network(manifest)
    }
    groups: dict[object, list[str]] = {}
    for trial in trials:
        if trial["ended"] == "finished":
            groups.setdefault(weights[trial["run"]], []).append(trial["label"])
    return [labels for labels in groups.values() if len(labels) > 1]


def _is_number(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value)


def _points(manifests: Sequence[Manifest]) -> list[dict[str, object]]:
    """Return of each trial the hyperparameters, variant and seed that are not the same in all.

    A hyperparameter that is called as what every run has does not take its place.
    """
    taken = {*OF_RUN, *OF_TABLE}
    of_trials = [
        {
            **{
                f"hyperparameter {name}" if name in taken else name: value
                for name, value in run_files.workload_of(manifest).hyperparameters.items()
            },
            "variant": manifest["variant"],
            "seed": manifest["seed"],
        }
        for manifest in manifests
    ]
    names = dict.fromkeys(name for values in of_trials for name in values)
    # repr, since a list has no hash, and 1 and 1.0 are two settings.
    varied = [n for n in names if len({repr(values.get(n)) for values in of_trials}) > 1]
    return [{name: values.get(name) for name in varied} for values in of_trials]


def _trial(manifest: Manifest, path: Path, point: dict[str, object], metric: str) -> Trial:
    logged = dict(manifest["metrics"])
    if manifest["ended"] == "finished":
        # What the test logged goes before what an epoch logged under the same name.
        logged = _logged_last(run_files.verified(path, "epochs.csv")) | logged
    value = logged.pop(metric, None)
    # Of a trial that failed there are no seconds.
    seconds = manifest["seconds"] if run_files.left_network(manifest) else None
    return Trial(
        rank=None,
        point=point,
        label=", ".join(f"{name} {value}" for name, value in point.items()) or "the only one",
        value=value,
        metrics={_apart(name, point): found for name, found in logged.items()},
        fit_seconds=seconds["fit"] if seconds else None,
        ended=manifest["ended"],
        run=path.as_posix(),
    )


def _apart(metric: str, point: Mapping[str, object]) -> str:
    """Return the name of a metric's column, where a hyperparameter may have one of that name."""
    return f"logged {metric}" if metric in {*point, *OF_TABLE} else metric


def _logged_last(epochs: Path) -> dict[str, float]:
    """Return each value that was logged last, which need not have been in the last epoch."""
    # As text, since a NaN that was logged is `nan`, and an empty cell was not logged at all.
    table = artifacts.read_csv(epochs, ["epoch"], types=str).drop(columns="epoch")
    found = {str(name): [text for text in table[name] if text] for name in table.columns}
    return {name: float(texts[-1]) for name, texts in found.items() if texts}
