"""The section of the study sweep: which hyperparameters do best?"""

from twinrun.luck.standing import standing
from twinrun.report.results import Results
from twinrun.verdicts.rows import VerdictRow
from twinrun.verdicts.sweep import metric_in


def section(results: Results) -> dict[str, object]:
    """Return what the section's template needs."""
    study = results.config["sweep"]
    return {
        "metric": study["metric"],
        "best": study["best"],
        "is_measured_in_test": any(r["measured_in"] == "test" for r in results.rankings.values()),
        "variants": study["variants"],
        "workloads": [_workload(results, name) for name in study["workloads"]],
    }


def _is_best_of(row: VerdictRow, workload: str) -> bool:
    return (row["study"], row["key"], row["workload"]) == ("sweep", "best", workload)


def _workload(results: Results, workload: str) -> dict[str, object]:
    study, settings = results.config["sweep"], results.config["workloads"][workload]
    ranking = results.rankings.get(workload)
    trials = ranking["trials"] if ranking else []
    found = standing(ranking) if ranking else None
    row = next((row for row in results.verdicts if _is_best_of(row, workload)), None)
    return {
        "name": workload,
        "module": settings["module"],
        "length": results.length_of(workload, epochs=study["epochs"]),
        "absent": results.absent("sweep"),
        "figure": results.figures.get(f"sweep/{workload}/trials"),
        "trials": trials,
        "names": list(dict.fromkeys(name for trial in trials for name in trial["metrics"])),
        "finished": ranking["finished"] if ranking else 0,
        "standing": found,
        "metric_in": metric_in(ranking) if ranking else None,
        "answer": row["answer"] if row else None,
        "ground": row["measured"] if row else None,
    }
