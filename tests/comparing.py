"""Comparing runs in a test, and reading what was written."""

from twinrun import artifacts
from twinrun.comparison.compare import compare
from twinrun.comparison.pair_records import read_comparisons


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
