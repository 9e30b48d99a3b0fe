"""The verdicts as the page's first table, and in one paragraph."""

from typing import Any

from twinrun.report.results import Results
from twinrun.verdicts.equality import REPEATS, REPEATS_ENTIRELY

MOST_NAMED = 8
# What is said in the paragraph of the verdicts with each answer.
LEADS = {
    "differs": "Did not repeat",
    "equal": "Repeated bit for bit",
    "not comparable": "Not comparable",
    "not run": "Not run",
}


def rows(results: Results) -> dict[str, list[dict[str, Any]]]:
    """Give the rows of verdicts.csv by study, with a link where the evidence is a file of ours."""
    compared = [*results.comparisons, *results.contrasts, *results.locations]
    files = {comparison["path"] for comparison in compared}
    files |= {f"timings/{name}.json" for name in results.timings}
    files |= {f"scaling/{name}.json" for name in results.scalings}
    files |= {f"sweeps/{name}.json" for name in results.rankings}
    files |= {f"matrix/{name}.json" for name in results.matrices}
    files |= {f"resumes/{found['workload']}/{found['variant']}.json" for found in results.resumes}
    studies: dict[str, list[dict[str, Any]]] = {}
    for row in results.verdicts:
        studies.setdefault(row["study"], []).append({**row, "is_file": row["evidence"] in files})
    return studies


def summary(results: Results) -> dict[str, Any]:
    """Give what the first paragraph says: what repeats, and what that costs; the rest is below."""
    groups: dict[str, dict[str, list[str]]] = {}
    others: dict[tuple[str, str], list[str]] = {}
    for row in results.verdicts:
        is_named = row["question"] in (REPEATS, REPEATS_ENTIRELY) or row["answer"].startswith(
            "not "
        )
        if is_named:
            variants = groups.setdefault(row["answer"], {}).setdefault(row["workload"], [])
            variants += [row["variant"]] if row["variant"] not in ["", *variants] else []
        elif row["study"] == "reproducibility":
            name = _name(row["workload"], [row["variant"]] if row["variant"] else [])
            others.setdefault((row["question"], row["answer"]), []).append(name)
    return {
        "number": len(results.verdicts),
        "groups": [
            (lead, _listed([_name(*item) for item in groups[answer].items()]))
            for answer, lead in LEADS.items()
            if answer in groups
        ],
        "others": [(*key, _listed(names)) for key, names in others.items()],
    }


def _name(workload: str, variants: list[str]) -> str:
    return f"{workload} ({', '.join(variants)})" if variants else workload


def _listed(names: list[str]) -> str:
    more = len(names) - MOST_NAMED
    return "; ".join(names[:MOST_NAMED]) + (f"; and {more} more" if more > 0 else "")
