"""Where two runs of a pair diverge: the operation from which the difference flows (see `origin`).

Only for a pair that differs, and only where the first difference arises inside a step, is anything
computed: one fresh process trains up to the step in which the pair diverged and saves what that
step starts with; two more do the step from there, with every operation fingerprinted (see
`replay`). A race need not fire again, nor the loss be another one where what it is made from is:
the step is repeated, and the answer says how often it was. Of any other difference the class
of its cause is all there is to say. Does without torch: a pair that is equal costs a look at its
comparison.
"""

import tempfile
from pathlib import Path

import pandas as pd

from twinrun import artifacts
from twinrun.comparison.advice import ADVICE, SETTINGS_ADVICE
from twinrun.comparison.conditions import is_behind_resumption, resumptions
from twinrun.comparison.location_words import (
    AT_RESUMPTION,
    beginning,
    sentence_of,
    sentence_without,
    strayed,
    suspicion,
)
from twinrun.comparison.pair_records import (
    ComparedRow,
    Comparison,
    FirstDifference,
    Location,
    Operation,
    read_comparisons,
    write_locations,
)
from twinrun.comparison.replay_results import Replayed, is_same, of_role, suspect_of
from twinrun.config.definitions import Replay, Training, Variant
from twinrun.errors import sentence_of as sentence_of_error
from twinrun.formatting import plural
from twinrun.process.launching import environment_of, launch
from twinrun.process.machine_faults import is_machine_fault
from twinrun.trace.op_rows import AFTER

REPEATS = 20  # of the step by each of two processes
# Quantities that an operation of the step decides.
INSIDE_A_STEP = (
    "RNG states after the step",
    "buffers",
    "loss",
    "gradients",
    "optimizer state",
    "parameters",
)
# fmt: off
OPERATION_COLUMNS = [
    "seed", "position", "phase", "module", "op", "call", "parameter", "source", "inputs_equal",
    "outputs_equal", "reaches", "elements", "elements_differing", "max_abs", "max_ulp",
    "relative_l2",
]
# fmt: on


def locate(*, comparisons: str, run: Replay, output: str, operations: str) -> None:
    """Find where the runs of each seed diverge and write it down.

    Args:
        comparisons: JSON of the comparisons, a seed each; their runs lie where it says.
        run: what their runs were made of.
        output: path of the JSON, a list of `pair_records.Location`.
        operations: path of the table of the steps' operations, from the first repeat that diverged.
    """
    locations, tables = [], []
    for compared in read_comparisons(comparisons):
        # One rule locates for all seeds of a variant, and its runs differ in nothing else.
        training = run.of_seed(compared["seed"])
        found, rows = _located(compared, training)
        remarks = [*_resumed(compared, found), *_compiled(compared, found)]
        found["sentence"] = " ".join([found["sentence"], *remarks])
        print(f"seed {compared['seed']}: {found['sentence']}", flush=True)
        locations.append(found)
        tables += [
            {"seed": compared["seed"], "position": position, **row}
            for position, row in enumerate(rows, start=1)
        ]
    # `reindex` adds columns that no row has: without a diverging repeat there is no row, and a row
    # that was not measured has no distances.
    artifacts.write_csv(operations, pd.DataFrame(tables).reindex(columns=OPERATION_COLUMNS))
    write_locations(output, locations)


def _resumed(compared: Comparison, found: Location) -> list[str]:
    """Say which runs were resumed, and if the difference may have been made there."""
    said = [f"{clause[0].upper()}{clause[1:]}." for clause in resumptions(compared)]
    # An operation that was seen to differ in a replay does so without any resumption.
    is_open = found["answer"] == "not located" and is_behind_resumption(compared)
    return [*said, AT_RESUMPTION] if is_open else said


def _compiled(compared: Comparison, found: Location) -> list[str]:
    """Say that compiled code was not compiled in the replay, if any was in the runs."""
    if compared["compiler_cache"] is None or not found["repeats"]:
        return []
    return [
        "What the module compiles by itself was not compiled in the repeats: a difference that "
        "compiled code makes does not show in them."
    ]


def _located(compared: Comparison, run: Training) -> tuple[Location, list[ComparedRow]]:
    """Return where the runs of a comparison diverge, and the operations of that step."""
    found = Location(
        workload=compared["workload"],
        variant=compared["variant"],
        seed=compared["seed"],
        answer="not located",
        cause=None,
        step=None,
        op=None,
        likely=None,
        others=[],
        repeats=0,
        differed=0,
        fired=0,
        suspect=None,
        sentence="",
    )
    first = compared["first_difference"]
    if compared["answer"] == "equal":
        found["answer"], found["sentence"] = "equal", "No two runs diverge."
        return found, []
    if compared["answer"] != "differs":
        found["answer"], found["sentence"] = "not compared", f"{compared['reason']}."
        return found, []
    if first is None:
        found["sentence"] = (
            f"The runs diverge at no step that was traced ({compared['traced']})."
            if "traced" in compared
            else "The runs diverge after the last step, which no trace covers."
        )
        return found, []
    found["cause"], found["step"] = first["cause"], first["step"]
    reason = _why_not_replayed(first, run.variant)
    if reason is not None:
        found["sentence"] = f"{beginning(first)}. {reason}."
        return found, []
    try:
        replayed = _replayed(run, first, Path(compared["runs"][0], "run.json"))
    # A replay is less than a training: what cannot be replayed must not cost the study its answers.
    except Exception as error:
        if is_machine_fault(error):  # another start may do better
            raise
        why = sentence_of_error(error).rstrip(".")
        found["sentence"] = f"{beginning(first)}. Not located, because {why}."
        return found, []
    departures = [d["sentence"] for d in compared["departures"] if d["setting"] == "deterministic"]
    _judge(found, first, replayed, run, next(iter(departures), None))
    return found, replayed["operations"]


def _why_not_replayed(first: FirstDifference, variant: Variant) -> str | None:
    """Say in a clause why no operation can be named; None if one can."""
    if first["cause"] in ("not traced", "not held"):
        return f"No operation can be named: {ADVICE[first['cause']]}"
    if first["quantity"] == "optimizer settings":
        return f"No operation of a step decides it: {SETTINGS_ADVICE}"
    if first["quantity"] not in INSIDE_A_STEP:
        return f"No operation of a step decides it: {ADVICE[first['cause']]}"
    if variant.devices > 1:
        return f"Steps of several workers are not replayed: {ADVICE[first['cause']]}"
    if variant.compile != "none" or variant.cuda_graph:
        return "Compiled and captured steps show no operations: run the variant without"
    if variant.accumulate > 1:
        return f"Steps of several micro-batches are not replayed: {ADVICE[first['cause']]}"
    return None


def _replayed(run: Training, first: FirstDifference, recorded: Path) -> Replayed:
    """Do the step again in fresh processes and return what they found."""
    variant = run.variant
    # That of the run itself: threads and environment variables decide bits.
    environment = environment_of(
        seed=run.seed,
        deterministic=variant.deterministic,
        threads=variant.threads,
        further=variant.environment,
    )
    # The start is a pickle, because a batch may be any object: it never leaves this folder.
    with tempfile.TemporaryDirectory(prefix="twinrun-") as folder:
        start, found = f"{folder}/start.pt", f"{folder}/found.json"
        saving = {"run": run, "step": first["step"], "start": start}
        saving |= {"recorded": str(recorded.absolute())}
        launch("twinrun.comparison.replay:save_start", saving, environment)
        # The record comes from a process of its own. What a process decides once, as the order of
        # a set of strings, is the same in all repeats of one process.
        replaying = {"run": run, "start": start, "record": folder, "repeats": REPEATS}
        launch("twinrun.comparison.replay:replay", replaying, environment)
        again = replaying | {
            "found": found,
            "quantity": first["quantity"],
            "tensor": first["tensor"],
        }
        launch("twinrun.comparison.replay:replay", again, environment)
        return artifacts.read_record(found, Replayed)


def _judge(
    found: Location,
    first: FirstDifference,
    replayed: Replayed,
    run: Training,
    departed: str | None,
) -> None:
    """Put into a location what the replays found."""
    found["repeats"], found["differed"] = replayed["repeats"], replayed["differed"]
    fired = of_role(replayed, "origin")
    if fired:
        op, same = _told_of(fired)
        found["answer"], found["op"] = "located", op
        found["others"] = [other for other in replayed["origins"] if not is_same(other, op)]
        # The operation knows better than the fingerprints of whole steps.
        phase = "optimizer" if op["phase"] == AFTER else op["phase"]
        found["cause"] = "RNG state" if op["draws"] else phase
    else:
        fired = of_role(replayed, "beyond the pair") or of_role(replayed, "lost")
        op, same = _told_of(fired) if fired else (None, 0)
        found["likely"] = op
    found["fired"] = same
    found["suspect"] = suspect_of(replayed, op)
    suspected = suspicion(found, run, departed)
    said = ""
    if op is not None:
        said = sentence_of(
            op, step=first["step"], fired=same, repeats=found["repeats"], run=run, departed=departed
        )
        if len(fired) > same:
            said += f" In {plural(len(fired) - same, 'other')} another operation was the first."
        said += suspected
    if found["op"] is None:
        said = sentence_without(first, replayed, run, likely=said, suspected=suspected)
    found["sentence"] = " ".join([said, *strayed(replayed)])


def _told_of(ops: list[Operation]) -> tuple[Operation, int]:
    """Return the operation that is told of those of several repeats, and of how many it is."""
    # The first repeat that diverged: in a later one what a process keeps from repeat to repeat may
    # be another, because of it. Its operations are the ones kept.
    op = ops[0].copy()
    same = [other for other in ops if is_same(other, op)]
    if len({other["parameter"] for other in same}) > 1:
        op["parameter"] = ""
    return op, len(same)
