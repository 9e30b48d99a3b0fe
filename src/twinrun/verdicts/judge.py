"""From comparisons and timings to verdicts: question, answer, figure, evidence, a line each.

A verdict says what was measured, never what was expected. A timing whose interval holds 1 says
that no difference was measured; a variant that could not run here has its line, with the reason.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from twinrun import artifacts
from twinrun.verdicts.equality import located
from twinrun.verdicts.rows import COLUMNS
from twinrun.verdicts.studies import STUDIES


def judge(
    study: str,
    *,
    comparisons: Sequence[str],
    timings: Sequence[str],
    not_run: Mapping[str, str],
    workloads: Sequence[str],
    output: str,
    locations: Sequence[str] = (),
) -> None:
    """Write the verdicts of one study.

    Args:
        study: its name.
        comparisons: JSON of its comparisons; one file may hold those of several seeds.
        timings: JSON of its timings.
        not_run: its variants that this machine cannot run, and why.
        workloads: its workloads, in the order of the config.
        output: path of the CSV.
        locations: JSON that says where its pairs part, likewise.
    """
    results = Path(output).parents[1]
    rows = STUDIES[study](
        _read(comparisons, results),
        _read(timings, results),
        [
            {"workload": workload, "variant": variant, "reason": reason}
            for workload in workloads
            for variant, reason in not_run.items()
        ],
    )
    rows += located(_read(locations, results))
    order = {workload: place for place, workload in enumerate(workloads)}
    rows.sort(key=lambda row: order[row["workload"]])
    table = pd.DataFrame([{"study": study, **row} for row in rows], columns=COLUMNS)
    artifacts.write_csv(output, table)


def collect(studies: Sequence[str], *, output: str) -> None:
    """Join the verdicts of the studies into one table."""
    tables = [pd.read_csv(path, dtype=str, keep_default_na=False) for path in studies]
    artifacts.write_csv(output, pd.concat(tables))


def summary_lines(verdicts: str) -> list[str]:
    """Give the verdicts as lines for a terminal, by question."""
    table = pd.read_csv(verdicts, dtype=str, keep_default_na=False)
    columns = ["workload", "variant", "answer"]
    widths = {column: table[column].str.len().max() for column in columns}
    lines = []
    for question, rows in table.groupby("question", sort=False):
        lines.append(question)
        for row in rows.to_dict("records"):
            cells = "  ".join(f"{row[column]:<{widths[column]}}" for column in columns)
            lines.append(f"  {cells}  {row['figure']}")
    return lines


def _read(paths: Sequence[str], results: Path) -> list[dict[str, Any]]:
    return [
        {**entry, "path": Path(path).relative_to(results).as_posix()}
        for path in paths
        for entry in artifacts.read_entries(path)
    ]
