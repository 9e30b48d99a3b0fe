"""The section of the study matrix: what each change of the baseline does."""

from typing import Any

from twinrun.comparison.matrix import LOOK_STEPS, ROUNDING_UNITS, SEED_SHARE
from twinrun.report.results import Material


def section(material: Material) -> dict[str, Any]:
    """Give what the section's template needs."""
    study = material.config["matrix"]
    return {
        "title": "What breaks it?",
        "look_steps": LOOK_STEPS,
        "rounding_units": ROUNDING_UNITS,
        "seed_share": SEED_SHARE,
        "other_seed": study["other_seed"],
        "workloads": [_workload(material, name) for name in study["workloads"]],
    }


def _workload(material: Material, workload: str) -> dict[str, Any]:
    settings = material.config["workloads"][workload]
    return {
        "name": workload,
        "module": settings["module"],
        "epochs": settings["epochs"],
        "figure": material.figures.get(f"matrix/{workload}/cells"),
        **material.matrices[workload],
    }
