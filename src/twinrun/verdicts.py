"""From comparisons and timings to verdicts: question, answer, figure, evidence, a line each.

A verdict says what was measured, never what was expected. A timing whose interval holds 1 says
that no difference was measured; a variant that could not run here has its line, with the reason.
Whoever adds a study adds a function to STUDIES.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from twinrun import artifacts
from twinrun.formatting import count, measure, plural

COLUMNS = ["study", "workload", "variant", "question", "answer", "figure", "evidence"]
ANSWERS = ("equal", "differs", "yes", "no", "not run", "not comparable")

REPEATS = "Are all learnable parameters equal, bit for bit?"
COSTS = "Does it cost time, against {yardstick}?"

Row = dict[str, str]


def judge(
    study: str,
    *,
    comparisons: Sequence[str],
    timings: Sequence[str],
    not_run: Mapping[str, str],
    workloads: Sequence[str],
    output: str,
) -> None:
    """Write the verdicts of one study.

    Args:
        study: its name.
        comparisons: JSON of its comparisons.
        timings: JSON of its timings.
        not_run: its variants that this machine cannot run, and why.
        workloads: its workloads, in the order of the config.
        output: path of the CSV.
    """
    results = Path(output).parents[1]
    rows = STUDIES[study](
        [_read(path, results) for path in comparisons],
        [_read(path, results) for path in timings],
        [
            {"workload": workload, "variant": variant, "reason": reason}
            for workload in workloads
            for variant, reason in not_run.items()
        ],
    )
    order = {workload: place for place, workload in enumerate(workloads)}
    rows.sort(key=lambda row: order[row["workload"]])
    table = pd.DataFrame([{"study": study, **row} for row in rows], columns=COLUMNS)
    artifacts.write_csv(output, table)


def collect(studies: Sequence[str], *, output: str) -> None:
    """Join the verdicts of the studies into one table."""
    tables = [pd.read_csv(path, dtype=str, keep_default_na=False) for path in studies]
    artifacts.write_csv(output, pd.concat(tables))


def summary_lines(verdicts: str) -> list[str]:
    """Give the verdicts as lines for a terminal."""
    table = pd.read_csv(verdicts, dtype=str, keep_default_na=False)
    names = (table["workload"] + " " + table["variant"]).str.strip()
    width = names.str.len().max()
    return [
        f"{name:<{width}}  {row.question} {row.answer}: {row.figure}"
        for name, row in zip(names, table.itertuples(), strict=True)
    ]


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
        {"workload": workload, "variant": variant, "question": REPEATS, **_repeats(seeds)}
        for (workload, variant), seeds in groups.items()
    ]
    rows += [
        {
            "workload": missing["workload"],
            "variant": missing["variant"],
            "question": REPEATS,
            "answer": "not run",
            "figure": missing["reason"],
            "evidence": "",
        }
        for missing in not_run
    ]
    return rows + [row for timing in timings for row in _costs(timing)]


def _repeats(seeds: Sequence[Mapping[str, Any]]) -> Row:
    """Sum up the comparisons of one workload and variant over its seeds."""
    refused = [seed for seed in seeds if seed["answer"] == "not comparable"]
    differing = [seed for seed in seeds if seed["answer"] == "differs"]
    scope = f"{plural(seeds[0]['repeats'], 'run')}, {plural(seeds[0]['steps'], 'step')}"
    if len(seeds) > 1:
        scope = f"{plural(len(seeds), 'seed')} of {scope}"
    if differing:
        worst = max(differing, key=lambda seed: seed["relative_l2"])
        part = f" for {len(differing)} of {len(seeds)} seeds" if len(seeds) > 1 else ""
        answer, figure = "differs", f"{_difference(worst)}{part} ({scope})"
    elif refused:
        worst = refused[0]
        answer, figure = "not comparable", refused[0]["reason"]
    else:
        worst = seeds[0]
        elements = count(worst["parameters"]["elements"])
        answer, figure = "equal", f"0 of {elements} parameters differ ({scope})"
    return {"answer": answer, "figure": figure, "evidence": worst["path"]}


def _difference(comparison: Mapping[str, Any]) -> str:
    parameters = comparison["parameters"]
    first = comparison["first_difference"]
    text = (
        f"{count(parameters['elements_differing'])} of {count(parameters['elements'])} parameters "
        f"differ, by up to {measure(comparison['max_abs'])} ({count(comparison['max_ulp'])} ULP)"
    )
    if first is None:
        return f"{text}; only buffers differ" if not parameters["elements_differing"] else text
    of_tensor = f" of {first['tensor']}" if first["tensor"] else ""
    return f"{text}; first at step {count(first['step'])}, {first['quantity']}{of_tensor}"


def _costs(timing: Mapping[str, Any]) -> list[Row]:
    """Say of each variant but the yardstick whether its training step takes longer."""
    rows = [
        {
            "workload": timing["workload"],
            "variant": ratio["variant"],
            "question": COSTS.format(yardstick=timing["yardstick"]),
            "answer": "yes" if ratio["low"] > 1 else "no",
            "figure": time_ratio(ratio),
            "evidence": timing["path"],
        }
        for ratio in timing["ratios"]
        if ratio["phase"] == "train" and ratio["variant"] != timing["yardstick"]
    ]
    return rows + [
        {
            "workload": timing["workload"],
            "variant": skipped["variant"],
            "question": COSTS.format(yardstick=timing["yardstick"]),
            "answer": "not run",
            "figure": skipped["reason"],
            "evidence": timing["path"],
        }
        for skipped in timing["skipped"]
    ]


def time_ratio(ratio: Mapping[str, Any]) -> str:
    """Write a ratio of seconds with its interval and what it means.

    >>> time_ratio({"time_ratio": 1.02, "low": 0.98, "high": 1.07})
    '1.02 times the time a step (95% interval 0.980 to 1.07): no difference measured'
    """
    interval = f"95% interval {measure(ratio['low'])} to {measure(ratio['high'])}"
    text = f"{measure(ratio['time_ratio'])} times the time a step ({interval})"
    return f"{text}: no difference measured" if ratio["low"] <= 1 <= ratio["high"] else text


STUDIES: Mapping[str, Callable[..., list[Row]]] = {"reproducibility": reproducibility}


def _read(path: str, results: Path) -> dict[str, Any]:
    return {**artifacts.read_json(path), "path": Path(path).relative_to(results).as_posix()}
