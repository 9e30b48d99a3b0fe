"""What ran, for how long, on which machine, with which data."""

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

import pandas as pd

from twinrun.report.results import Material

MOST_LISTED = 60


def table(material: Material) -> dict[str, Any]:
    """Give the runs summed up by workload and variant, and one by one where they are not many."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for run in material.runs:
        groups.setdefault((run["workload"], run["variant"]), []).append(run)
    return {
        "groups": [_group(*key, runs) for key, runs in groups.items()],
        "number": len(material.runs),
        "each": material.runs if len(material.runs) <= MOST_LISTED else [],
    }


def _group(workload: str, variant: str, runs: list[dict[str, Any]]) -> dict[str, Any]:
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
    }


def environments(material: Material) -> list[dict[str, Any]]:
    """Give each different environment, what may differ inside it, and how many runs it made."""
    found: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for run in material.runs:
        environment = run["environment"]
        found.setdefault(tuple(environment["identity"].items()), []).append(environment["context"])
    return [
        {"runs": len(contexts), "identity": dict(identity), "context": _context(contexts)}
        for identity, contexts in found.items()
    ]


def _context(contexts: list[dict[str, Any]]) -> dict[str, str]:
    """Give for each key the values it had, or their range where they are many."""
    return {key: _values(context[key] for context in contexts) for key in contexts[0]}


def _values(values: Iterable[Any]) -> str:
    different = sorted(set(values))
    if len(different) <= 2:
        return ", ".join(map(str, different))
    return f"{different[0]} to {different[-1]}"


def datasets(material: Material) -> list[dict[str, Any]]:
    """Give the datasets that the runs name: how made, and the contact sheet if there is one."""
    hashes: dict[str, dict[str, None]] = {}
    for run in material.runs:
        if run["data"]:
            name = run["settings"]["workload"]["dataset"]
            hashes.setdefault(name, {})[run["data"]["sha256"]] = None
    return [
        {
            "name": name,
            "hashes": list(found),
            "settings": material.config["datasets"][name],
            "manifest": material.datasets.get(name),
            "figure": material.figures.get(f"data/{name}"),
        }
        for name, found in hashes.items()
    ]


def metrics(material: Material, workload: str, variants: Sequence[str]) -> list[dict[str, Any]]:
    """Give the range of each metric of the tested networks, a row a metric, by variant."""
    runs = [
        run for run in material.runs if run["workload"] == workload and run["variant"] in variants
    ]
    table = pd.DataFrame([{"variant": run["variant"], **run["metrics"]} for run in runs])
    if table.empty or len(table.columns) == 1:
        return []
    ranges = table.groupby("variant", sort=False).agg(["min", "max"])
    return [
        {"name": name, "ranges": {v: tuple(ranges.loc[v, name]) for v in ranges.index}}
        for name in table.columns[1:]
    ]
