"""Comparing runs in a test, and reading what was written."""

from example_runs import write_run

from twinrun import artifacts
from twinrun.comparison.compare import compare, compare_seeds
from twinrun.comparison.pair_records import read_comparisons
from twinrun.verdicts.equality import repeats, same_parameters
from twinrun.verdicts.evidence import Evidence


def compared(folder, *runs, across=False):
    """Compare runs; return the summary, the table of tensors and the table of steps."""
    files = {
        "summary": folder / "seed1.json",
        "tensors": folder / "seed1.tensors.csv",
        "steps": folder / "seed1.steps.csv",
    }
    compare(runs, **files, across=across)
    (summary,) = read_comparisons(files["summary"])
    return summary, artifacts.read_csv(files["tensors"]), artifacts.read_csv(files["steps"])


def verdicts(folder, *runs, across=False):
    """Return the verdicts on some runs, by key."""
    files = {key: folder / key for key in ("summary", "tensors", "steps")}
    compare_seeds(runs, **files, across=across)
    compared = [Evidence(path="x", found=found) for found in read_comparisons(files["summary"])]
    rows = same_parameters(compared) if across else repeats(compared)
    return {row["key"]: row for row in rows}


def pair(folder, second=None, **options):
    """Write two runs, the second one as it says, else like the first."""
    return [write_run(folder, 1, **options), write_run(folder, 2, **(second or options))]
