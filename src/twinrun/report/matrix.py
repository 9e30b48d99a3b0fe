"""The section of the study matrix: what each change of the baseline does."""

from twinrun.comparison.rounding import CONFIDENCE
from twinrun.report.results import Results


def section(results: Results) -> dict[str, object]:
    """Return what the section's template needs."""
    study = results.config["matrix"]
    return {
        "confidence": CONFIDENCE,
        "other_seed": study["other_seed"],
        "workloads": [_workload(results, name) for name in study["workloads"]],
    }


def _workload(results: Results, workload: str) -> dict[str, object]:
    settings = results.config["workloads"][workload]
    return {
        "name": workload,
        "module": settings["module"],
        "length": results.length_of(workload),
        "figure": results.figures.get(f"matrix/{workload}/cells"),
        # Nothing of a workflow that broke off before it: the page says why.
        **results.matrices.get(workload, {}),
    }
