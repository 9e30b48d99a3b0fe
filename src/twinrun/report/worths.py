"""What differences are worth, where the study `noise` has measured it."""

from collections import Counter
from collections.abc import Iterator

from twinrun.comparison.noise_records import NoiseRun, NoiseTable
from twinrun.config.noise_runs import OF_VARIANTS
from twinrun.config.resume_variants import RESUMES
from twinrun.formatting import count
from twinrun.luck.scale import scale_of
from twinrun.luck.worth import Worth, weigh
from twinrun.report.results import Results
from twinrun.verdicts.resume import KEYS
from twinrun.verdicts.rows import VerdictRow

SAID: tuple[Worth, ...] = (
    "no more than rounding",
    "no more than another seed",
    "more than another seed",
)
CHECKPOINTS = {KEYS[name]: words for name, words in RESUMES.items()}


def worths(
    results: Results, workload: str, baseline: str, study: str = "matrix"
) -> dict[str, Worth]:
    """Return by the label of a change what it is worth; of those alone that have an answer."""
    table = results.noises.get(f"noise/{workload}/{baseline}.json")
    if table is None or table["reason"] is not None:
        return {}
    changes = [run for run in table["runs"] if (run["kind"], run["study"]) == ("change", study)]
    weighed = _weighed(table, changes)
    return {label: answer for label, answer in weighed.items() if answer in SAID}


def contrasts(results: Results, study: str, workload: str) -> list[dict[str, object]]:
    """Return how each variant of a study differs from its baseline, with what that is worth.

    On the scale is the difference of one seed.
    """
    found = []
    for contrast in results.contrasts_of(study, workload):
        baseline = contrast["against"] or ""
        table = results.noises.get(f"noise/{workload}/{baseline}.json")
        is_on_scale = table is not None and table["seed"] == contrast["seed"]
        worth = worths(results, workload, baseline, study) if is_on_scale else {}
        found.append({**contrast, "worth": worth.get(contrast["variant"])})
    return found


def worth_of(row: VerdictRow, results: Results) -> str | None:
    """Say what the differences behind a verdict are worth; None where no scale has them.

    On a scale are those of one seed, and the verdict may be of several, and show the worst.
    """
    if (row["key"], row["answer"]) != ("withstands_changes", "no") and row["answer"] != "differs":
        return None
    weighed = [
        (answer, table["seed"])
        for table in results.noises.values()
        if table["workload"] == row["workload"] and table["reason"] is None
        for answer in _weighed(table, list(_behind(row, table))).values()
        if answer in (*SAID, "undecided")
    ]
    found = Counter(answer for answer, _ in weighed)
    if not found:
        return None
    is_of_several = len(results.config.get(row["study"], {}).get("seeds", ())) > 1
    of = f" (of seed {weighed[0][1]} alone)" if is_of_several else ""
    if len(weighed) == 1:
        return f"{next(iter(found))}{of}"
    return ", ".join(f"{count(number)} {answer}" for answer, number in found.most_common()) + of


def _behind(row: VerdictRow, table: NoiseTable) -> Iterator[NoiseRun]:
    """Yield the runs of a scale whose difference from the reference a verdict speaks of."""
    of_baseline = row["variant"] == table["variant"]
    for run in table["runs"]:
        if row["key"] == "repeats":
            is_behind = run["kind"] == "repeat" and of_baseline
        elif run["kind"] != "change" or run["study"] != row["study"]:
            is_behind = False
        elif row["key"] == "withstands_changes":
            is_behind = of_baseline
        elif row["key"] in CHECKPOINTS:
            is_behind = of_baseline and run["label"].endswith(CHECKPOINTS[row["key"]])
        else:
            is_behind = (
                row["key"] == "same_parameters"
                and row["study"] in OF_VARIANTS
                and run["label"] == row["variant"]
            )
        if is_behind:
            yield run


def _weighed(table: NoiseTable, runs: list[NoiseRun]) -> dict[str, Worth]:
    scale = scale_of(table)
    return {run["label"]: weigh(scale, run).answer for run in runs}
