"""The verdicts as the page's first table, and in one paragraph."""

from collections.abc import Iterable
from typing import TypedDict

from twinrun.report.results import Results
from twinrun.verdicts.rows import Answer, VerdictRow

MOST_NAMED = 8
# What the paragraph says of the workloads and variants with each answer about their repeats; the
# last two lines hold of every question.
LEADS: dict[Answer, str] = {
    "differs": "Did not repeat",
    "equal": "Repeated bit for bit",
    "not comparable": "Not comparable",
    "not run": "Not run",
}
# What it says of the other questions of the study reproducibility where their words would not do.
FIRST_OPERATION_LEADS: dict[Answer, str] = {
    "differs": "The operation that diverged first was found:",
    "undecided": "The operation that diverged first was not found:",
}


class ShownVerdict(VerdictRow):
    """A row of the page's table."""

    is_file: bool
    """Whether the evidence is a file of ours, so that it may be a link."""


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
    files |= {f"matrix/{name}.json" for name in results.matrices}
    files |= {f"resumes/{found['workload']}/{found['variant']}.json" for found in results.resumes}
    # Of a study that broke off before its first verdict too: it says there what is missing.
    studies: dict[str, list[ShownVerdict]] = {
        study: [] for study in results.config["studies"] if results.missing
    }
    for row in results.verdicts:
        studies.setdefault(row["study"], []).append({**row, "is_file": row["evidence"] in files})
    return studies


def summary(verdicts: Iterable[VerdictRow]) -> Summary:
    """Return what the first paragraph says: what repeats, and what repeating costs."""
    rows = list(verdicts)
    repeats: dict[Answer, dict[str, list[str]]] = {}
    others: dict[str, list[str]] = {}
    for row in rows:
        if row["key"] == "repeats" or row["answer"] in ("not run", "not comparable"):
            variants = repeats.setdefault(row["answer"], {}).setdefault(row["workload"], [])
            variants += [row["variant"]] if row["variant"] not in ["", *variants] else []
        elif row["study"] == "reproducibility":
            name = _name(row["workload"], [row["variant"]] if row["variant"] else [])
            others.setdefault(_lead(row), []).append(name)
    sentences = [
        (f"{lead}:", _listed(_name(*item) for item in repeats[answer].items()))
        for answer, lead in LEADS.items()
        if answer in repeats
    ]
    sentences += [(lead, _listed(names)) for lead, names in others.items()]
    return {"number": len(rows), "sentences": sentences}


def _lead(row: VerdictRow) -> str:
    if row["key"] == "first_operation":
        return FIRST_OPERATION_LEADS[row["answer"]]
    return f"{row['question']} {row['answer'].capitalize()}:"


def _name(workload: str, variants: list[str]) -> str:
    return f"{workload} ({', '.join(variants)})" if variants else workload


def _listed(names: Iterable[str]) -> str:
    named = list(names)
    more = len(named) - MOST_NAMED
    return "; ".join(named[:MOST_NAMED]) + (f"; and {more} more" if more > 0 else "")
