"""The section of the study noise: how much is luck?"""

from collections.abc import Sequence

from twinrun.comparison.noise_records import Measure, NoiseRun, NoiseTable
from twinrun.formatting import measure, p_value
from twinrun.luck.floor import SEEDS, Floor, floors
from twinrun.luck.scale import Scale, scale_of
from twinrun.luck.worth import weigh
from twinrun.report.results import Results
from twinrun.verdicts.noise import distance, ground, needed, outliers_of, what


def section(results: Results) -> dict[str, object]:
    """Return what the section's template needs."""
    study = results.config["noise"]
    return {
        "seeds": study["seeds"],
        "perturbations": study["perturbations"],
        "sides": SEEDS,
        "absent": results.absent("noise"),
        "workloads": [
            {
                "name": name,
                "scales": [
                    _scale(results, path, table)
                    for path, table in results.noises.items()
                    if table["workload"] == name
                ],
            }
            for name in study["workloads"]
        ],
    }


def _scale(results: Results, path: str, table: NoiseTable) -> dict[str, object]:
    scale = scale_of(table)
    figures = path.removesuffix(".json")
    return {
        "path": path,
        "variant": table["variant"],
        "seed": table["seed"],
        "reason": table["reason"],
        "ground": None if table["reason"] else ground(table, scale),
        "ladder": results.figures.get(f"{figures}/ladder"),
        "divergence": results.figures.get(f"{figures}/divergence"),
        "measures": [what(m) for m in table["measures"] if m["kind"] != "metric"],
        "judged_by": [m["name"] for m in scale.measures],
        "rungs": _rungs(table, scale),
        "equal": [r["label"] for r in _changes(table) if r["answer"] == "equal"],
        "left_out": table["left_out"],
        "floors": [_floor(found) for found in floors(table)],
        "outliers": [of for found in floors(table) for of in outliers_of(found)],
    }


def _changes(table: NoiseTable) -> list[NoiseRun]:
    return [run for run in table["runs"] if run["kind"] == "change"]


def _rungs(table: NoiseTable, scale: Scale) -> list[dict[str, object]]:
    """Return the rows of the table: repeat, rounding, each change that is not equal, seeds."""
    measures = [m for m in table["measures"] if m["kind"] != "metric"]
    rows = [_group(table, "repeat", "repeat", measures)]
    rows.append(_group(table, "perturbation", "one unit in the last place", measures))
    for run in _changes(table):
        if run["answer"] == "equal":
            continue
        weighed = weigh(scale, run)
        tested = [
            (name, of) for name, of in (("rounding", weighed.rounding), ("seed", weighed.seeds))
        ]
        rows.append(
            {
                "label": run["label"],
                "study": run["study"],
                "answer": weighed.answer,
                "values": [_written(m, [run]) for m in measures],
                "ps": ["–" if of is None else p_value(of.p).removeprefix("= ") for _, of in tested],
                "says": weighed.reason
                or (needed(weighed) if weighed.answer == "undecided" else None),
            }
        )
    rows.append(_group(table, "seed", "another seed", measures))
    return [row for row in rows if row is not None]


def _group(
    table: NoiseTable, kind: str, label: str, measures: Sequence[Measure]
) -> dict[str, object] | None:
    runs = [run for run in table["runs"] if run["kind"] == kind]
    if not runs:
        return None
    failed = [run for run in runs if run["answer"] not in ("equal", "differs")]
    is_equal = all(run["answer"] == "equal" for run in runs)
    return {
        "label": label if len(runs) == 1 else f"{label} ({len(runs)} runs)",
        "study": "noise",
        "answer": "equal" if is_equal else None,
        "values": [_written(m, runs) for m in measures],
        "ps": ["–", "–"],
        "says": "; ".join(f"{run['label']}: {run['reason']}" for run in failed) or None,
    }


def _written(of: Measure, runs: Sequence[NoiseRun]) -> str:
    """Write the distance of a run, or the range of those of several."""
    values = [run["values"][of["name"]] for run in runs if of["name"] in run["values"]]
    broken = [run for run in runs if of["name"] in run["not_finite"]]
    if not values:
        return "no number" if broken else "–"
    ends = list(dict.fromkeys(distance(of, value) for value in (min(values), max(values))))
    return " to ".join(ends)


def _floor(found: Floor) -> dict[str, object]:
    deviations = [found.seeds, *([found.rounding] if found.rounding else [])]
    return {
        "metric": found.metric,
        "mean": measure(found.mean, 4),
        "deviations": [
            f"{measure(of.value, 2)}"
            + (
                f" ({measure(of.interval[0], 2)} to {measure(of.interval[1], 2)})"
                if of.interval
                else ""
            )
            for of in deviations
        ]
        + ["–"] * (2 - len(deviations)),
        "binomial": None if found.binomial is None else measure(found.binomial, 2),
        "samples": found.samples,
        # That none of a few seeds moves it is no measurement of 0.
        "luck": measure(found.luck, 2) if found.luck else "–",
        "detectable": [measure(found.detectable[side], 2) for side in SEEDS],
    }
