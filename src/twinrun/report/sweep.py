"""The section of the study sweep: which hyperparameters do best?"""

from typing import Any

from twinrun.report.results import Material


def section(material: Material) -> dict[str, Any]:
    """Give what the section's template needs."""
    study = material.config["sweep"]
    return {
        "title": "Which hyperparameters do best?",
        "metric": study["metric"],
        "best": study["best"],
        "variants": study["variants"],
        "workloads": [_workload(material, name) for name in study["workloads"]],
    }


def _workload(material: Material, workload: str) -> dict[str, Any]:
    study, settings = material.config["sweep"], material.config["workloads"][workload]
    names = [name for name in study["variants"] if name in material.not_run]
    ranking = material.rankings.get(workload)
    trials = ranking["trials"] if ranking else []
    return {
        "name": workload,
        "module": settings["module"],
        "epochs": study["epochs"] or settings["epochs"],
        "absent": [{"name": name, "reason": material.not_run[name]} for name in names],
        "figure": material.figures.get(f"sweep/{workload}/trials"),
        "trials": trials,
        "names": list(dict.fromkeys(name for trial in trials for name in trial["metrics"])),
        "finished": ranking["finished"] if ranking else 0,
    }
