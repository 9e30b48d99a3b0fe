"""Hold the results to what the config requires: pass, fail, not comparable, or error.

`require` writes results/gate.json. The command

    python -m twinrun.gate results/gate.json

prints it and ends with an exit code that tells the four outcomes apart: 0 pass, 3 fail, 4 not
comparable, 1 error (no results, as after a failed job; Snakemake itself ends with 1 then; 2 is the
shell's for a wrong call). With `--accept`, what was found becomes the expected fingerprint; what
moved is shown first.
"""

import argparse
import operator
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from twinrun import artifacts
from twinrun.config.resume_variants import RESUMES
from twinrun.errors import TwinrunError
from twinrun.formatting import measure
from twinrun.gate import expected_fingerprints
from twinrun.process.job import say
from twinrun.verdicts.equality import REPEATS, REPEATS_ENTIRELY

EXIT_CODES = {"pass": 0, "error": 1, "fail": 3, "not comparable": 4}
SEVEREST_FIRST = ("fail", "not comparable", "pass")
PAIR = "_pair"  # of a variant, at the end of a requirement's name
LIMITS = {"<=": operator.le, "<": operator.lt, ">=": operator.ge, ">": operator.gt}

Line = dict[str, str]


def require(
    requirements: Mapping[str, Any],
    *,
    verdicts: str | Path,
    timings: Sequence[str],
    matrices: Sequence[str],
    runs: Sequence[str],
    output: str | Path,
) -> None:
    """Judge every requirement and write the outcome.

    Args:
        requirements: of the config, by name.
        verdicts: the table of all studies.
        timings: JSON of the timings that say what determinism costs.
        matrices: JSON of the matrices.
        runs: run.json of what an expected fingerprint is about.
        output: path of the JSON.

    Raises:
        TwinrunError: if nothing is required, or the file of expected fingerprints is none.
    """
    if not requirements:
        raise TwinrunError("require: nothing is required; name at least one requirement")
    table = pd.read_csv(verdicts, dtype=str, keep_default_na=False)
    found = expected_fingerprints.observed(runs)
    lines: list[Line] = []
    for name, wanted in requirements.items():
        if name == "determinism_cost":
            judged = [_cost(artifacts.read_json(path), wanted) for path in timings]
        elif name == "matrix":
            judged = [
                _cell(artifacts.read_json(path), cell) for path in matrices for cell in wanted
            ]
        elif name == "fingerprint":
            judged = [expected_fingerprints.judge(expected_fingerprints.read(wanted), found)]
        else:
            judged = list(_answers(_rows(table, name), wanted))
        judged = judged or [("not comparable", "there is no result to judge")]
        lines += [
            {"requirement": f"{name}: {_shown(wanted)}", "outcome": outcome, "why": why}
            for outcome, why in judged
        ]
    outcomes = {line["outcome"] for line in lines}
    artifacts.write_json(
        output,
        {
            "outcome": next(outcome for outcome in SEVEREST_FIRST if outcome in outcomes),
            "lines": lines,
            "fingerprint": requirements.get("fingerprint"),
            "found": found,
        },
    )


def _shown(wanted: Any) -> str:
    return ", ".join(wanted) if isinstance(wanted, list) else str(wanted)


def _rows(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """Give the verdicts that a requirement is about: a variant's pairs, or those of a study."""
    if not name.endswith(PAIR):
        # What Lightning's own checkpoints lose is for the report; what is required is the remedy.
        is_remedy = ~table["question"].str.contains(RESUMES["lightning"], regex=False)
        return table[(table["study"] == name) & is_remedy]
    is_pair = table["question"].isin([REPEATS, REPEATS_ENTIRELY])
    is_variant = table["variant"] == name.removesuffix(PAIR)
    return table[is_pair & is_variant & (table["study"] == "reproducibility")]


def _answers(rows: pd.DataFrame, wanted: str) -> Iterator[tuple[str, str]]:
    for row in rows.to_dict("records"):
        why = f"{row['workload']} {row['variant']}: {row['answer']}, {row['figure']}"
        if row["answer"] in ("not run", "not comparable"):
            yield "not comparable", why
        else:
            yield "pass" if row["answer"] == wanted else "fail", why


def _cost(timing: Mapping[str, Any], wanted: str) -> tuple[str, str]:
    """Hold the ratios of the training step to a limit; with no ratio nothing can be said."""
    sign, _, limit = wanted.partition(" ")
    ratios = [
        ratio
        for ratio in timing["ratios"]
        if ratio["phase"] == "train" and ratio["variant"] != timing["baseline"]
    ]
    if not ratios:
        return "not comparable", f"{timing['workload']}: the cost was not measured"
    worst = max(ratios, key=lambda ratio: ratio["time_ratio"])
    kept = all(LIMITS[sign](ratio["time_ratio"], float(limit)) for ratio in ratios)
    interval = f"{measure(worst['low'])} to {measure(worst['high'])}"
    why = f"{timing['workload']} {worst['variant']}: {measure(worst['time_ratio'])} ({interval})"
    return "pass" if kept else "fail", why


def _cell(matrix: Mapping[str, Any], name: str) -> tuple[str, str]:
    cell = next(cell for cell in matrix["cells"] if cell["cell"] == name)
    outcomes = {"equal": "pass", "differs": "fail"}
    why = f"{matrix['workload']}, {cell['sentence']}"
    return outcomes.get(cell["answer"], "not comparable"), why


def check(gate: str | Path) -> None:
    """Say what was judged, from inside a job.

    Raises:
        TwinrunError: if the outcome is not pass.
    """
    found = artifacts.read_json(gate)
    for line in _lines(found):
        say(line)
    if found["outcome"] != "pass":
        raise TwinrunError(f"{found['outcome']}: not everything that require names holds")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a gate's lines and give the exit code of its outcome."""
    parser = argparse.ArgumentParser(prog="python -m twinrun.gate")
    parser.add_argument("gate", type=Path, help="results/gate.json")
    parser.add_argument(
        "--accept", action="store_true", help="make what was found the expected fingerprint"
    )
    options = parser.parse_args(arguments)
    try:
        if not options.gate.is_file():
            raise TwinrunError(f"{options.gate} is missing: snakemake --cores all {options.gate}")
        found = artifacts.read_json(options.gate)
        return _accept(found) if options.accept else _show(found)
    except TwinrunError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_CODES["error"]


def _show(found: Mapping[str, Any]) -> int:
    print(*_lines(found), f"gate: {found['outcome']}", sep="\n")
    return EXIT_CODES[found["outcome"]]


def _lines(found: Mapping[str, Any]) -> list[str]:
    return [f"{line['outcome']}: {line['requirement']}: {line['why']}" for line in found["lines"]]


def _accept(found: Mapping[str, Any]) -> int:
    file = found["fingerprint"]
    if file is None:
        raise TwinrunError("require.fingerprint: the config names no file to accept it into")
    entries, moved = expected_fingerprints.accepted(
        expected_fingerprints.read(file), found["found"]
    )
    print(*moved, sep="\n", flush=True)
    artifacts.write_json(file, entries)
    print(f"accepted into {file}")
    return EXIT_CODES["pass"]


if __name__ == "__main__":
    sys.exit(main())
