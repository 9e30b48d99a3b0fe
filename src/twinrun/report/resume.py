"""The section of the study resume: what a training loses that is stopped and resumed."""

from twinrun.comparison.study_records import ResumeTable, StoppedRun
from twinrun.config.resume_variants import RESUMES, STOPS
from twinrun.report.results import Results


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
        "variants": [_variant(found) for found in results.resumes if found["workload"] == workload],
    }


def _variant(found: ResumeTable) -> dict[str, object]:
    """Return a row for each kind of stop, with what resuming from each checkpoint type led to."""
    rows: dict[str, dict[str, StoppedRun]] = {}
    for stop in found["stops"]:
        rows.setdefault(stop["stop"], {})[stop["resume"]] = stop
    stops = [{"where": STOPS[stop], "by": by} for stop, by in rows.items()]
    return {"name": found["variant"], "steps": found["steps"], "stops": stops}
