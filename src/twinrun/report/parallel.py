"""The section of the study parallel: what do several workers buy, and what do they change?"""

from typing import Any

from twinrun.report.results import Material
from twinrun.report.runs import metrics


def section(material: Material) -> dict[str, Any]:
    """Give what the section's template needs."""
    study = material.config["parallel"]
    return {
        "title": "What do several workers buy?",
        "seeds": study["seeds"],
        "repeats": study["repeats"],
        "workloads": [_workload(material, name) for name in study["workloads"]],
    }


def _workload(material: Material, workload: str) -> dict[str, Any]:
    study, settings = material.config["parallel"], material.config["workloads"][workload]
    names = [name for name in study["variants"] if name in material.not_run]

    def of_study(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [c for c in found if (c["study"], c["workload"]) == ("parallel", workload)]

    return {
        "name": workload,
        "module": settings["module"],
        "epochs": settings["epochs"],
        "absent": [{"name": name, "reason": material.not_run[name]} for name in names],
        "figure": material.figures.get(f"parallel/{workload}/speedup"),
        "scaling": _scaling(material, workload),
        "repeats": of_study(material.comparisons),
        "contrasts": of_study(material.contrasts),
        "metrics": metrics(material, workload, study["variants"]),
    }


def _scaling(material: Material, workload: str) -> dict[str, Any] | None:
    """Give a row for each variant: how it trained, what its epochs took, the ratio if any."""
    found = material.scalings.get(workload)
    if found is None:
        return None
    ratios = {ratio["variant"]: ratio for ratio in found["ratios"]}
    rows = [
        {
            **median,
            "settings": material.config["variants"][median["variant"]],
            "ratio": ratios.get(median["variant"]),
        }
        for median in found["medians"]
    ]
    return {
        "baseline": found["baseline"],
        "rows": rows,
        "unstable": [row["variant"] for row in rows if row["unstable"]],
    }
