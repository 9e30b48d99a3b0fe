"""The section of the study matrix: what each change of the baseline does."""

from twinrun.comparison.rounding import CONFIDENCE
from twinrun.report.advice_causes import of_cell
from twinrun.report.results import Results
from twinrun.report.worths import worths


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
    # Nothing of a workflow that broke off before it: the page says why.
    matrix = results.matrices.get(workload)
    worth = worths(results, workload, matrix["baseline"]) if matrix else {}
    cells = [
        {**cell, "look_at": of_cell(cell), "worth": worth.get(cell["label"])}
        for cell in (matrix["cells"] if matrix else [])
    ]
    return {
        "name": workload,
        "module": settings["module"],
        "length": results.length_of(workload),
        "figure": results.figures.get(f"matrix/{workload}/cells"),
        **({**matrix, "cells": cells} if matrix else {}),
    }
