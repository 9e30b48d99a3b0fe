"""What every verdict is: a row of one table."""

from collections.abc import Mapping, Sequence

COLUMNS = ["study", "workload", "variant", "question", "answer", "figure", "evidence"]
ANSWERS = ("equal", "differs", "yes", "no", "not run", "not comparable")

Row = dict[str, str]


def missing_rows(not_run: Sequence[Mapping[str, str]], question: str) -> list[Row]:
    """Give a row for each variant that could not run here, with the reason."""
    return [
        {
            "workload": missing["workload"],
            "variant": missing["variant"],
            "question": question,
            "answer": "not run",
            "figure": missing["reason"],
            "evidence": "",
        }
        for missing in not_run
    ]
