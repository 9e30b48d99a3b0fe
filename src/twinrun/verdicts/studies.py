"""The verdicts of each study; whoever adds a study adds a function to STUDIES."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from twinrun.config.resume_variants import RESUMES, STOPS
from twinrun.formatting import count, measure, plural
from twinrun.verdicts.equality import REPEATS, contrasts_of, summed_up
from twinrun.verdicts.rows import Row, missing_rows
from twinrun.verdicts.speed import COSTS, agreements, costs, loops, measured_or_skipped, speed

COSTS_ALONE = "Does it cost time?"  # where nothing was timed, and no baseline is known
FASTER_AT = "Is it faster than {baseline} at {size} {unit}?"
FASTER_DEVICE = "Is it faster on this device?"
SPEED = {
    "train": "Does it train faster than {baseline}?",
    "predict": "Does it predict faster than {baseline}?",
}
EPOCH_FASTER = "Does it train an epoch faster than {baseline}?"
ALL_FINISHED = "Did every trial of the sweep finish?"
WITHSTANDS = "Does it stay equal, bit for bit, when one setting is changed?"
RESUMED = "Stopped anywhere, does it go on to the same bits from {by}?"
STOPPED = "Does it go on to the same bits after a stop?"


def reproducibility(
    comparisons: Sequence[Mapping[str, Any]],
    timings: Sequence[Mapping[str, Any]],
    not_run: Sequence[Mapping[str, str]],
) -> list[Row]:
    """Say for each workload and variant whether it repeats, and what determinism costs."""
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for comparison in comparisons:
        groups.setdefault((comparison["workload"], comparison["variant"]), []).append(comparison)
    rows = [
        {"workload": workload, "variant": variant, **summed_up(seeds)}
        for (workload, variant), seeds in groups.items()
    ]
    rows += missing_rows(not_run, REPEATS)
    rows += [row for timing in timings for row in costs(timing)]
    baselines = {timing["workload"]: timing["baseline"] for timing in timings}
    for missing in not_run:
        baseline = baselines.get(missing["workload"])
        question = COSTS.format(baseline=baseline) if baseline else COSTS_ALONE
        rows += missing_rows([missing], question)
    return rows


def devices(
    contrasts: Sequence[Mapping[str, Any]],
    timings: Sequence[Mapping[str, Any]],
    not_run: Sequence[Mapping[str, str]],
) -> list[Row]:
    """Answer for each variant and size whether it is faster than the baseline, then the contrasts.

    Args:
        contrasts: comparisons of a variant with the study's first, each with its `path`.
        timings: summaries of timings with sizes, each with its `path`.
        not_run: `workload`, `variant` and `reason` of what could not run here.
    """
    rows = []
    for timing in timings:
        unit = timing["settings"]["timing"]["size"]
        for entry in measured_or_skipped(timing):
            size = "?" if entry["size"] is None else count(entry["size"])
            question = FASTER_AT.format(baseline=timing["baseline"], size=size, unit=unit)
            rows.append(speed(timing, entry, question))
        rows += [*loops(timing), *agreements(timing)]
    return [*rows, *missing_rows(not_run, FASTER_DEVICE), *contrasts_of(contrasts)]


def acceleration(
    contrasts: Sequence[Mapping[str, Any]],
    timings: Sequence[Mapping[str, Any]],
    not_run: Sequence[Mapping[str, str]],
) -> list[Row]:
    """Answer for each variant whether it trains and predicts faster, and what it changes.

    Args:
        contrasts: as for `devices`.
        timings: summaries of timings with the phases train and predict, each with its `path`.
        not_run: as for `devices`.
    """
    rows = [
        speed(timing, entry, question.format(baseline=timing["baseline"]))
        for timing in timings
        for phase, question in SPEED.items()
        for entry in measured_or_skipped(timing, phase)
    ]
    rows += [row for timing in timings for row in [*loops(timing), *agreements(timing)]]
    return [*rows, *missing_rows(not_run, FASTER_DEVICE), *contrasts_of(contrasts)]


def parallel(
    comparisons: Sequence[Mapping[str, Any]],
    scalings: Sequence[Mapping[str, Any]],
    not_run: Sequence[Mapping[str, str]],
) -> list[Row]:
    """Answer for each variant whether it repeats, whether it is faster, and what it changes.

    Args:
        comparisons: of repeats, and of a variant with the study's first (with `against`), each
            with its `path`.
        scalings: what the epochs took by variant, each with its `path`.
        not_run: as for `devices`.
    """
    rows = reproducibility(
        [found for found in comparisons if found.get("against") is None], [], not_run
    )
    for scaling in scalings:
        question = EPOCH_FASTER.format(baseline=scaling["baseline"])
        rows += [speed(scaling, entry, question, "epochs") for entry in scaling["ratios"]]
    return [*rows, *contrasts_of([found for found in comparisons if found.get("against")])]


def sweep(
    rankings: Sequence[Mapping[str, Any]],
    timings: Sequence[Mapping[str, Any]],
    not_run: Sequence[Mapping[str, str]],
) -> list[Row]:
    """Say of each sweep whether its trials finished, and which was best.

    Args:
        rankings: of the trials of a workload, each with its `path`.
        timings: none.
        not_run: as for `devices`.
    """
    rows = [
        {
            "workload": ranking["workload"],
            "variant": "",
            "question": ALL_FINISHED,
            "answer": "yes" if ranking["finished"] == len(ranking["trials"]) else "no",
            "figure": _best_trial(ranking),
            "evidence": ranking["path"],
        }
        for ranking in rankings
    ]
    return [*rows, *missing_rows(not_run, ALL_FINISHED)]


def _best_trial(ranking: Mapping[str, Any]) -> str:
    finished = f"{ranking['finished']} of {plural(len(ranking['trials']), 'trial')} finished"
    best = ranking["trials"][0]
    if best["rank"] is None:
        return finished
    metric = f"{ranking['best']} {ranking['metric']}"
    return f"{finished}; {metric}: {measure(best['value'])} with {best['label']}"


def matrix(
    matrices: Sequence[Mapping[str, Any]],
    timings: Sequence[Mapping[str, Any]],
    not_run: Sequence[Mapping[str, str]],
) -> list[Row]:
    """Say for each workload whether the baseline repeats, and which changes leave it as it was.

    Args:
        matrices: of `twinrun.comparison.matrix`, each with its `path`.
        timings: none.
        not_run: none; what a machine cannot run stands in the matrix.
    """
    return [
        {
            "workload": found["workload"],
            "variant": found["baseline"],
            "question": question,
            "answer": answer,
            "figure": figure,
            "evidence": found["path"],
        }
        for found in matrices
        for question, answer, figure in [_baseline(found), _withstands(found)]
    ]


def _baseline(found: Mapping[str, Any]) -> tuple[str, str, str]:
    if found["answer"] == "equal":
        return REPEATS, "equal", f"2 runs, {plural(found['steps'], 'step')}"
    return REPEATS, found["answer"], found["reason"]


def _withstands(found: Mapping[str, Any]) -> tuple[str, str, str]:
    """Count the changes that leave every bit as it was, and name the others."""
    changed = [cell for cell in found["cells"] if cell["cell"] not in ("repeat", "seed")]
    groups = {
        answer: [cell["label"] for cell in changed if cell["answer"] == answer]
        for answer in ("equal", "differs", "not comparable", "not run")
    }
    compared = len(groups["equal"]) + len(groups["differs"])
    if not compared:
        answer = "not comparable" if groups["not comparable"] else "not run"
        return WITHSTANDS, answer, found["reason"] or "no change could be compared"
    parts = [f"{count(len(groups['equal']))} of {plural(compared, 'change')} leave it equal"]
    parts += [f"{name}: {', '.join(labels)}" for name, labels in groups.items() if labels][1:]
    return WITHSTANDS, "no" if groups["differs"] else "yes", "; ".join(parts)


def resume(
    diagnoses: Sequence[Mapping[str, Any]],
    timings: Sequence[Mapping[str, Any]],
    not_run: Sequence[Mapping[str, str]],
) -> list[Row]:
    """Say for each way to resume after how many kinds of stop a training ends in the same bits.

    Args:
        diagnoses: what `diagnosis` found, each with its `path`.
        timings: none.
        not_run: as for `devices`.
    """
    rows = [
        {
            "workload": found["workload"],
            "variant": found["variant"],
            "question": RESUMED.format(by=by),
            "evidence": found["path"],
            **_resumed(stops),
        }
        for found in diagnoses
        for way, by in RESUMES.items()
        if (stops := [stop for stop in found["stops"] if _is_answered(stop, way)])
    ]
    return [*rows, *missing_rows(not_run, STOPPED)]


def _is_answered(stop: Mapping[str, Any], way: str) -> bool:
    """Leave out the other way to resume, and points that the training does not have."""
    return stop["resume"] == way and stop["answer"] != "not run"


def _resumed(stops: Sequence[Mapping[str, Any]]) -> Row:
    """Count the stops that lose nothing, and name the others."""
    places = {
        answer: [STOPS[stop["stop"]] for stop in stops if stop["answer"] == answer]
        for answer in ("equal", "differs", "not comparable")
    }
    equal = len(places.pop("equal"))
    loses = "loses" if len(stops) == 1 else "lose"
    parts = [f"{equal} of {plural(len(stops), 'kind')} of stop {loses} nothing"]
    parts += [f"{answer}: {', '.join(named)}" for answer, named in places.items() if named]
    answer = next((answer for answer, named in places.items() if named), "equal")
    return {"answer": answer, "figure": "; ".join(parts)}


STUDIES: Mapping[str, Callable[..., list[Row]]] = {
    "reproducibility": reproducibility,
    "devices": devices,
    "acceleration": acceleration,
    "parallel": parallel,
    "sweep": sweep,
    "matrix": matrix,
    "resume": resume,
}
