"""The section of the study resume: what a training loses that is stopped and resumed."""

from collections.abc import Mapping

from twinrun.comparison.study_records import ResumeTable
from twinrun.config.resume_variants import RESUMES, STOPS, of_stop
from twinrun.luck.worth import Worth
from twinrun.report.results import Results
from twinrun.report.worths import worths


def section(results: Results) -> dict[str, object]:
    """Return what the section's template needs."""
    study = results.config["resume"]
    return {
        "resumes": RESUMES,
        "workloads": [_workload(results, name) for name in study["workloads"]],
    }


def _workload(results: Results, workload: str) -> dict[str, object]:
    return {
        "name": workload,
        "length": results.length_of(workload),
        "absent": results.absent("resume"),
        "variants": [
            _variant(found, worths(results, workload, found["variant"], "resume"))
            for found in results.resumes
            if found["workload"] == workload
        ],
    }


def _variant(found: ResumeTable, worth: Mapping[str, Worth]) -> dict[str, object]:
    """Return a row for each kind of stop, with what resuming from each checkpoint type led to.

    And with what that is worth, by the label that it has on the scale of the study noise.
    """
    rows: dict[str, dict[str, dict[str, object]]] = {}
    for stop in found["stops"]:
        label = of_stop(stop["stop"], stop["resume"])
        rows.setdefault(stop["stop"], {})[stop["resume"]] = {**stop, "worth": worth.get(label)}
    stops = [{"where": STOPS[stop], "by": by} for stop, by in rows.items()]
    return {"name": found["variant"], "steps": found["steps"], "stops": stops}
