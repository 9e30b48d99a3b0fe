"""Runs of one seed compared with the first of them: byte by byte, and step by step.

Two tensors are equal when their bytes are (see `distances`). What differed first is read from the
fingerprints that the runs took at every step, in the order of cause and effect (see `causes`). Runs
that are no pair (see `pair`) are not compared: the answer is `not comparable`, with the reason, and
the tables are empty. Where a training failed, or was not the one that its variant says (see
`happened`), the answer is `not run`, likewise. A pair is equal if all its tensors and all its steps
are, and both did as many steps. Does without torch.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from twinrun import artifacts, run_files
from twinrun.comparison.comparable import with_gaps
from twinrun.comparison.first_difference import first_difference
from twinrun.comparison.happened import departures_of, not_to_be_believed, without_effect_in_part
from twinrun.comparison.known_batches import departures_left
from twinrun.comparison.not_held import difference_of, ends_of, is_untrained, why_nothing
from twinrun.comparison.outputs import logged_values, predictions, test_metrics
from twinrun.comparison.pair import why_no_pair
from twinrun.comparison.pair_records import Comparison, FirstDifference, write_comparisons
from twinrun.comparison.tables import (
    STEP_COLUMNS,
    Run,
    known_of,
    non_finite_loss,
    read_tables,
    step_table,
)
from twinrun.comparison.tensors import TENSOR_COLUMNS, ComparedTensors, compare_tensors, counts
from twinrun.comparison.trace_words import traced_clause
from twinrun.comparison.unlike_prints import apart_clauses
from twinrun.process.cached_sources import doubts_of
from twinrun.process.compiler_cache import sharing
from twinrun.process.found_files import found_by
from twinrun.run_records import RunManifest


def compare(
    runs: Sequence[str | Path],
    *,
    summary: str | Path,
    tensors: str | Path,
    steps: str | Path,
    across: bool = False,
) -> None:
    """Compare every further run with the first and write the summary and two tables.

    Args:
        runs: run.json of the repeats, the first first; the other files of a run lie beside it.
        summary: path of the JSON, a list of one `pair_records.Comparison`.
        tensors: path of the table of tensors, a row for each repeat and tensor.
        steps: path of the table of steps, a row for each repeat and step that both runs have.
        across: compare a run of another variant or seed with the first: these may differ, and the
            instruction set, which a variant can choose, nothing else.

    Raises:
        TwinrunError: if a file of a run is corrupt or missing.
    """
    compared, tensor_table, steps_of_pairs = _judged(runs, across=across)
    artifacts.write_csv(tensors, tensor_table)
    artifacts.write_csv(steps, steps_of_pairs)
    write_comparisons(summary, [compared])


def compare_seeds(
    runs: Sequence[str | Path],
    *,
    summary: str | Path,
    tensors: str | Path,
    steps: str | Path,
    across: bool = False,
) -> None:
    """Compare the runs of each seed as `compare` does; the tables have a column `seed`.

    Args:
        runs: run.json of all seeds; of each, the one to compare the others with first.
        summary: path of the JSON, a list of `pair_records.Comparison`, a seed each.
        tensors: as for `compare`.
        steps: as for `compare`.
        across: as for `compare`.

    Raises:
        TwinrunError: as for `compare`.
    """
    seeds: dict[int, list[str | Path]] = {}
    for run in runs:
        # `read_ended`, not `read_run`: a seed whose training failed keeps its row.
        seeds.setdefault(run_files.read_ended(run)["seed"], []).append(run)
    found = {seed: _judged(group, across=across) for seed, group in seeds.items()}
    _name_same(seeds, {seed: compared for seed, (compared, _, _) in found.items()})
    tensor_tables = {seed: table for seed, (_, table, _) in found.items()}
    step_tables = {seed: table for seed, (_, _, table) in found.items()}
    for path, tables in ((tensors, tensor_tables), (steps, step_tables)):
        table = pd.concat(tables, names=["seed"]).reset_index("seed")
        artifacts.write_csv(path, table)
    write_comparisons(summary, [compared for compared, _, _ in found.values()])


def _name_same(seeds: Mapping[int, Sequence[str | Path]], found: Mapping[int, Comparison]) -> None:
    """Put into the comparison of each seed which other ones end in the same weights."""
    ended = {
        seed: [run_files.read_run(run) for run in runs if run_files.failure_of(run) is None]
        for seed, runs in seeds.items()
    }
    # Trainings that broke, each in its own way, may all end in NaN.
    weights = {
        seed: {run_files.end_of(run) for run in runs if run["no_result"] is None} - {None}
        for seed, runs in ended.items()
    }
    for seed, compared in found.items():
        # One run of each shows that the seed did not decide it; without a result none does.
        compared["same_as_seeds"] = [
            other for other in found if other != seed and weights[seed] & weights[other]
        ]


def _judged(
    runs: Sequence[str | Path], *, across: bool
) -> tuple[Comparison, pd.DataFrame, pd.DataFrame]:
    """Compare runs, and do not believe the answer where they are not what their variants say."""
    found = _compared(runs, across=across)
    answer = found[0]["answer"]
    if answer not in ("equal", "differs"):
        return found
    manifests = [run_files.read_run(run) for run in runs]
    found[0]["departures"] += without_effect_in_part(manifests)
    reasons = not_to_be_believed(found[0], manifests)
    if not reasons:
        return found
    of_bits = " (the runs are equal all the same)" if answer == "equal" else ""
    return _not_run(runs, f"{'; '.join(reasons)}{of_bits}", across=across)


def _compared(
    runs: Sequence[str | Path], *, across: bool
) -> tuple[Comparison, pd.DataFrame, pd.DataFrame]:
    """Return the summary and the tables of tensors and steps."""
    # First: a failed run has a manifest of another form, and otherwise empty files.
    reason = _why_not_run(runs, across=across)
    if reason is not None:
        return _not_run(runs, reason, across=across)
    manifests = [run_files.read_run(run) for run in runs]
    folders = [Path(run).parent for run in runs]
    reasons = (why_no_pair(manifests[0], other, across=across) for other in manifests[1:])
    reason = next(filter(None, reasons), None)
    tables = [] if reason else [read_tables(*run) for run in zip(runs, manifests, strict=True)]
    tensors, table = _compared_tensors(tables)
    step_tables, firsts = _compared_steps(tables)
    ends = ends_of(manifests)
    firsts = firsts or difference_of(tables if table["equal"].all() else [], ends)
    # Both: a callback may change weights after the last step, and other steps may end in the same.
    differs = bool(firsts) or not table["equal"].all()
    parameters = table[table["kind"] == "parameter"]
    compared = Comparison(
        workload=manifests[-1]["workload"],
        variant=manifests[-1]["variant"],
        against=manifests[0]["variant"] if across else None,
        seed=manifests[-1]["seed"],
        answer="not comparable" if reason else "differs" if differs else "equal",
        reason=reason,
        repeats=len(runs),
        steps=manifests[0]["steps"],
        parameters=counts(table, "parameter"),
        buffers=counts(table, "buffer"),
        # The built-in max: that of pandas gives NaN where there is no parameter.
        max_abs=None if reason else float(max(parameters["max_abs"], default=0)),
        max_ulp=None if reason else int(max(parameters["max_ulp"], default=0)),
        relative_l2=None if reason else max(found.relative_l2 for found in tensors),
        first_difference=min(firsts, key=lambda found: found["step"], default=None),
        logged=None if reason else logged_values(folders),
        metrics=None if reason else test_metrics(manifests),
        predictions=None if reason else predictions(folders, manifests),
        resumed_at=[manifest["resumed_at"] for manifest in manifests],
        compiler_cache=sharing([manifest["compiler_cache"] for manifest in manifests]),
        is_untrained=bool(tables) and all(map(is_untrained, tables)),
        non_finite_loss=[non_finite_loss(run) for run in tables],
        # The first run is in every pair.
        non_finite_parameters=[
            *(found.non_finite[0] for found in tensors[:1]),
            *(found.non_finite[1] for found in tensors),
        ],
        not_fingerprinted=sorted({name for run in manifests for name in run["not_fingerprinted"]}),
        not_held=ends,
        departures=departures_of(manifests),
        same_as_seeds=[],
        runs=[str(folder) for folder in folders],
    )
    if not reason:
        _note_steps(compared, manifests, tables, step_tables[1:])
        if compared["answer"] == "equal" and (nothing := why_nothing(tables)):
            compared["answer"], compared["reason"] = "not run", nothing
    # The empty table is for no pair at all: among full ones it would change their columns' types.
    return compared, table, pd.concat(step_tables[1:] or step_tables)[STEP_COLUMNS]


def _note_steps(
    compared: Comparison,
    manifests: Sequence[RunManifest],
    tables: Sequence[Run],
    step_tables: Sequence[pd.DataFrame],
) -> None:
    """Put into a comparison how many steps the runs have, if not all as many, and what it saw."""
    if found := [run["found_files"] for run in manifests if "found_files" in run]:
        compared["found_files"] = found_by(found)
        read = [run["read_files"] for run in manifests if "read_files" in run]
        if said := doubts_of(read, differ=compared["answer"] == "differs"):
            compared["found_files"]["outdated"] = said
    if anew := {name for run in manifests if "made_anew" in run for name in run["made_anew"]}:
        compared["made_anew"] = sorted(anew)
    steps = [manifest["steps"] for manifest in manifests]
    if len(set(steps)) > 1:
        compared["steps_of_runs"] = steps
    traced = traced_clause(run_files.variant_of(manifests[0]).traced, *steps)
    clauses = [traced, *apart_clauses(tables, differs=compared["first_difference"] is not None)]
    if any(clauses):
        compared["traced"] = "; ".join(filter(None, clauses))
    compared["departures"] = departures_left(compared, manifests, step_tables)


def _compared_tensors(tables: Sequence[Run]) -> tuple[list[ComparedTensors], pd.DataFrame]:
    """Return what the tensors of each pair show, and the table of all."""
    found = [
        compare_tensors(tables[0].manifest["tensors"], tables[0].weights, other.weights)
        for other in tables[1:]
    ]
    rows = [
        {"repeat": other.manifest["repeat"]} | row
        for other, compared in zip(tables[1:], found, strict=True)
        for row in compared.rows
    ]
    return found, pd.DataFrame(rows, columns=TENSOR_COLUMNS)


def _compared_steps(tables: Sequence[Run]) -> tuple[list[pd.DataFrame], list[FirstDifference]]:
    """Return an empty table and that of each pair, and what differed first in those that differ."""
    step_tables = [pd.DataFrame(columns=STEP_COLUMNS)]
    firsts: list[FirstDifference] = []
    for other in tables[1:]:
        first = tables[0]
        steps = step_table(first, other)
        shown = with_gaps(steps, known_of(first, other, len(steps)))
        step_tables.append(shown.assign(repeat=other.manifest["repeat"]))
        workers = run_files.variant_of(first.manifest).devices
        difference = first_difference(first, other, steps, workers=workers)
        firsts += [] if difference is None else [difference]
    return step_tables, firsts


def _why_not_run(runs: Sequence[str | Path], *, across: bool) -> str | None:
    """Say which training failed, and why; None if all left a network."""
    key = "variant" if across else "repeat"
    for run in runs:
        if (failure := run_files.failure_of(run)) is not None:
            return f"{key} {run_files.read_ended(run)[key]} failed: {failure}"
    return None


def _not_run(
    runs: Sequence[str | Path], reason: str, *, across: bool
) -> tuple[Comparison, pd.DataFrame, pd.DataFrame]:
    """Return the summary and empty tables where nothing is to be judged.

    A training failed, or a run was not what its variant says.
    """
    first, last = (run_files.read_ended(runs[index]) for index in (0, -1))
    tensors = pd.DataFrame(columns=TENSOR_COLUMNS)
    compared = Comparison(
        workload=last["workload"],
        variant=last["variant"],
        against=first["variant"] if across else None,
        seed=last["seed"],
        answer="not run",
        reason=reason,
        repeats=len(runs),
        steps=0,
        parameters=counts(tensors, "parameter"),
        buffers=counts(tensors, "buffer"),
        max_abs=None,
        max_ulp=None,
        relative_l2=None,
        first_difference=None,
        logged=None,
        metrics=None,
        predictions=None,
        resumed_at=[],
        compiler_cache=None,
        is_untrained=False,
        non_finite_loss=[],
        non_finite_parameters=[],
        not_fingerprinted=[],
        not_held={},
        departures=[],
        same_as_seeds=[],
        runs=[str(Path(run).parent) for run in runs],
    )
    return compared, tensors, pd.DataFrame(columns=STEP_COLUMNS)
