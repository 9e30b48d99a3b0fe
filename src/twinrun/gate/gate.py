"""Compare the results with what the config requires: pass, fail, not comparable, or error.

`require` writes results/gate.json. The command

    python -m twinrun.gate results/gate.json

prints it and ends with an exit code that tells the four outcomes apart: 0 pass, 3 fail, 4 not
comparable, 1 error (no results, as after a failed job; Snakemake itself ends with 1 then; 2 is
argparse's for a wrong call). With `--accept`, what was found becomes the expected fingerprint; what
moved is shown first.
"""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from twinrun.comparison.study_records import MatrixTable, read_matrix
from twinrun.config.required_runs import PAIR
from twinrun.errors import TwinrunError, sentence_of
from twinrun.gate import expected_fingerprints
from twinrun.gate.costs import costs
from twinrun.gate.failed_trainings import failures
from twinrun.gate.judged import Planned, hashes_of, lines_now, other_settings, why_not_judged
from twinrun.gate.outcome import (
    GateLine,
    GateOutcome,
    Judged,
    folder_of,
    read_outcome,
    severest,
    shown,
    write_outcome,
)
from twinrun.gate.stale import stale_reasons
from twinrun.gate.tables_beside import incomplete, tables_beside
from twinrun.process.job import say
from twinrun.run_files import CHECKSUMS
from twinrun.verdicts.rows import VerdictRow, read_rows

EXIT_CODES = {"pass": 0, "error": 1, "fail": 3, "not comparable": 4}
# A pair that validates, tests or predicts differently does not repeat, equal as its weights may be.
PAIR_KEYS = ("repeats", "repeats_logged", "repeats_metrics", "repeats_predictions")
# The requirement of every gate.
UP_TO_DATE = "runs are up to date"
NO_RESULT: Judged = ("not comparable", "there is no result to judge")
# Answers that say nothing about what is required, unless just that answer is required.
OPEN = ("not run", "not comparable", "undecided")


def require(
    requirements: Mapping[str, str | list[str]],
    *,
    verdicts: str | Path,
    timings: Sequence[str],
    matrices: Sequence[str],
    runs: Sequence[str],
    rests_on: Sequence[str],
    planned: Planned,
    output: str | Path,
) -> None:
    """Judge every requirement and write the outcome.

    Args:
        requirements: of the config, by name.
        verdicts: the table of all studies.
        timings: JSON of the timings that say what determinism costs.
        matrices: JSON of the matrices.
        runs: run.json of what an expected fingerprint is about.
        rests_on: run.json of every run that the answers rest on.
        planned: what the config now says, of these runs too.
        output: path of the JSON.

    Raises:
        TwinrunError: if nothing is required, or the file of expected fingerprints is none.
    """
    if not requirements:
        raise TwinrunError("require: nothing is required; name at least one requirement")
    rows, found = read_rows(verdicts), expected_fingerprints.observed(runs)
    read = _read(verdicts, timings, matrices, [*runs, *rests_on])
    lines: list[GateLine] = [*map(_out_of_date, incomplete(Path(verdicts), rows, read))]
    for name, wanted in requirements.items():
        if name == "fingerprint" and not isinstance(wanted, list):
            judged: list[Judged] = [expected_fingerprints.outcome_now(wanted, found)]
        elif isinstance(wanted, list):  # the cells of `matrix`
            judged = [_cell(read_matrix(path), cell) for path in matrices for cell in wanted]
        elif name == "determinism_cost":
            judged = [*costs(timings, wanted, rows, planned["studies"]["reproducibility"])]
        else:
            judged = _answers(rows, name, wanted, planned["studies"])
        # Nothing was found to be wrong, and nothing to be right: never a pass.
        judged = [*judged, *failures(name, planned["runs"].get(name, ()))] or [NO_RESULT]
        requirement = f"{name}: {', '.join(wanted) if isinstance(wanted, list) else wanted}"
        lines += [{"requirement": requirement, "outcome": o, "why": why} for o, why in judged]
    lines += map(_out_of_date, other_settings(rests_on, planned, timings))
    write_outcome(
        output,
        {
            "outcome": severest(lines),
            "lines": lines,
            "fingerprint": _file_of(requirements),
            "rests_on": list(rests_on),
            "judged": hashes_of([*read, *tables_beside(read, Path(verdicts).parent)]),
            "timings": list(timings),
            "beside": planned["beside"],
            "configs": planned["configs"],
            "config": planned["config"],
            "found": found,
        },
    )


def _read(
    verdicts: str | Path, timings: Sequence[str], matrices: Sequence[str], runs: Sequence[str]
) -> list[str | Path]:
    """List what is judged, what verdicts name as evidence, comparisons of cells, checksums."""
    rows = read_rows(verdicts)
    cells = [(matrix, cell["cell"]) for matrix in matrices for cell in read_matrix(matrix)["cells"]]
    return [
        *(verdicts, *timings, *matrices, *runs),
        *(Path(verdicts).parent / row["evidence"] for row in rows if row["evidence"]),
        *(Path(matrix).with_suffix("") / f"{cell}.json" for matrix, cell in cells),
        *(Path(run).with_name(CHECKSUMS) for run in runs),
    ]


def _file_of(requirements: Mapping[str, str | list[str]]) -> str | None:
    """Name the file with the expected fingerprints, if one is required."""
    file = requirements.get("fingerprint")
    return file if isinstance(file, str) else None


def _out_of_date(why: str) -> GateLine:
    return {"requirement": UP_TO_DATE, "outcome": "not comparable", "why": why}


def _is_about(row: VerdictRow, requirement: str, wanted: str) -> bool:
    """Say whether a verdict answers a requirement: `resume`, `contest` or `<variant>_pair`."""
    if requirement == "contest":
        return row["key"] == "contest"
    if requirement == "resume":
        # What Lightning's own checkpoints lose is for the report; what is required is the remedy.
        return row["key"] == "resumes_twinrun"
    # To be equal a pair must be so in all of it; it differs where its weights or steps do.
    keys = PAIR_KEYS if wanted == "equal" else ("repeats",)
    is_pair = row["study"] == "reproducibility" and row["key"] in keys
    return is_pair and row["variant"] == requirement.removesuffix(PAIR)


def _answers(
    rows: Sequence[VerdictRow], name: str, wanted: str, studies: Mapping[str, Sequence[str]]
) -> list[Judged]:
    """Judge the answers about the workloads of the config; others are those of another config."""
    study = name if name in ("resume", "contest") else "reproducibility"
    workloads = studies[study]
    about = [row for row in rows if _is_about(row, name, wanted)]
    judged = [_answer(row, wanted) for row in about if row["workload"] in workloads]
    answered = {row["workload"] for row in about}
    for workload in workloads:
        if workload not in answered:
            judged.append(("not comparable", f"{workload}: there is no result to judge"))
    return judged


def _answer(row: VerdictRow, wanted: str) -> Judged:
    why = f"{row['workload']} {row['variant']}: {row['answer']}, {row['measured']}"
    if row["answer"] == wanted or (row["answer"], wanted) == ("better", "not worse"):
        return "pass", why
    return "not comparable" if row["answer"] in OPEN else "fail", why


def _cell(matrix: MatrixTable, name: str) -> Judged:
    """Judge one cell of a matrix, which must be equal to the baseline."""
    cell = next((cell for cell in matrix["cells"] if cell["cell"] == name), None)
    if cell is None:
        return "not comparable", f"{matrix['workload']}: the matrix has no cell {name}"
    why = f"{matrix['workload']}, {cell['label']}: {cell['sentence']}"
    # A cell cannot be required to be anything else than equal, so no open answer passes.
    if cell["answer"] in OPEN:
        return "not comparable", why
    return "pass" if cell["answer"] == "equal" else "fail", why


def judged_now(gate: str | Path, config: str | None = None) -> GateOutcome:
    """Read what was judged; what is out of date is not comparable.

    That is: what rests on runs that have changed, and what was judged of another config, or of
    other results than those that are there now.

    Args:
        gate: results/gate.json.
        config: hash of the whole config as it is now; None where only its files are known.

    Raises:
        TwinrunError: if the file or a manifest is corrupt.
    """
    found = read_outcome(gate)
    folder = folder_of(gate)
    reasons = [*why_not_judged(found, folder, config)]
    reasons += stale_reasons(found["rests_on"], folder, found["timings"])
    lines = [*lines_now(found, folder), *map(_out_of_date, reasons)]
    return {**found, "lines": lines, "outcome": severest(lines)}


def check(gate: str | Path, config: str | None = None) -> None:
    """Say what was judged, from inside a job.

    Args:
        gate: results/gate.json.
        config: as for `judged_now`.

    Raises:
        TwinrunError: if the outcome is not pass; it names every line that does not.
    """
    found = judged_now(gate, config)
    for line in found["lines"]:
        say(shown(line))
    wanting = [shown(line) for line in found["lines"] if line["outcome"] != "pass"]
    if wanting:
        raise TwinrunError("; ".join(wanting))


def answer(gate: str | Path, config: str | None = None) -> str:
    """Return all lines of a gate and its outcome; where there is none, the reason.

    Args:
        gate: results/gate.json.
        config: as for `judged_now`.
    """
    try:
        found = judged_now(gate, config)
    except (TwinrunError, OSError) as error:
        return f"error: {sentence_of(error)}"
    return _shown(found)


def _shown(found: GateOutcome) -> str:
    return "\n".join([*map(shown, found["lines"]), f"gate: {found['outcome']}"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a gate's lines and return the exit code of its outcome."""
    parser = argparse.ArgumentParser(prog="python -m twinrun.gate")
    parser.add_argument("gate", type=Path, help="results/gate.json")
    parser.add_argument(
        "--accept", action="store_true", help="make what was found the expected fingerprint"
    )
    options = parser.parse_args(arguments)
    try:
        if not options.gate.is_file():
            raise TwinrunError(f"{options.gate} is missing: twinrun gate makes results/gate.json")
        found = judged_now(options.gate)
        folder = folder_of(options.gate)
        return _accept(found, folder) if options.accept else _show(found)
    except (TwinrunError, OSError) as error:  # OSError: accepted into a folder that is read only
        print(f"error: {sentence_of(error)}", file=sys.stderr)
        return EXIT_CODES["error"]


def _show(found: GateOutcome) -> int:
    print(_shown(found))
    return EXIT_CODES[found["outcome"]]


def _accept(found: GateOutcome, folder: Path) -> int:
    """Make what was found the expected fingerprint; a path in the config is the workflow's."""
    if found["fingerprint"] is None:
        raise TwinrunError("require.fingerprint: the config names no file to accept it into")
    file = str(folder / found["fingerprint"])
    stale = [line["why"] for line in found["lines"] if line["requirement"] == UP_TO_DATE]
    if stale:
        raise TwinrunError(
            f"nothing is accepted: {'; '.join(stale)}; make the runs again (twinrun gate), "
            f"since no run of now would end in what was found"
        )
    expected = expected_fingerprints.read(file)
    entries, moved = expected_fingerprints.accepted(expected, found["found"])
    # Shown before it is written: who stops it here keeps what was expected.
    print(*moved, sep="\n", flush=True)
    expected_fingerprints.write(file, entries)
    print(f"accepted into {os.path.relpath(file)}")
    return EXIT_CODES["pass"]


if __name__ == "__main__":
    sys.exit(main())
