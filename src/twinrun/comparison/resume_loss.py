"""What resuming loses: runs that were stopped and resumed, compared with the one that was not.

For each kind of stop there is a run resumed by Lightning's own checkpoint and one by Twinrun's. Of
each it is said whether it ends in the same bits and gives the same logged values, test metrics and
predictions. If not, it is said what was lost, by the fingerprints of the first step after the
resumption: which batch it took, which RNG states had moved, and what differed first where
the batch was the right one. Does without torch.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from twinrun import artifacts, run_files
from twinrun.comparison.compare import compare
from twinrun.comparison.conditions import beside_resumptions, outputs_that_differ
from twinrun.comparison.difference_words import clause_of
from twinrun.comparison.happened import why_not_resumed
from twinrun.comparison.kept_steps import rows_of
from twinrun.comparison.pair_records import Comparison, read_comparisons
from twinrun.comparison.study_records import ResumeTable, StoppedRun, write_stops
from twinrun.comparison.tables import read_steps
from twinrun.config.rule_records import StopPair
from twinrun.formatting import count, plural

RNG_STATE = "RNG state "  # before the name of a generator
DETAILED = "detailed"  # whether single generators are known of the step
COLUMNS = ["stop", "resume", "answer", "resumed_at", "steps", "lost", "relative_l2"]


def diagnose(
    pairs: Sequence[StopPair],
    *,
    workload: str,
    variant: str,
    seed: int,
    folder: str | Path,
    table: str | Path,
    summary: str | Path,
) -> None:
    """Write the table of what resuming loses, and the same as JSON.

    Args:
        pairs: of runs, each by the path of its run.json.
        workload: of all runs.
        variant: of all runs, but for the stop.
        seed: of all runs.
        folder: for the comparisons, `{stop}-{resume}.json` with its tables beside it.
        table: path of the CSV.
        summary: path of the JSON.

    Raises:
        TwinrunError: if a file of a run is corrupt or missing.
    """
    # Also where no pair is compared: the rule promises the folder.
    Path(folder).mkdir(parents=True, exist_ok=True)
    rows = [_row(pair, Path(folder)) for pair in pairs]
    # ASSUME all pairs share the whole run: they differ in stop and type of checkpoint alone.
    whole = pairs[0]["whole"]
    manifest = None if run_files.failure_of(whole) else run_files.read_run(whole)
    artifacts.write_csv(table, pd.DataFrame(rows)[COLUMNS])
    found = ResumeTable(
        workload=workload,
        variant=variant,
        seed=seed,
        steps=manifest["steps"] if manifest else 0,
        stops=rows,
    )
    if manifest and manifest["resumed_at"]:
        found["whole_resumed_at"] = manifest["resumed_at"]
    write_stops(summary, found)


def _row(pair: StopPair, folder: Path) -> StoppedRun:
    stop, resume = pair["stop"], pair["resume"]
    row = StoppedRun(
        stop=stop,
        resume=resume,
        answer="not run",
        resumed_at=None,
        steps=None,
        lost="",
        outputs=[],
        relative_l2=None,
    )
    for which, run in (("whole", pair["whole"]), ("stopped", pair["stopped"])):
        failure = run_files.failure_of(run)
        if failure is not None:
            row["lost"], row["failed"] = f"the {which} training failed: {failure}", True
            return row
    manifest = run_files.read_run(pair["stopped"])
    reason = why_not_resumed(manifest)
    if reason is not None:
        row["lost"] = reason
        return row
    # Lightning may break off before the tracer knows that the training was resumed.
    at = manifest["resumed_at"][-1] if manifest["resumed_at"] else None
    row["resumed_at"], row["steps"] = at, manifest["steps"]
    if manifest["ended"] != "finished" or at is None:
        ended = manifest["ended"].split(". ")[0]
        row["answer"], row["lost"] = "differs", f"the resumed training was {ended}"
        return row
    evidence = folder / f"{stop}-{resume}.json"
    compare(
        [pair["whole"], pair["stopped"]],
        summary=evidence,
        tensors=evidence.with_suffix(".tensors.csv"),
        steps=evidence.with_suffix(".steps.csv"),
        # The stop is a setting of the variant, so the two runs are of two variants.
        across=True,
    )
    (found,) = read_comparisons(evidence)
    row["answer"], row["relative_l2"] = found["answer"], found["relative_l2"]
    row["lost"] = found["reason"] or "nothing was lost"
    if found["answer"] == "differs":
        row["lost"] = "; ".join(_lost(pair, at, found))
    elif found["answer"] == "equal" and (others := list(outputs_that_differ(found))):
        # What was trained is the same, and what the training gives is not: that was lost.
        row["answer"], row["outputs"] = "differs", others
        row["lost"] = "every parameter and buffer is the same"
    if row["answer"] == "not run":
        row["resumed_at"] = row["steps"] = None
        return row
    row["lost"] = "; ".join([row["lost"], *beside_resumptions(found)])
    if "made_anew" in found:
        row["made_anew"] = found["made_anew"]
    return row


def _lost(pair: StopPair, at: int, found: Comparison) -> list[str]:
    """Say what was lost, by the first step after the stop, if it was traced."""
    if "traced" in found:
        first = found["first_difference"]
        return ["something that no traced step shows" if first is None else clause_of(first)]
    whole, resumed = (_steps_of(run) for run in (pair["whole"], pair["stopped"]))
    return losses(whole, resumed, at=at, found=found)


def losses(whole: pd.DataFrame, resumed: pd.DataFrame, *, at: int, found: Comparison) -> list[str]:
    """Say what a resumed training has lost.

    Args:
        whole: steps.csv of the uninterrupted training, with a column for each generator.
        resumed: of the resumed one, with the steps from before the stop.
        at: the steps done when it was resumed.
        found: the comparison of the two, which differ.
    """
    named = []
    # Row `at` is the first step after the resumption: steps count from 1, rows from 0.
    if at < min(len(whole), len(resumed)):
        named = list(_first_step(whole, resumed, at))
    missing = len(whole) - len(resumed)
    if missing:
        named.append(f"{plural(abs(missing), 'step')} too {'few' if missing > 0 else 'many'}")
    first = found["first_difference"]
    if first is None:
        named.append("something that no step shows")
    # The first step after the resumption was the right one: what was lost shows later.
    elif not named:
        of_tensor = f" of {first['tensor']}" if first["tensor"] else ""
        if "values" in first or "since" in first:
            named.append(clause_of(first))
        else:
            named.append(f"from step {count(first['step'])} another {first['quantity']}{of_tensor}")
    if not found["parameters"]["elements_differing"]:
        named.append("the parameters are equal all the same")
    return named


def _first_step(whole: pd.DataFrame, resumed: pd.DataFrame, at: int) -> Iterator[str]:
    """Compare the first step after the resumption with the one that it should be."""
    # Fingerprints alone are read from it: a loss that is NaN would differ from itself. Column by
    # column, since a row of several types would round its numbers.
    equal = {name: whole[name].iloc[at] == resumed[name].iloc[at] for name in map(str, whole)}
    if not equal["batch"]:
        yield _order(whole, resumed, at)
    if not equal["before"]:
        yield "the parameters are not those of the stop"
    states = [name for name in map(str, whole) if name.startswith(RNG_STATE) and not equal[name]]
    if not equal.get("random", True) and not (
        whole[DETAILED].iloc[at] and resumed[DETAILED].iloc[at]
    ):
        yield "the RNG states are not those of the stop"
    elif states:
        *others, last = (name.removeprefix(RNG_STATE) for name in states)
        names = " and ".join(filter(None, [", ".join(others), last]))
        yield f"the RNG states of {names} are not those of the stop"
    # Other gradients lead to another state by themselves, whatever was lost of it.
    if equal["gradients"] and not (equal["optimizer"] and equal["settings"]):
        yield "the optimizer's state or settings are not those of the stop"


def _order(whole: pd.DataFrame, resumed: pd.DataFrame, at: int) -> str:
    """Say which mini-batches came after the resume, and which should have."""
    epoch = whole["epoch"][at]
    left = whole["batch"][at:][whole["epoch"][at:] == epoch]
    seen = resumed["batch"][at : at + len(left)]
    # Without shuffling each epoch has the same batches: one of this epoch speaks for itself. Else
    # the first step counts, since full-batch training has the same batch in every step.
    steps = [step for step, batch in enumerate(whole["batch"]) if batch == seen.iloc[0]]
    of_epoch = [step for step in steps if whole["epoch"][step] == epoch]
    repeated = next(iter([*of_epoch, *steps]), None)
    if repeated is None:
        return f"the mini-batches of epoch {epoch} are others"
    if left.isin(seen).all() and repeated >= at:
        return f"the mini-batches to come in epoch {epoch} are in another order"
    left_out = f"{count(int((~left.isin(seen)).sum()))} of {count(len(left))} mini-batches to come"
    if whole["epoch"][repeated] != epoch:
        return f"the order of epoch {whole['epoch'][repeated]} is replayed in epoch {epoch}"
    if repeated < at:
        return f"epoch {epoch} begins again, leaving out {left_out}"
    return f"{left_out} in epoch {epoch} are left out"


def _steps_of(run: str) -> pd.DataFrame:
    """Read the steps of a run, with a column for each generator."""
    arrays = artifacts.read_arrays(run_files.verified(run, "fingerprints.npz"))
    steps = read_steps(run_files.verified(run, "steps.csv"), run_files.read_run(run)["steps"])
    rows = rows_of(arrays, "detail_steps", steps["step"].to_numpy())
    # A row more, of nothing, for the steps of which single generators are not kept: their -1.
    states = np.pad(arrays["random"], ((0, 1), (0, 0)))[rows].T
    named = zip(arrays["rng_state_names"], states, strict=True)
    found = steps.assign(**{f"{RNG_STATE}{name}": state for name, state in named})
    return found.assign(**{DETAILED: rows >= 0})
