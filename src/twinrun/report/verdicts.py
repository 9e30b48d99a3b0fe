"""The verdicts as the page's first table, and in one paragraph."""

from collections.abc import Iterable, Mapping
from typing import TypedDict

from twinrun.report.results import Results
from twinrun.report.set_for_runs import SetForRuns, set_for_runs
from twinrun.verdicts.rows import Answer, VerdictRow

MOST_NAMED = 8
# Folders of evidence whose answers compare the runs of the variant that the verdict names.
OF_RUNS = ("comparisons/", "matrix/", "resumes/")
# What the paragraph says of the workloads and variants with each answer about their repeats; the
# last two lines hold of every question.
LEADS: dict[Answer, str] = {
    "differs": "Did not repeat",
    "equal": "Repeated bit for bit",
    "not comparable": "Not comparable",
    "not run": "Not run",
}
# What it says of other questions of the study reproducibility, by key and answer; of the rest it
# repeats the question.
OTHER_LEADS: dict[tuple[str, Answer], str] = {
    ("repeats_logged", "equal"): "Logged values equal:",
    ("repeats_logged", "differs"): "Logged values differ:",
    ("repeats_metrics", "equal"): "Test metrics equal:",
    ("repeats_metrics", "differs"): "Test metrics differ:",
    ("repeats_predictions", "equal"): "Predictions equal:",
    ("repeats_predictions", "differs"): "Predictions differ:",
    ("first_operation", "differs"): "The operation that diverged first was found:",
    ("first_operation", "undecided"): "The operation that diverged first was not found:",
}


class ShownVerdict(VerdictRow):
    """A row of the page's table."""

    is_file: bool
    """Whether the evidence is a file of ours, so that it may be a link."""
    rests_on: SetForRuns | None
    """What was set for the runs behind it, in the first verdict of a comparison; else None."""


class Summary(TypedDict):
    """The first paragraph."""

    number: int
    """How many verdicts there are."""
    sentences: list[tuple[str, str]]
    """What is said, and of which workloads and variants."""


def rows(results: Results) -> dict[str, list[ShownVerdict]]:
    """Return the verdicts by study, with a link where the evidence is a file of ours."""
    compared = [*results.comparisons, *results.contrasts, *results.locations]
    files = {comparison["path"] for comparison in compared}
    files |= {f"timings/{name}.json" for name in results.timings}
    files |= {f"scaling/{name}.json" for name in results.scalings}
    files |= {f"sweeps/{name}.json" for name in results.rankings}
    files |= results.contests.keys() | results.noises.keys()
    files |= {f"matrix/{name}.json" for name in results.matrices}
    files |= {f"resumes/{found['workload']}/{found['variant']}.json" for found in results.resumes}
    said: set[tuple[str, str]] = set()
    # Of a study that broke off before its first verdict too: it says there what is missing.
    studies: dict[str, list[ShownVerdict]] = {
        study: [] for study in results.config["studies"] if results.missing
    }
    for row in results.verdicts:
        subject = row["evidence"], row["variant"]
        shown: ShownVerdict = {
            **row,
            "is_file": row["evidence"] in files,
            # Once for all verdicts that one comparison gives.
            "rests_on": None if subject in said else _rests_on(row, results),
        }
        said |= {subject} if shown["rests_on"] else set()
        studies.setdefault(row["study"], []).append(shown)
    return studies


def _rests_on(row: VerdictRow, results: Results) -> SetForRuns | None:
    """Return what was set for the runs that a verdict compares; a timing makes no runs."""
    if row["key"] == "first_operation" or not row["evidence"].startswith(OF_RUNS):
        return None
    runs = results.runs_of(row["workload"], row["variant"])
    return set_for_runs(runs, is_rehearsed=results.config.get("rehearsal", True))


def summary(verdicts: Iterable[VerdictRow]) -> Summary:
    """Return what the first paragraph says: what repeats, and what repeating costs."""
    rows = list(verdicts)
    repeats: dict[Answer, dict[str, list[str]]] = {}
    others: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        if row["key"] == "worth":  # of changes, not of the variant
            continue
        if row["key"] == "repeats" or row["answer"] in ("not run", "not comparable"):
            variants = repeats.setdefault(row["answer"], {}).setdefault(row["workload"], [])
            variants += [row["variant"]] if row["variant"] not in ["", *variants] else []
        elif row["study"] == "reproducibility":
            variants = others.setdefault(_lead(row), {}).setdefault(row["workload"], [])
            variants += [row["variant"]] if row["variant"] not in ["", *variants] else []
    sentences = [
        (f"{lead}:", _listed(repeats[answer]))
        for answer, lead in LEADS.items()
        if answer in repeats
    ]
    sentences += [(lead, _listed(names)) for lead, names in others.items()]
    return {"number": len(rows), "sentences": sentences}


def _lead(row: VerdictRow) -> str:
    asked = f"{row['question']} {row['answer'].capitalize()}:"
    return OTHER_LEADS.get((row["key"], row["answer"]), asked)


def _listed(variants_of: Mapping[str, list[str]]) -> str:
    """Name workloads with their variants, the first of them."""
    named = [
        f"{workload} ({', '.join(variants)})" if variants else workload
        for workload, variants in variants_of.items()
    ]
    more = len(named) - MOST_NAMED
    return "; ".join(named[:MOST_NAMED]) + (f"; and {more} more" if more > 0 else "")
