"""From comparisons and timings to verdicts: question, answer, what was measured, evidence.

A verdict says what was measured, never what was expected. What could not run here has its line,
with the reason.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from twinrun.comparison.pair_records import read_locations
from twinrun.verdicts.equality import first_operations
from twinrun.verdicts.evidence import VariantNotRun, read
from twinrun.verdicts.rows import VerdictRow, read_rows, write_rows
from twinrun.verdicts.studies import STUDIES, StudyFiles


def judge(
    study: str,
    *,
    comparisons: Sequence[str],
    timings: Sequence[str],
    not_run: Mapping[str, str],
    untimed: Mapping[str, str],
    workloads: Sequence[str],
    output: str,
    locations: Sequence[str] = (),
    runs: Sequence[str] = (),
) -> None:
    """Write the verdicts of one study; see `verdicts_of`.

    Args:
        study: its name.
        comparisons: JSON of its comparisons.
        timings: JSON of its timings.
        not_run: its variants that this machine cannot run, and why.
        untimed: those that run here and that no timing measures, and why.
        workloads: its workloads.
        output: path of the CSV.
        locations: JSON that says where its pairs diverge.
        runs: run.json of its whole trainings, where it asks how long they took.
    """
    rows = verdicts_of(
        study,
        comparisons=comparisons,
        timings=timings,
        not_run=not_run,
        untimed=untimed,
        workloads=workloads,
        locations=locations,
        runs=runs,
        # The table lies in results/verdicts/.
        results=Path(output).parents[1],
    )
    write_rows(output, rows)


def verdicts_of(
    study: str,
    *,
    comparisons: Sequence[str],
    timings: Sequence[str],
    not_run: Mapping[str, str],
    untimed: Mapping[str, str],
    workloads: Sequence[str],
    locations: Sequence[str],
    results: Path,
    runs: Sequence[str] = (),
) -> list[VerdictRow]:
    """Return the verdicts of one study; a file that is left out leaves out its own alone.

    Args:
        study: its name.
        comparisons: JSON of its comparisons; one file may hold those of several seeds.
        timings: JSON of its timings.
        not_run: its variants that this machine cannot run, and why.
        untimed: those that run here and that no timing measures, and why.
        workloads: its workloads, in the order of the config.
        locations: JSON that says where its pairs diverge, likewise.
        results: the results folder.
        runs: run.json of its whole trainings, where it asks how long they took.
    """
    files = StudyFiles(
        comparisons=comparisons,
        timings=timings,
        missing=_of_each(workloads, not_run),
        untimed=_of_each(workloads, untimed),
        runs=runs,
        results=results,
    )
    rows = STUDIES[study](files)
    # Of every study whose pairs are located, whatever else it asks.
    rows += first_operations(read(locations, read_locations, results=results))
    order = {workload: position for position, workload in enumerate(workloads)}
    # Sorting is stable: within a workload the questions stay in the order of the study.
    rows.sort(key=lambda row: order[row["workload"]])
    return [{"study": study, **row} for row in rows]


def _of_each(workloads: Sequence[str], reasons: Mapping[str, str]) -> list[VariantNotRun]:
    return [
        {"workload": workload, "variant": variant, "reason": reason}
        for workload in workloads
        for variant, reason in reasons.items()
    ]


def collect(studies: Sequence[str], *, output: str) -> None:
    """Join the verdicts of the studies into one table."""
    write_rows(output, [row for path in studies for row in read_rows(path)])


def summary_lines(verdicts: str | Path) -> list[str]:
    """Return the verdicts as lines for a terminal, by question."""
    rows = read_rows(verdicts)
    cells = [(row["workload"], row["variant"], row["answer"]) for row in rows]
    # Over all questions, so that their columns stand below each other.
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for question in dict.fromkeys(row["question"] for row in rows):
        lines.append(question)
        for row, texts in zip(rows, cells, strict=True):
            if row["question"] == question:
                padded = "  ".join(map(str.ljust, texts, widths))
                lines.append(f"  {padded}  {row['measured']}")
    return lines
