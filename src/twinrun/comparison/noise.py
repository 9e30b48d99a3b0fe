"""How far runs are from a reference run: rounding, seeds and changes by the same measures.

The reference is a run of a baseline. Perturbations are the same run but for one unit in the last
place of one weight, seeds the same but for the seed, changes the same but for a setting. Each is
compared in its test metrics, predictions and parameters; `luck.scale` judges. Without torch.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from twinrun import artifacts
from twinrun.artifacts import StoredTensors
from twinrun.comparison import outputs, predicted
from twinrun.comparison.begun import begun_with
from twinrun.comparison.conditions import doubts_of
from twinrun.comparison.distances import relative
from twinrun.comparison.evaluated_data import OTHER_ROWS, OTHER_SAMPLES, Phase, other_phases
from twinrun.comparison.formats import FLOAT32, UNIT_OF_DTYPE
from twinrun.comparison.happened import not_changed
from twinrun.comparison.noise_records import Measure, NoiseRun, NoiseTable, write_noise
from twinrun.comparison.noise_steps import STEP_COLUMNS, by_step_of, half_a_seed, thinned
from twinrun.comparison.pair import why_no_pair
from twinrun.config.rule_records import ListedRun
from twinrun.process.found_files import disturbed_by
from twinrun.run_files import FINGERPRINT, end_of, left_network, read_ended, verified
from twinrun.run_records import FAILED, RunManifest

AS_NUMBERS = " (as numbers)"  # of rows that are measured by their values, too
NO_WEIGHT = "there is no weight that could be changed, or other perturbations change them all"


def weigh(
    runs: Sequence[ListedRun],
    *,
    workload: str,
    variant: str,
    seed: int,
    left_out: Sequence[str],
    steps: str | Path,
    summary: str | Path,
) -> None:
    """Write how far runs are from the reference: at the end as JSON, by step as CSV.

    Args:
        runs: the reference first.
        workload: of all.
        variant: of the reference.
        seed: of the reference.
        left_out: what has another baseline, for a reader.
        steps: path of the CSV.
        summary: path of the JSON.
    """
    reference, *others = runs
    first, reason = _read(reference)
    if first is None:
        compared = [_without(run, "not comparable", "there is no reference") for run in others]
        found = [_without(reference, "not run", reason or ""), *compared]
        measures, other_data, by_step = [], [], pd.DataFrame(columns=list(STEP_COLUMNS))
    else:
        other_data = _other_data(first, others)
        measured = _measures(first, predicts="predict" not in other_data)
        measures = [measure for measure, _ in measured]
        found = [_of_run(run, first, measured) for run in runs]
        by_step = by_step_of(first.path, found[1:])
    known = [run for run in found if run["kind"] != "reference"]
    half, since = half_a_seed(by_step) or (None, None)
    table = NoiseTable(
        workload=workload,
        variant=variant,
        seed=seed,
        steps=None if first is None else first.manifest["steps"],
        reason=reason,
        measures=[m for m in measures if m["kind"] == "metric" or _moves(m, known)],
        runs=found,
        not_measured=_not_measured(first) if first else {},
        left_out=[*left_out],
        other_data=other_data,
        samples=first.manifest["evaluated_on"]["numbers"].get("test", []) if first else [],
        half_a_seed=half,
    )
    if since is not None and since != half:
        table["half_since"] = since
    write_noise(summary, table)
    artifacts.write_csv(steps, thinned(by_step))


@dataclass(frozen=True, kw_only=True)
class _Run:
    """A run that left a network."""

    path: Path
    """Its run.json."""
    manifest: RunManifest
    """What that holds."""
    weights: StoredTensors
    """Parameters and buffers, by name."""
    predictions: StoredTensors
    """What it predicted, by name."""


def _read(run: ListedRun) -> tuple[_Run | None, str | None]:
    """Read a run; where it left no network of its own, return why."""
    if run["not_run"] is not None:
        return None, run["not_run"]
    path = Path(run["run"])
    manifest = read_ended(path)
    if not left_network(manifest):
        return None, f"the training failed: {manifest['ended'].removeprefix(FAILED)}"
    if manifest["ended"] != "finished":
        return None, f"the training ended otherwise: {manifest['ended']}"
    if "found_files" in manifest and (why := disturbed_by(manifest["found_files"])):
        return None, why  # it is partly another's
    weights = StoredTensors(verified(path, "weights.safetensors"))
    return (
        _Run(path=path, manifest=manifest, weights=weights, predictions=outputs.predicted(path)),
        None,
    )


def _not_measured(first: _Run) -> dict[str, str]:
    return outputs.not_measured(first.manifest, first.predictions.names())


def _other_data(first: _Run, listed: Sequence[ListedRun]) -> list[Phase]:
    """Say where any other seed is given other data than the reference."""
    read = [_read(run)[0] for run in listed if run["kind"] == "seed"]
    found = {phase for run in read if run for phase in other_phases(first.manifest, run.manifest)}
    phases: tuple[Phase, ...] = ("test", "predict")
    return [phase for phase in phases if phase in found]


def _measures(first: _Run, *, predicts: bool) -> list[tuple[Measure, str]]:
    """List what the reference can be compared by, with the metric or prediction that each is of.

    A metric and a prediction may have one name: then the second is called `... (predicted)`, and
    the parameters `... (of the network)` beside what is called as they are.
    """
    found: dict[str, tuple[Measure, str]] = {}
    for measure, of in _measured(first, predicts=predicts):
        while measure["name"] in found:
            measure["name"] += " (predicted)" if of else " (of the network)"
        found[measure["name"]] = measure, of
    return list(found.values())


def _measured(first: _Run, *, predicts: bool) -> Iterator[tuple[Measure, str]]:
    for name in first.manifest["metrics"]:
        yield Measure(name=name, kind="metric", floor=0.0), name
    stored = first.predictions
    for name in stored.names():
        if not predicts or name.endswith(FINGERPRINT) or not predicted.size_of(stored, name):
            continue
        half = 1 / (2 * predicted.number_of(stored, name))  # of one prediction
        rounding = _least([predicted.type_of(form[1])]) if (form := stored.form(name)) else half
        if predicted.are_rows(stored, name):
            yield Measure(name=name, kind="rows", floor=half), name
            # They need not be scores: coordinates may double, and the largest stay where it is.
            yield Measure(name=f"{name}{AS_NUMBERS}", kind="numbers", floor=rounding), name
        elif predicted.is_floating(stored, name):
            yield Measure(name=name, kind="numbers", floor=rounding), name
        else:
            yield Measure(name=name, kind="values", floor=half), name
    of = [t["dtype"] for t in first.manifest["tensors"] if t["kind"] == "parameter"]
    yield Measure(name="parameters", kind="parameters", floor=_least(of)), ""


def _least(dtypes: Sequence[str]) -> float:
    """Return the relative distance below which numbers of some types count as not apart.

    The unit roundoff of the finest of them; of shorter ones than float32, whose steps are large,
    that of float32.
    """
    return min((UNIT_OF_DTYPE.get(dtype, FLOAT32) for dtype in dtypes), default=FLOAT32)


def _moves(measure: Measure, runs: Sequence[NoiseRun]) -> bool:
    """Say whether any run is apart from the reference: what is predicted may be what was given."""
    name = measure["name"]
    return any(run["values"].get(name) or name in run["lacks"] for run in runs)


def _without(run: ListedRun, answer: str, reason: str) -> NoiseRun:
    return NoiseRun(
        kind=run["kind"],
        label=run["label"],
        study=run["study"],
        run=run["run"],
        answer="not run" if answer == "not run" else "not comparable",
        reason=reason,
        values={},
        lacks={},
        not_finite=[],
    )


def _of_run(listed: ListedRun, first: _Run, measures: Sequence[tuple[Measure, str]]) -> NoiseRun:
    """Compare a run with the reference."""
    run, reason = _read(listed)
    if run is None:
        return _without(listed, "not run", reason or "")
    reason = why_no_pair(first.manifest, run.manifest, across=True)
    # The reference is no pair with itself, but it has metrics.
    if reason is not None and listed["kind"] != "reference":
        return _without(listed, "not comparable", reason)
    if listed["kind"] == "change" and (without := not_changed(first.manifest, run.manifest)):
        return _without(listed, "not run", without)
    if listed["kind"] == "perturbation" and run.manifest["perturbed"] is None:
        return _without(listed, "not run", NO_WEIGHT)
    found = {m["name"]: _value(m["kind"], of, first, run) for m, of in measures}
    if run.manifest["no_result"] is not None:  # it may predict classes, and be right in some
        found = {name: math.nan if isinstance(v, float) else v for name, v in found.items()}
    # Of seeds the table says so: none of them need have the reference's.
    if listed["kind"] != "seed":
        others = other_phases(first.manifest, run.manifest)
        for measure, _ in measures:
            if measure["kind"] == "metric" and "test" in others:
                found[measure["name"]] = OTHER_SAMPLES
            elif measure["kind"] not in ("metric", "parameters") and "predict" in others:
                found[measure["name"]] = OTHER_ROWS
    values = {name: v for name, v in found.items() if isinstance(v, float) and math.isfinite(v)}
    lacking = {name: v for name, v in found.items() if name not in values}
    end = end_of(run.manifest)
    if end is None:
        return _without(listed, "not run", "nothing that was trained was kept to be compared")
    is_equal = end == end_of(first.manifest)
    is_equal &= outputs.are_same(first.manifest["metrics"], run.manifest["metrics"])
    is_equal &= predicted.are_same(first.predictions, run.predictions)
    compared = NoiseRun(
        kind=listed["kind"],
        label=listed["label"],
        study=listed["study"],
        run=listed["run"],
        answer="equal" if is_equal else "differs",
        reason=run.manifest["no_result"],
        resumed_at=run.manifest["resumed_at"],
        doubts=doubts_of(run.manifest),
        values=values,
        lacks={
            name: value if isinstance(value, str) else run.manifest["no_result"] or f"it is {value}"
            for name, value in lacking.items()
        },
        not_finite=[name for name, value in lacking.items() if isinstance(value, float)],
    )
    if listed["kind"] in ("reference", "seed"):
        compared["begun"] = begun_with(run.path, run.manifest)
    return compared


def _value(kind: str, name: str, first: _Run, run: _Run) -> float | str:
    """Return a metric, or a distance by a kind of measure; why there is none otherwise."""
    missing = run.manifest["not_evaluated"]
    if kind == "metric":
        if name in run.manifest["metrics"]:
            return float(run.manifest["metrics"][name])
        return missing.get("test", "it was not logged")
    if kind == "parameters":
        of = [t for t in first.manifest["tensors"] if t["kind"] == "parameter"]
        both = first.weights, run.weights
        found = (predicted.squares_of(*both, t["name"], t["dtype"]) for t in of)
        return float(np.sqrt(relative(*sum(found, np.zeros(2)))))
    one, other = first.predictions, run.predictions
    if name not in other.names():
        return missing.get(name, missing.get("predict", "it was not predicted"))
    if not predicted.are_alike(one, other, name):
        return "it is predicted in another shape or type"
    if kind == "numbers":
        return float(np.sqrt(relative(*predicted.squares_of(one, other, name))))
    # A row without numbers has a largest place too: the first.
    if kind == "rows" and not predicted.have_largest(one, other, name):
        return math.nan
    return predicted.share_changed(one, other, name)
