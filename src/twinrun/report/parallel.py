"""The section of the study parallel: what do several workers buy, and what do they change?"""

from twinrun.report.results import Results
from twinrun.report.runs import metrics
from twinrun.report.worths import contrasts
from twinrun.timing.epoch_times import EpochRatio, Scaling
from twinrun.verdicts.speed import instability, per_unit


def section(results: Results) -> dict[str, object]:
    """Return what the section's template needs."""
    study = results.config["parallel"]
    return {
        "seeds": study["seeds"],
        "repeats": study["repeats"],
        "at_once": study["at_once"],
        "workloads": [_workload(results, name) for name in study["workloads"]],
    }


def _workload(results: Results, workload: str) -> dict[str, object]:
    settings = results.config["workloads"][workload]
    return {
        "name": workload,
        "module": settings["module"],
        "length": results.length_of(workload),
        "absent": results.absent("parallel"),
        "figure": results.figures.get(f"parallel/{workload}/speedup"),
        "scaling": _scaling(results, workload),
        "failed": results.unfinished("parallel", workload),
        "repeats": results.repeats_of("parallel", workload),
        "contrasts": contrasts(results, "parallel", workload),
        "metrics": metrics(results, "parallel", workload),
    }


def _scaling(results: Results, workload: str) -> dict[str, object] | None:
    """Return a row for each variant: how it trained, what its epochs took, the ratio if any."""
    found = results.scalings.get(workload)
    if found is None:
        return None
    ratios = {ratio["variant"]: ratio for ratio in found["ratios"]}
    rows = [
        {
            **median,
            "settings": results.config["variants"][median["variant"]],
            "ratio": _with_doubt(ratios.get(median["variant"]), found),
        }
        for median in found["medians"]
    ]
    return {
        "baseline": found["baseline"],
        "rows": rows,
        "unstable": [row["variant"] for row in rows if row["unstable"]],
        "skipped": found["skipped"],
    }


def _with_doubt(ratio: EpochRatio | None, found: Scaling) -> dict[str, object] | None:
    """Return a ratio, which of its epochs are unstable and whether they are of other lengths."""
    if ratio is None:
        return None
    medians = {median["variant"]: median for median in found["medians"]}
    behind = [medians[ratio["variant"]], medians[found["baseline"]]]
    doubt = instability(ratio, behind, noun="epochs") + per_unit(ratio, *behind)
    return {**ratio, "doubt": doubt}
