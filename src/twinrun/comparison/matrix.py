"""A matrix: what each change of the baseline did to the training, a row and a sentence a cell.

Every cell is a run compared with the baseline's first one. If the baseline's repeat is not equal to
it, nothing can be said of any change, and the cells are `not comparable`.

What a difference can come from is judged by `difference_size`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from twinrun import artifacts, run_files
from twinrun.comparison.conditions import NOT_AS_SAID, conditions
from twinrun.comparison.difference_size import DifferenceSize, losses_apart, size_of
from twinrun.comparison.happened import what_did_not_happen
from twinrun.comparison.outputs import predictions_changed
from twinrun.comparison.pair_records import Comparison, read_comparisons
from twinrun.comparison.same_sums import doubt_of
from twinrun.comparison.study_records import IDLE_SEED, MatrixCell, MatrixTable, write_matrix
from twinrun.comparison.tensors import buffers_apart
from twinrun.config.rule_records import ListedCell
from twinrun.formatting import count, measure, percent, plural
from twinrun.run_records import RunManifest

# fmt: off
COLUMNS = [
    "cell", "label", "answer", "first_step", "quantity", "tensor", "cause", "relative_l2",
    "buffers_relative_l2", "size", "judged_by", "apart", "bound", "doubt",
    "predictions_changed", "predictions", "sentence",
]
# fmt: on


def tabulate(
    cells: Sequence[ListedCell],
    comparisons: Sequence[str],
    *,
    workload: str,
    baseline: str,
    seed: int,
    table: str | Path,
    summary: str | Path,
) -> None:
    """Write the table of a matrix, and the same as JSON with what all cells share.

    Args:
        cells: in the order of the config.
        comparisons: the JSON of each one that was run, `<name>.json`; its tables lie beside it.
        workload: of all cells.
        baseline: the variant that is changed.
        seed: of all cells but the one that changes it.
        table: path of the CSV.
        summary: path of the JSON.
    """
    compared = {Path(path).stem: CellComparison(path) for path in comparisons}
    repeat, other_seed = compared.get("repeat"), compared.get("seed")
    doubt = None if repeat is None else _doubt(repeat.found)
    scale = None if other_seed is None else losses_apart(other_seed.found, other_seed.steps)
    again = None if repeat is None else repeat.folders[-1]
    rows = [_row(cell, compared.get(cell["name"]), again, doubt=doubt) for cell in cells]
    # A list is no cell of a CSV: the conditions are in the JSON, and in the sentence.
    artifacts.write_csv(table, pd.DataFrame(rows)[COLUMNS])
    write_matrix(
        summary,
        MatrixTable(
            workload=workload,
            baseline=baseline,
            seed=seed,
            answer="not run" if repeat is None else repeat.found["answer"],
            reason=doubt,
            steps=None if repeat is None else repeat.found["steps"],
            scale=scale,
            cells=rows,
        ),
    )


class CellComparison:
    """The comparison of a cell with the baseline, and what a matrix needs beyond its summary."""

    def __init__(self, path: str | Path) -> None:
        self.found: Comparison
        (self.found,) = read_comparisons(path)
        self._path = Path(path)
        self.folders = [Path(folder) for folder in self.found["runs"]]

    @property
    def baseline(self) -> RunManifest:
        """The run of the baseline, which must not have failed."""
        # Read when it is asked for: `read_run` refuses a training that failed.
        return run_files.read_run(self.folders[0] / "run.json")

    @property
    def changed(self) -> RunManifest:
        """The run of the cell, likewise."""
        return run_files.read_run(self.folders[1] / "run.json")

    @property
    def steps(self) -> Path:
        """The table of steps."""
        return self._path.with_suffix(".steps.csv")


def _doubt(repeat: Comparison) -> str | None:
    """Say why no cell can be compared; None if the baseline repeats."""
    if repeat["answer"] == "equal":
        return None
    return repeat["reason"] or "the baseline does not repeat"


def _row(
    cell: ListedCell,
    comparison: CellComparison | None,
    repeat: Path | None,
    *,
    doubt: str | None,
) -> MatrixCell:
    """Say what a cell's comparison says, and what the difference can come from."""
    row = MatrixCell(
        cell=cell["name"],
        label=cell["label"],
        answer="not run",
        reason=cell["not_run"],
        steps=None,
        first_step=None,
        quantity=None,
        tensor=None,
        cause=None,
        relative_l2=None,
        buffers_relative_l2=None,
        same_weights=False,
        size=None,
        judged_by=None,
        apart=None,
        bound=None,
        doubt=None,
        predictions_changed=None,
        predictions=None,
        conditions=[],
        sentence="",
    )
    if comparison is not None:
        # The repeat is the doubt itself: its cell shows how far the baseline is from its own
        # repeat.
        _fill(row, comparison, repeat, doubt=None if cell["name"] == "repeat" else doubt)
        if row["answer"] == "not run":
            row["tried"] = True
    row["sentence"] = sentence(row)
    return row


def _fill(
    row: MatrixCell, comparison: CellComparison, repeat: Path | None, *, doubt: str | None
) -> None:
    """Put into the row of a cell that was run what its comparison says."""
    found = comparison.found
    reason = found["reason"]
    # Before the answer is believed: a stop that never came leaves the bits of the whole run, which
    # are equal and prove nothing. A failed run has no manifest to ask.
    if found["answer"] != "not run":
        reason = what_did_not_happen(comparison.changed)
    if reason is not None:
        row["reason"] = reason
        return
    if found["answer"] == "not comparable" or doubt:
        row["answer"], row["reason"] = "not comparable", found["reason"] or doubt
        return
    row["answer"], row["steps"] = found["answer"], found["steps"]
    row["relative_l2"] = found["relative_l2"]
    row["buffers_relative_l2"] = buffers_apart(found)
    row["same_weights"] = not any(
        found[kind]["elements_differing"] for kind in ("parameters", "buffers")
    )
    row["predictions_changed"], row["predictions"] = predictions_changed(comparison.folders)
    row["conditions"] = [*_findings(row, comparison), *conditions(found)]
    first = found["first_difference"]
    size = size_of(found, comparison.steps, repeat)
    # What came to nothing has no size, whatever it began with (another RNG state, say), but a loss.
    is_loss = first is not None and first["quantity"] == "loss"
    if size is not None and (is_loss or not row["same_weights"]):
        if size.is_by_numbers and (but := doubt_of(comparison.baseline, comparison.changed)):
            size = replace(size, size="undecided", doubt=f"{size.numbers()}; but {but}")
        row["size"], row["judged_by"] = size.size, size.judged_by
        row["apart"], row["bound"], row["doubt"] = size.apart, size.bound, size.doubt
    if first is not None:
        row["first_step"], row["quantity"] = first["step"], first["quantity"]
        row["tensor"], row["cause"] = first["tensor"], first["cause"]
        if "since" in first:
            row["since"] = first["since"]
    if "traced" in found:
        row["traced"] = found["traced"]


def _findings(row: MatrixCell, comparison: CellComparison) -> Iterator[str]:
    """Say where nothing differs that must."""
    # Equal is no good news here: a seed or a precision that changes nothing is a finding. By the
    # weights: another seed has other RNG states, which a training may never draw from. That two
    # trainings broke shows nothing of it: both may end in NaN.
    runs = (comparison.baseline, comparison.changed)
    is_broken = any(run["no_result"] is not None for run in runs)
    if row["cell"] == "seed" and row["same_weights"] and not is_broken:
        yield IDLE_SEED
    if row["answer"] != "equal":
        return
    precisions = {run_files.variant_of(run).precision for run in runs}
    if len(precisions) > 1:
        yield "though the precision is another one: the module computes in its own"


def sentence(row: MatrixCell) -> str:
    """Say a cell in plain words, without its label: `every bit of 30 steps stays the same.`"""
    return f"{'; '.join(_clauses(row))}."


def _clauses(row: MatrixCell) -> Iterator[str]:
    if row["answer"] in ("not run", "not comparable"):
        yield f"{row['answer']}, {row['reason']}"
        return
    if row["answer"] == "equal":
        what = "every bit that was compared" if "traced" in row else "every bit"
        yield f"{what} of {plural(row['steps'] or 0, 'step')} stays the same"
        yield from row["conditions"]
        return
    yield _divergence(row)
    # What is known to be otherwise is the first that a difference may come from.
    departures = [each for each in row["conditions"] if each.startswith(NOT_AS_SAID)]
    yield from departures
    if row["size"] is not None and row["judged_by"] is not None:
        size = DifferenceSize(
            size=row["size"],
            judged_by=row["judged_by"],
            apart=row["apart"],
            bound=row["bound"],
            doubt=row["doubt"],
        )
        yield size.sentence()
    if row["same_weights"]:
        yield "at the end every parameter and buffer is the same"
    else:
        of_buffers = row["buffers_relative_l2"]
        beside = "" if of_buffers is None else f", of the buffers that differ {measure(of_buffers)}"
        yield f"at the end a relative L2 of {measure(row['relative_l2'])}{beside}"
    if row["predictions_changed"] is not None:
        yield f"{percent(row['predictions_changed'])} of the {row['predictions']} change"
    yield from (each for each in row["conditions"] if each not in departures)


def _divergence(row: MatrixCell) -> str:
    # Every step is equal and the weights are not.
    if row["first_step"] is None:
        return (
            f"differs {'at no step that was traced' if 'traced' in row else 'after the last step'}"
        )
    of_tensor = f" of {row['tensor']}" if row["tensor"] else ""
    cause = f" (cause: {row['cause']})" if row["cause"] else ""
    step = count(row["first_step"])
    where = f"in the {row['quantity']}{of_tensor}{cause}"
    if "since" in row and not row["since"]:
        return f"differs by the end of step {step}, seen {where}"
    if "since" in row:
        return f"differs between step {count(row['since'])} and {step}, seen {where}"
    when = f"from step {step}" if row["first_step"] else "before training"
    return f"differs {when}, first {where}"
