"""The section of the study resume: what a training loses that is stopped and resumed."""

from typing import Any

from twinrun.config.resume_variants import RESUMES, STOPS
from twinrun.report.results import Material


def section(material: Material) -> dict[str, Any]:
    """Give what the section's template needs."""
    study = material.config["resume"]
    return {
        "title": "Does a resumed training end in the same bits?",
        "resumes": RESUMES,
        "workloads": [_workload(material, name) for name in study["workloads"]],
    }


def _workload(material: Material, workload: str) -> dict[str, Any]:
    variants = material.config["resume"]["variants"]
    absent = [name for name in variants if name in material.not_run]
    return {
        "name": workload,
        "epochs": material.config["workloads"][workload]["epochs"],
        "absent": [{"name": name, "reason": material.not_run[name]} for name in absent],
        "variants": [
            _variant(found) for found in material.resumes if found["workload"] == workload
        ],
    }


def _variant(found: dict[str, Any]) -> dict[str, Any]:
    """Give a row for each kind of stop, with what each way to resume led to."""
    rows: dict[str, dict[str, Any]] = {}
    for stop in found["stops"]:
        rows.setdefault(stop["stop"], {})[stop["resume"]] = stop
    stops = [{"place": STOPS[stop], "by": by} for stop, by in rows.items()]
    return {"name": found["variant"], "steps": found["steps"], "stops": stops}
