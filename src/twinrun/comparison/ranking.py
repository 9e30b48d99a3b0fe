"""The trials of a sweep or a contest, ranked by a metric: by choices, each by its mean over seeds.

What is compared is measured alike: in the test, or else in one epoch, the same for all. A trial
that failed or was stopped has no number, nor has one whose metric or weights are none, or that has
not logged it there. Its choice has no rank then, and comes last with the reason: a mean over the
seeds that went well would be a mean over the lucky ones. Does without torch.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeGuard

import pandas as pd

from twinrun import artifacts, run_files
from twinrun.comparison.begun import UNKNOWN, begun_with
from twinrun.comparison.conditions import doubts_of
from twinrun.comparison.evaluated_data import drawn_otherwise, other_samples
from twinrun.comparison.outputs import hash_of_predictions
from twinrun.comparison.pair import other_conditions
from twinrun.comparison.study_records import Choice, Ranking, Trial, write_ranking
from twinrun.run_records import FailedRun, RunManifest

Manifest = RunManifest | FailedRun

OF_RUN, OF_TABLE = ("variant", "seed"), ("rank", "ended")
NOT_LOGGED = ("not logged", "its test did not log it")  # in an epoch; in the test


def rank(
    runs: Sequence[str | Path],
    *,
    workload: str,
    metric: str,
    best: str,
    table: str | Path,
    summary: str | Path,
    contestants: Mapping[str, str] | None = None,
    trained: str | None = None,
    margin: float | None = None,
) -> None:
    """Write the ranking as a table, and with what it is made of as JSON.

    Args:
        runs: run.json of every trial and seed; the table of epochs lies beside it.
        workload: the one that the trials vary; of a contest the first one's.
        metric: of the test, or else of an epoch.
        best: `highest` or `lowest`.
        table: path of the CSV.
        summary: path of the JSON.
        contestants: how the choices of a contest are called, by their names; None for a sweep,
            whose choices are called after what they do not share.
        trained: how long, where that is not how long the workload itself is trained.
        margin: of a contest: by less than that the first may be worse.
    """
    manifests = [run_files.read_ended(run) for run in runs]
    measured = _Measured(manifests, [Path(run) for run in runs], metric)
    trials = [
        _trial(manifest, Path(run), point, measured, index, is_contest=contestants is not None)
        for index, (manifest, run, point) in enumerate(
            zip(manifests, runs, _points(manifests), strict=True)
        )
    ]
    seeds = list(dict.fromkeys(trial["seed"] for trial in trials))
    known = [seed for seed in seeds if any(_has_number(t) for t in trials if t["seed"] == seed)]
    choices = ranked(trials, known, best, contestants)
    _order(trials, choices, seeds)
    _write_table(table, trials, metric)
    write_ranking(
        summary,
        Ranking(
            workload=workload,
            metric=metric,
            measured_in="test" if measured.in_test else "epoch",
            epoch=measured.epoch,
            other_samples=measured.in_test and other_samples(manifests),
            trained=trained,
            best=best,
            margin=margin,
            seeds=known,
            without_number=[seed for seed in seeds if seed not in known],
            contestants=list(contestants or {}),
            conflict=other_conditions(manifests) or measured.conflict,
            choices=choices,
            finished=sum(trial["ended"] == "finished" for trial in trials),
            same=_same(trials),
            trials=trials,
        ),
    )


def _order(trials: list[Trial], choices: Sequence[Choice], seeds: Sequence[int]) -> None:
    """Rank trials as their choices are, and sort them by that."""
    position = {choice["name"]: index for index, choice in enumerate(choices)}
    for trial in trials:
        trial["rank"] = choices[position[trial["choice"]]]["rank"]
    trials.sort(key=lambda trial: (position[trial["choice"]], seeds.index(trial["seed"])))


def _write_table(path: str | Path, trials: Sequence[Trial], metric: str) -> None:
    ranked_by = _apart(metric, trials[0]["point"])
    rows = [
        {"rank": trial["rank"], **trial["point"], ranked_by: trial["value"], **trial["metrics"]}
        | {"ended": trial["ended"]}
        for trial in trials
    ]
    # Int64 with a capital knows missing values, of which one would make all of them floats.
    artifacts.write_csv(path, pd.DataFrame(rows).astype({"rank": "Int64"}))


def ranked(
    trials: Sequence[Trial],
    seeds: Sequence[int],
    best: str,
    contestants: Mapping[str, str] | None,
) -> list[Choice]:
    """Return the choices, the best mean first, those without a rank last."""
    of_choice: dict[str, dict[int, Trial]] = {}
    for trial in trials:
        of_choice.setdefault(trial["choice"], {})[trial["seed"]] = trial
    choices = []
    for name, by_seed in of_choice.items():
        lacking: dict[str, list[str]] = {}
        for seed in seeds or by_seed:
            why = by_seed[seed]["lacks"] if seed in by_seed else "not run"
            if why is not None:
                lacking.setdefault(why, []).append(str(seed))
        values = [] if lacking else [by_seed[seed]["value"] for seed in seeds]
        point = next(iter(by_seed.values()))["point"]
        label = contestants[name] if contestants else _label(point, but="seed")
        choices.append(
            Choice(
                name=name,
                label=label,
                rank=None,
                values=[value for value in values if value is not None],
                lacks="; ".join(f"seed {', '.join(of)}: {why}" for why, of in lacking.items())
                or None,
            )
        )
    sign = -1 if best == "highest" else 1
    # Infinity has no sign here: where the highest is best, too, a choice without a number comes
    # last. Sorting is stable, so choices of one mean stay in the order of the runs.
    choices.sort(key=lambda c: sign * _mean(c["values"]) if c["values"] else math.inf)
    means = [_mean(choice["values"]) for choice in choices if choice["values"]]
    for choice, mean in zip(choices, means, strict=False):  # those without come last
        choice["rank"] = 1 + means.index(mean)  # equals share it: their order is the config's
    return choices


def _mean(values: Sequence[float]) -> float:
    # Divided first: a sum of numbers may be none.
    return math.fsum(value / len(values) for value in values)


class _Measured:
    """Where the metric of all trials is taken from: their test, or else one epoch."""

    def __init__(self, manifests: Sequence[Manifest], paths: Sequence[Path], metric: str) -> None:
        self.metric = metric
        self.tested = [dict(manifest["metrics"]) for manifest in manifests]
        # By its name: the epoch that logged it last, and what it was.
        self.logged = [
            _logged_last(run_files.verified(path, "epochs.csv"))
            if manifest["ended"] == "finished"
            else {}
            for manifest, path in zip(manifests, paths, strict=True)
        ]
        self.in_test = any(metric in tested for tested in self.tested)
        epochs = [logged[metric][0] for logged in self.logged if metric in logged]
        self.epoch = None if self.in_test else max(epochs, default=None)
        self.conflict = drawn_otherwise(manifests) if self.in_test else None

    def value_of(self, index: int, manifest: Manifest) -> tuple[float | None, str | None]:
        """Return a trial's value, and why it has no number."""
        if manifest["ended"] != "finished":
            return None, manifest["ended"]
        # The largest of scores that are NaN is the first: it has an accuracy all the same.
        if run_files.left_network(manifest) and manifest["no_result"] is not None:
            return None, manifest["no_result"]
        epoch = None
        if self.in_test:
            value = self.tested[index].get(self.metric)
        else:
            epoch, value = self.logged[index].get(self.metric, (None, None))
        if value is None:
            return None, NOT_LOGGED[self.in_test]
        if epoch != self.epoch:
            return None, (
                f"logged last in epoch {epoch}, not {self.epoch}: of trainings that end in "
                f"unlike epochs a metric that `test_step` logs is compared"
            )
        return value, None if _is_number(value) else f"{value}"

    def others_of(self, index: int) -> dict[str, float]:
        """Return all that a trial logged under other names."""
        # What the test logged goes before what an epoch logged under the same name.
        logged = {name: value for name, (_, value) in self.logged[index].items()}
        return {k: v for k, v in (logged | self.tested[index]).items() if k != self.metric}


def _same(trials: Sequence[Trial]) -> list[list[str]]:
    """Group the labels of the finished trials that end in the same weights, in their order."""
    groups: dict[str | None, list[str]] = {}
    for trial in trials:
        if trial["ended"] == "finished" and trial["weights_sha256"] is not None:
            groups.setdefault(trial["weights_sha256"], []).append(trial["label"])
    return [labels for labels in groups.values() if len(labels) > 1]


def _is_number(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value)


def _has_number(trial: Trial) -> bool:
    return trial["lacks"] is None


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


def _trial(
    manifest: Manifest,
    path: Path,
    point: dict[str, object],
    measured: _Measured,
    index: int,
    *,
    is_contest: bool,
) -> Trial:
    value, lacks = measured.value_of(index, manifest)
    has_ended = manifest["ended"] == "finished"
    # Of a trial that failed there is nothing of this.
    left = manifest if run_files.left_network(manifest) else None
    return Trial(
        rank=None,
        choice=f"{manifest['workload']}/{manifest['variant']}",
        seed=manifest["seed"],
        point=point,
        label=_label(point),
        value=value,
        lacks=lacks,
        metrics={_apart(name, point): found for name, found in measured.others_of(index).items()},
        fit_seconds=left["seconds"]["fit"] if left and not left["resumed_at"] else None,
        ended=manifest["ended"],
        run=path.as_posix(),
        weights_sha256=run_files.end_of(left) if left else None,
        predictions_sha256=hash_of_predictions(path) if is_contest and has_ended else None,
        predicted_on=left["evaluated_on"]["in_order"].get("predict") if left else None,
        tested=measured.tested[index],
        begun=begun_with(path, left) if left and has_ended else UNKNOWN,
        doubts=doubts_of(left) if left else [],
        resumed_at=left["resumed_at"] if left else [],
    )


def _label(point: Mapping[str, object], *, but: str | None = None) -> str:
    named = (f"{name} {value}" for name, value in point.items() if name != but)
    return ", ".join(named) or "the only one"


def _apart(metric: str, point: Mapping[str, object]) -> str:
    """Return the name of a metric's column, where a hyperparameter may have one of that name."""
    return f"logged {metric}" if metric in {*point, *OF_TABLE} else metric


def _logged_last(epochs: Path) -> dict[str, tuple[int, float]]:
    """Return each value that was logged last and its epoch, which need not be the last one."""
    # As text, since a NaN that was logged is `nan`, and an empty cell was not logged at all.
    table = artifacts.read_csv(epochs, ["epoch"], types=str)
    found = {
        str(name): [
            (int(epoch), text)
            for epoch, text in zip(table["epoch"], table[name], strict=True)
            if text
        ]
        for name in table.columns.drop("epoch")
    }
    return {name: (of[-1][0], float(of[-1][1])) for name, of in found.items() if of}
