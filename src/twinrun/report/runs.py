"""What ran, for how long, on which machine, with which data."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import TypeAlias, cast

import pandas as pd
from markupsafe import Markup

from twinrun.comparison.conditions import listed, made_anew
from twinrun.process.environment import Context
from twinrun.process.found_files import read_of_all
from twinrun.report.results import ReportedRun, Results
from twinrun.run_files import workload_of
from twinrun.verdicts.failed_runs import log_of

MOST_LISTED = 60
Value: TypeAlias = str | int | float | None


def table(results: Results) -> dict[str, object]:
    """Return the runs summed up by workload and variant, and one by one where they are not many."""
    groups: dict[tuple[str, str], list[ReportedRun]] = {}
    for run in results.runs:
        groups.setdefault((run["workload"], run["variant"]), []).append(run)
    return {
        "groups": [_group(*key, runs) for key, runs in groups.items()],
        "number": len(results.runs),
        # From the results folder, in which the page lies.
        "failed": [{**run, "log": log_of(run["folder"])} for run in results.failed[:MOST_LISTED]],
        "number_failed": len(results.failed),
        "each": results.runs if len(results.runs) <= MOST_LISTED else [],
    }


def _group(workload: str, variant: str, runs: Sequence[ReportedRun]) -> dict[str, object]:
    totals = [run["seconds"]["total"] for run in runs]
    return {
        "workload": workload,
        "variant": variant,
        "runs": len(runs),
        "steps": sorted({run["steps"] for run in runs}),
        "fit_seconds": median(run["seconds"]["fit"] for run in runs),
        "total_seconds": median(totals),
        "range_seconds": (min(totals), max(totals)),
        "peak_memory_mb": max(run["peak_memory_mb"] for run in runs),
        "ended": Counter(run["ended"] for run in runs),
        "remarks": Counter(remark for run in runs for remark in _remarks(run)),
    }


def _is_written(run: ReportedRun) -> bool:
    return run["data"] is not None and "is_changed" in run["data"]


def _remarks(run: ReportedRun) -> list[str]:
    """Say what a run lacks, and where it was not as its variant says: not all runs are compared."""
    lacks = [f"{what}: {reason}" for what, reason in run["not_evaluated"].items()]
    return [
        *lacks,
        *([] if run["no_result"] is None else [f"no result: {run['no_result']}"]),
        *(f"in doubt: {doubt}" for doubt in run["doubts"]),
        *(read_of_all(run["found_files"]["kept"]) if "found_files" in run else []),
        *(["its dataset was written to while it trained"] if _is_written(run) else []),
        *_resumed(run),
        *(f"not as the variant says: {found['sentence']}" for found in run["departures"]),
    ]


def _resumed(run: ReportedRun) -> list[str]:
    if not run["resumed_at"]:
        return []
    steps = listed("step", run["resumed_at"])
    anew = [made_anew(run["made_anew"])] if "made_anew" in run else []
    return [f"resumed after {steps}: its seconds are those of its last process alone", *anew]


def environments(results: Results) -> list[dict[str, object]]:
    """Return each different environment and how many runs it made, the first one in full.

    Of the others what is not as in the first; of each also what may differ inside of it.
    """
    found: dict[tuple[tuple[str, object], ...], list[Context]] = {}
    for run in results.runs:
        environment = run["environment"]
        found.setdefault(tuple(environment["identity"].items()), []).append(environment["context"])
    whole: list[dict[str, object]] = [
        {"runs": len(contexts), "identity": dict(identity), "context": _context(contexts)}
        for identity, contexts in found.items()
    ]
    others = [_beside(entry, whole[0]) for entry in whole[1:]]
    return [*whole[:1], *others]


def _beside(environment: Mapping[str, object], first: Mapping[str, object]) -> dict[str, object]:
    """Return an environment without what is as in the first one."""
    parts = {
        part: (
            cast(Mapping[str, object], environment[part]),
            cast(Mapping[str, object], first[part]),
        )
        for part in ("identity", "context")
    }
    return {
        "runs": environment["runs"],
        **{
            part: {key: value for key, value in own.items() if other.get(key) != value}
            for part, (own, other) in parts.items()
        },
    }


def _context(contexts: Sequence[Context]) -> dict[str, str]:
    """Return for each key the values it had, or their range where they are many."""
    # A typed dictionary takes no name but a written one.
    plain = [cast(Mapping[str, Value], context) for context in contexts]
    return {key: _values(context[key] for context in plain) for key in plain[0]}


def _values(values: Iterable[Value]) -> str:
    different = sorted(set(values), key=lambda value: (str(type(value)), value))
    if len(different) <= 2:
        return ", ".join(map(str, different))
    return f"{different[0]} to {different[-1]}"


def datasets(results: Results) -> list[dict[str, object]]:
    """Return the datasets that the runs name: how made, and the contact sheet if there is one.

    Of several that one function makes the first one's is shown.
    """
    hashes: dict[str, dict[str, None]] = {}
    for run in results.runs:
        name = workload_of(run).dataset
        if run["data"] and name is not None:
            hashes.setdefault(name, {})[run["data"]["sha256"]] = None
    drawn: dict[str, str] = {}
    found: list[dict[str, object]] = []
    for name, different in hashes.items():
        settings, figure = results.config["datasets"][name], results.figures.get(f"data/{name}")
        # What is made alike looks alike.
        like = drawn.setdefault(f"{settings.get('make')} {settings.get('shows')}", name)
        is_again = like != name and isinstance(figure, Markup) and settings.get("make") is not None
        found.append(
            {
                "name": name,
                "hashes": list(different),
                "settings": settings,
                "manifest": results.datasets.get(name),
                "figure": None if is_again else figure,
                "like": like if is_again else None,
            }
        )
    return found


def without_dataset(results: Results) -> list[str]:
    """Name the workloads whose data nobody has identified: their data modules read it unasked."""
    names = (run["workload"] for run in results.runs if run["data"] is None)
    return list(dict.fromkeys(names))


def metrics(results: Results, study: str, workload: str) -> list[dict[str, object]]:
    """Return the range of each metric of the tested networks, a row a metric, by variant."""
    runs = results.runs_of_study(study, workload)
    # What a network that is NaN is right in, it is right in by chance.
    measured = [{} if run["no_result"] else run["metrics"] for run in runs]
    # The variants are no column: a metric may have any name.
    table = pd.DataFrame(measured, index=[run["variant"] for run in runs])
    if table.empty:
        return []
    # In the order of the config, in which the baseline is first.
    ranges = table.groupby(level=0, sort=False).agg(["min", "max"])
    return [
        {"name": name, "ranges": {v: tuple(ranges.loc[v, name]) for v in ranges.index}}
        for name in table.columns
    ]
