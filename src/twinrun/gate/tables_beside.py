"""Tables that a gate misses: those beside what it judges, and those that were joined to it."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from twinrun.verdicts.rows import VerdictRow, read_rows


def tables_beside(files: Sequence[str | Path], results: Path) -> Iterator[Path]:
    """Name the tables that are made together with each comparison and each study of noise.

    Args:
        files: that are judged.
        results: the folder that they lie in.
    """
    for file in map(Path, files):
        if file.suffix != ".json" or not file.is_file() or not file.is_relative_to(results):
            continue
        of, *names = file.relative_to(results).parts
        # Of a matrix each cell is a comparison; what they are joined to has no such tables.
        if of == "comparisons" or (of == "matrix" and len(names) > 1):
            yield file.with_suffix(".tensors.csv")
            yield file.with_suffix(".steps.csv")
        elif of == "noise":
            yield file.with_suffix(".steps.csv")


def incomplete(
    verdicts: Path, rows: Sequence[VerdictRow], read: Sequence[str | Path]
) -> Iterator[str]:
    """Say which studies' tables of verdicts are not in the joined one, and which tables lack."""
    yield from _without_tables(read, verdicts.parent)
    for study in dict.fromkeys(row["study"] for row in rows):
        table = verdicts.with_suffix("") / f"{study}.csv"
        again = "make both again, with your --configfile (twinrun gate --forcerun judge)"
        # Snakemake does not make what lies between files that are there.
        if not table.is_file():
            yield f"{table} is missing, of which {verdicts} is made: {again}"
        elif read_rows(table) != [row for row in rows if row["study"] == study]:
            yield f"{verdicts} does not say what {table} says, of which it is made: {again}"


def _without_tables(files: Sequence[str | Path], results: Path) -> Iterator[str]:
    """Say which tables are gone; Snakemake makes none whose record is there."""
    for table in dict.fromkeys(tables_beside(files, results)):
        if not table.is_file():
            record = table.with_suffix("").with_suffix(".json")
            yield (
                f"{table} is missing, which is made together with {record}: make both again, with "
                f"your --configfile (twinrun gate --forcerun {record})"
            )
