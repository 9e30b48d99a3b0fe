"""The verdicts as the page's tables, one for each study."""

from collections import Counter
from collections.abc import Iterable

from twinrun.formatting import count
from twinrun.report.measured_sizes import one_row_of_sizes
from twinrun.report.results import Results
from twinrun.report.sentence import row_id
from twinrun.report.set_for_runs import SetForRuns, set_for_runs
from twinrun.report.worths import worth_of
from twinrun.verdicts.rows import VerdictRow

# Folders of evidence whose answers compare the runs of the variant that the verdict names.
OF_RUNS = ("comparisons/", "matrix/", "resumes/")


class ShownVerdict(VerdictRow):
    """A row of the page's table."""

    is_file: bool
    """Whether the evidence is a file of ours, so that it may be a link."""
    id: str | None
    """By which the advice names it; None for a further row of the same question."""
    rests_on: SetForRuns | None
    """What was set for the runs behind it, in the first verdict of a comparison; else None."""
    worth: str | None
    """What the differences are worth, where the study `noise` has them on its scale."""


def rows(results: Results) -> dict[str, list[ShownVerdict]]:
    """Return the verdicts by study, with a link where the evidence is a file of ours.

    What a timing says at several sizes alike is one row; its section has them all.
    """
    compared = [*results.comparisons, *results.contrasts, *results.locations]
    files = {comparison["path"] for comparison in compared}
    files |= {f"timings/{name}.json" for name in results.timings}
    files |= {f"scaling/{name}.json" for name in results.scalings}
    files |= {f"sweeps/{name}.json" for name in results.rankings}
    files |= results.contests.keys() | results.noises.keys()
    files |= {f"matrix/{name}.json" for name in results.matrices}
    files |= {f"resumes/{found['workload']}/{found['variant']}.json" for found in results.resumes}
    said: set[tuple[str, str]] = set()
    ids: set[str] = set()
    # Of a study that broke off before its first verdict too: it says there what is missing.
    studies: dict[str, list[ShownVerdict]] = {
        study: [] for study in results.config["studies"] if results.missing
    }
    for row in one_row_of_sizes(results.verdicts, results):
        subject = row["evidence"], row["variant"]
        shown: ShownVerdict = {
            **row,
            "is_file": row["evidence"] in files,
            "id": None if row_id(row) in ids else row_id(row),
            # Once for all verdicts that one comparison gives.
            "rests_on": None if subject in said else _rests_on(row, results),
            "worth": worth_of(row, results),
        }
        said |= {subject} if shown["rests_on"] else set()
        ids.add(row_id(row))
        studies.setdefault(row["study"], []).append(shown)
    return studies


def _rests_on(row: VerdictRow, results: Results) -> SetForRuns | None:
    """Return what was set for the runs that a verdict compares; a timing makes no runs."""
    if row["key"] == "first_operation" or not row["evidence"].startswith(OF_RUNS):
        return None
    runs = results.runs_of(row["workload"], row["variant"])
    return set_for_runs(runs, is_rehearsed=results.config.get("rehearsal", True))


def answers(verdicts: Iterable[VerdictRow]) -> dict[str, str]:
    """Say of each study how many answers it has, and which."""
    studies: dict[str, Counter[str]] = {}
    for row in verdicts:
        studies.setdefault(row["study"], Counter())[row["answer"]] += 1
    return {
        study: ", ".join(f"{count(number)} {answer}" for answer, number in found.most_common())
        for study, found in studies.items()
    }
