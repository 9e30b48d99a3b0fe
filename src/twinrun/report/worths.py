"""What the changes of a matrix are worth, where the study `noise` has measured it."""

from twinrun.luck.scale import scale_of
from twinrun.luck.worth import Worth, weigh
from twinrun.report.results import Results

SAID: tuple[Worth, ...] = (
    "no more than rounding",
    "no more than another seed",
    "more than another seed",
)


def worths(results: Results, workload: str, baseline: str) -> dict[str, Worth]:
    """Return by the label of a change what it is worth; of those alone that have an answer."""
    table = results.noises.get(f"noise/{workload}/{baseline}.json")
    if table is None or table["reason"] is not None:
        return {}
    scale = scale_of(table)
    weighed = {
        run["label"]: weigh(scale, run).answer
        for run in table["runs"]
        if (run["kind"], run["study"]) == ("change", "matrix")
    }
    return {label: answer for label, answer in weighed.items() if answer in SAID}
