"""What a variant gains: a step, what its first call costs, and the whole training as it ran."""

from twinrun.formatting import count
from twinrun.report.results import ReportedRun, Results
from twinrun.timing.break_even import BreakEven, break_even, ends
from twinrun.timing.summary import TimingSummary
from twinrun.timing.trained import Trained
from twinrun.timing.whole_trainings import is_whole, whole_trainings


def gains(
    results: Results,
    study: str,
    workload: str,
    timing: TimingSummary | None,
    trained: Trained | None = None,
) -> list[dict[str, object]]:
    """Return a row for each variant of a study that trained the workload to its end.

    Args:
        results: all that the page is made of.
        study: its name.
        workload: its name.
        timing: of the steps, at one size; None where steps were timed at several, or not at all.
        trained: what whole trainings of the workload show.
    """
    groups: dict[str, list[ReportedRun]] = {}
    for run in results.runs_of_study(study, workload):
        if is_whole(run):
            groups.setdefault(run["variant"], []).append(run)
    answers = {
        row["variant"]: row["answer"]
        for row in results.verdicts
        if (row["study"], row["workload"], row["key"]) == (study, workload, "whole_speed")
    }
    rows: list[dict[str, object]] = []
    for variant, runs in groups.items():
        whole = whole_trainings(variant, runs, leaves_out_tracing=False)
        waited = [seconds for seconds in whole.waited if seconds is not None]
        rows.append(
            {
                "variant": variant,
                "whole": whole,
                "runs": len(runs),
                "waited": max(waited, default=None),
                "answer": answers.get(variant),
                **_of_steps(timing, variant, trained),
            }
        )
    return rows


def pays(found: BreakEven | None) -> str | None:
    """Say from which step on a variant pays, in a cell of a table; by the interval of a step.

    >>> of = dict(is_of_run=False, step=0.03, once=26.7, is_unsure=False, has=3120, bare="faster")
    >>> [
    ...     pays(BreakEven(saved=saved, effect=effect, **of))
    ...     for saved, effect in (
    ...         (0.011, "faster"), (-1.0, "slower"), (0.01, "no difference measured")
    ...     )
    ... ]
    ['2,500', 'never', 'unsure']
    """
    if found is None:
        return None
    if found.is_free and not found.in_trainer:
        return "at once" if found.pays_in_training else None
    if found.is_undecided:
        return "unsure"
    if found.never_pays:
        return "never"
    return "unsure" if found.is_unsure else " to ".join(map(count, ends([found])))


def _of_steps(
    timing: TimingSummary | None, variant: str, trained: Trained | None
) -> dict[str, object]:
    """Return the ratio of a variant's step and what its first call costs."""
    if timing is None:
        return {"ratio": None, "first_call": None, "pays": None, "has": None}
    found = break_even(timing, variant, None, trained) if variant != timing["baseline"] else None
    ratios = [r for r in timing["ratios"] if (r["variant"], r["phase"]) == (variant, "train")]
    first = [
        median["seconds_per_step"]
        for median in timing["medians"]
        if (median["variant"], median["phase"]) == (variant, "first_call")
    ]
    return {
        "ratio": ratios[0] if ratios else None,
        "first_call": first[0] if first else None,
        "pays": pays(found),
        "has": None if found is None else found.length,
    }
