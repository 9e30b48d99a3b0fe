"""The section of the study acceleration: what is gained, and what it changes."""

from twinrun.report.gains import gains
from twinrun.report.results import Results
from twinrun.report.runs import metrics
from twinrun.report.worths import contrasts
from twinrun.timing.steadiness import medians_behind
from twinrun.timing.summary import TimingSummary
from twinrun.timing.trained import Trained, trained_of
from twinrun.timing.training_length import length_of_training
from twinrun.verdicts.speed import medians_of_overhead, unsteadiness


def section(results: Results) -> dict[str, object]:
    """Return what the section's template needs."""
    study = results.config["acceleration"]
    return {
        "seeds": study["seeds"],
        "workloads": [_workload(results, name) for name in study["workloads"]],
    }


def _workload(results: Results, workload: str) -> dict[str, object]:
    settings = results.config["workloads"][workload]
    timing = results.timings.get(f"acceleration_{workload}")
    trained = trained_of(results.runs_of_study("acceleration", workload)).get(workload)
    return {
        "name": workload,
        "module": settings["module"],
        "length": results.length_of(workload),
        "absent": results.absent("acceleration"),
        "untimed": results.untimed("acceleration", workload),
        "figure": results.figures.get(f"acceleration/{workload}/speeds"),
        "timing": _timing(timing, trained),
        "metrics": metrics(results, "acceleration", workload),
        "gains": gains(results, "acceleration", workload, timing, trained),
        "failed": results.unfinished("acceleration", workload),
        "contrasts": contrasts(results, "acceleration", workload),
    }


def _timing(timing: TimingSummary | None, trained: Trained | None) -> dict[str, object] | None:
    """Return a timing with what follows from it; None where nothing was timed."""
    if timing is None:
        return None
    loops = {
        over["variant"]: {
            **over,
            "doubt": unsteadiness(over, medians_of_overhead(timing, over)),
        }
        for over in timing["trainer"]
    }
    compilation = [
        {**row, "reused": (row["calls"] - row["compilations"]) / row["calls"]}
        for row in timing["compilation"]
        # A variant that was left out was never called.
        if row["calls"]
    ]
    return {
        **timing,
        "compilation": compilation,
        "ratios": [
            {
                **ratio,
                "doubt": unsteadiness(ratio, medians_behind(timing, ratio)),
            }
            for ratio in timing["ratios"]
        ],
        "unstable": any(median["unstable"] for median in timing["medians"]),
        "loops": loops,
        "wholes": _wholes(timing, trained),
    }


def _wholes(timing: TimingSummary, trained: Trained | None) -> list[dict[str, object]]:
    """Derive the seconds of a whole training and prediction: batches times the median."""
    seconds = {(m["variant"], m["phase"]): m["seconds_per_step"] for m in timing["medians"]}
    steps: dict[str, int] = {}
    for extent in timing["extents"]:
        taken, is_at_most = length_of_training(timing, extent["size"], trained)
        steps["train"] = 0 if is_at_most else taken or 0
        steps["predict"] = extent["predict"] or 0
    return [
        {"variant": variant, "phase": phase, "steps": steps[phase], "seconds": value * steps[phase]}
        for (variant, phase), value in seconds.items()
        if steps.get(phase)
    ]
