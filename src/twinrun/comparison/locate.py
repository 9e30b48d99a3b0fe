"""Where two runs of a pair part: the first operation that gives other values from equal inputs.

Only for a pair that differs, and only where the first difference arises inside a step, is anything
computed: one fresh process trains up to the step in which the pair parted and saves what that step
starts with; two more do the step from there, with every operation fingerprinted (see `replay`).
A race need not fire again: the step is repeated, and the answer says how often it did. Of any other
difference the class of its cause is all there is to say. Does without torch: a pair that is equal
costs a look at its comparison.
"""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from twinrun import artifacts
from twinrun.comparison.causes import ADVICE, remedy_of
from twinrun.formatting import count, measure, plural
from twinrun.process.launching import environment_of, launch

REPEATS = 20  # of the step by the second process
# Quantities that an operation of the step decides.
INSIDE_A_STEP = (
    "random streams after the step",
    "buffers",
    "loss",
    "gradients",
    "optimizer state",
    "parameters",
)
PHASES = {"forward": "forward pass", "backward": "backward pass", "optimizer": "optimizer step"}
# fmt: off
OPERATION_COLUMNS = [
    "seed", "place", "phase", "module", "op", "call", "parameter", "source", "inputs_equal",
    "outputs_equal", "elements", "elements_differing", "max_abs", "max_ulp", "relative_l2",
]
# fmt: on


def locate(*, comparisons: str, run: Mapping[str, Any], output: str, operations: str) -> None:
    """Find where the runs of each seed part and write it down.

    Args:
        comparisons: JSON of the comparisons, a seed each; their runs lie where it says.
        run: `workload`, `variant`, `dataset` and `search_path` of their runs.
        output: path of the JSON, a list with, for each seed, `answer` (`equal`, `located`, `not
            located`), `cause` (its class), `step`, `op` (the row of the operation, `differs_in`
            included), `repeats` of the step and in how many the processes parted (`fired`), and one
            `sentence` for a reader.
        operations: path of the table of the steps' operations, from the first repeat that
            diverged.
    """
    locations, done = [], []
    for compared in artifacts.read_json(comparisons):
        found, rows = _located(compared, {**run, "seed": compared["seed"]})
        print(f"seed {compared['seed']}: {found['sentence']}", flush=True)
        locations.append(found)
        done += [
            {"seed": compared["seed"], "place": place, **row}
            for place, row in enumerate(rows, start=1)
        ]
    artifacts.write_csv(operations, pd.DataFrame(done).reindex(columns=OPERATION_COLUMNS))
    artifacts.write_json(output, locations)


def _located(
    compared: Mapping[str, Any], run: Mapping[str, Any]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Give where the runs of a comparison part, and the operations of that step."""
    found: dict[str, Any] = {key: compared[key] for key in ("workload", "variant", "seed")}
    found |= {"answer": "not located", "cause": None, "step": None, "op": None}
    found |= {"repeats": 0, "fired": 0}
    rows: list[dict[str, Any]] = []
    first = compared["first_difference"]
    if compared["answer"] != "differs":
        found |= {"answer": "equal", "sentence": "No two runs part."}
    elif first is None:
        found |= {"sentence": "The runs part after the last step, which no trace covers."}
    else:
        found |= {"cause": first["cause"], "step": first["step"]}
        reason = _why_not_replayed(first, run["variant"])
        if reason is not None:
            found |= {"sentence": f"{_beginning(first)}. {reason}."}
        else:
            replayed = _replayed(run, first["step"], Path(compared["runs"][0], "steps.csv"))
            rows = replayed["operations"]
            found |= _judged(replayed, run)
            if found["op"] is None:
                found["sentence"] = f"{_beginning(first)}. {found['sentence']}"
    return found, rows


def _why_not_replayed(first: Mapping[str, Any], variant: Mapping[str, Any]) -> str | None:
    """Say in a clause why no operation can be named; None if one can."""
    if first["quantity"] not in INSIDE_A_STEP:
        return f"No operation of a step decides it: {ADVICE[first['cause']]}"
    if variant["devices"] > 1:
        return f"Steps of several workers are not replayed: {ADVICE[first['cause']]}"
    if variant["compile"] != "none" or variant["cuda_graph"]:
        return "Compiled and captured steps show no operations: run the variant without"
    if variant["accumulate"] > 1:
        return f"Steps of several parts are not replayed: {ADVICE[first['cause']]}"
    return None


def _replayed(run: Mapping[str, Any], step: int, recorded: Path) -> dict[str, Any]:
    """Do the step again in fresh processes and give what they found."""
    variant = run["variant"]
    environment = environment_of(
        seed=run["seed"],
        deterministic=variant["deterministic"],
        threads=variant["threads"],
        further=variant["environment"],
    )
    with tempfile.TemporaryDirectory(prefix="twinrun-") as folder:
        start, found = f"{folder}/start.pt", f"{folder}/found.json"
        saving = {"run": run, "step": step, "recorded": str(recorded), "start": start}
        launch("twinrun.comparison.replay:save_start", saving, environment)
        replaying = {"run": run, "start": start, "record": folder}
        launch("twinrun.comparison.replay:replay", replaying | {"repeats": 1}, environment)
        again = replaying | {"repeats": REPEATS, "found": found}
        launch("twinrun.comparison.replay:replay", again, environment)
        return artifacts.read_json(found)


def _judged(replayed: Mapping[str, Any], run: Mapping[str, Any]) -> dict[str, Any]:
    """Turn what the replays found into an answer."""
    fired = [first for first in replayed["firsts"] if first is not None]
    step, repeats = replayed["step"], replayed["repeats"]
    if not fired:
        again = f"Step {count(step)}, done {repeats} times from its start, gave the same every time"
        sentence = f"{again}: what parted the runs did not happen again."
        return {"repeats": repeats, "sentence": sentence}
    op = fired[0]
    cause = "random stream" if op["draws"] else op["phase"]
    return {
        "answer": "located",
        "cause": cause,
        "step": step,
        "op": op,
        "repeats": repeats,
        "fired": len(fired),
        "sentence": sentence_of(op, step=step, fired=len(fired), repeats=repeats, run=run),
    }


def sentence_of(
    op: Mapping[str, Any], *, step: int, fired: int, repeats: int, run: Mapping[str, Any]
) -> str:
    """Say which operation parted the runs, how far, how often, and what to do."""
    owner = op["module"] or run["workload"]["module"].partition(":")[2]
    parameter = f", parameter {op['parameter']}" if op["parameter"] else ""
    source = f", {op['source']}" if op["source"] else ""
    name = f"{op['op']} in the {PHASES[op['phase']]} of {owner}{parameter}{source},"
    how_often = f"in {fired} of {repeats} repeats of step {count(step)}"
    if op["differs_in"] == "operations":
        return (
            f"The step did other operations {how_often}, first {name} where a branch of the code "
            f"depends on something that the seed does not decide."
        )
    if op["differs_in"] == "inputs":
        return (
            f"{name} was given another input {how_often}, which no operation before it made: it "
            f"comes from outside of torch (a clock, a set, NumPy, another library)."
        )
    if op["draws"]:
        return (
            f"{name} drew other random numbers {how_often}: seed its generator from the run's seed."
        )
    remedy = remedy_of(op["op"], deterministic=run["variant"]["deterministic"])
    return f"{name} gave other values from equal inputs {how_often}{_size(op)}; {remedy}."


def _size(op: Mapping[str, Any]) -> str:
    if not op.get("elements_differing"):
        return ""
    ulp = op["max_ulp"]
    return (
        f", {count(op['elements_differing'])} of {plural(op['elements'], 'element')} by up to "
        f"{count(ulp) if ulp < 1_000_000 else measure(ulp)} ULP"
    )


def _beginning(first: Mapping[str, Any]) -> str:
    tensor = f" ({first['tensor']})" if first["tensor"] else ""
    if not first["step"]:
        return f"First to differ, before the first step: {first['quantity']}{tensor}"
    return f"First to differ, at step {count(first['step'])}: {first['quantity']}{tensor}"
