"""The sentences of a location: which operation it was, how far, how often, and what to do.

Does without torch.
"""

import re

from twinrun.comparison.advice import UNWRITTEN_ADVICE, remedy_of
from twinrun.comparison.difference_words import clause_of
from twinrun.comparison.pair_records import FirstDifference, Operation, Replayed
from twinrun.comparison.ulps import MOST_ULP
from twinrun.config.definitions import Training
from twinrun.formatting import count, plural
from twinrun.trace.op_rows import Phase

PHASES: dict[Phase, str] = {
    "forward": "forward pass",
    "backward": "backward pass",
    "optimizer": "optimizer step",
    "after update": "code behind the optimizer's step",
}
OUTSIDE = "a clock, a set, NumPy, another library"
# Operations are traced in the thread that trains, and in those of the backward pass.
UNTRACED = f"{OUTSIDE}, another thread"

AT_RESUMPTION = "What a checkpoint does not hold may be the cause of what differs behind it."


def sentence_of(
    op: Operation, *, step: int, fired: int, repeats: int, run: Training, departed: str | None
) -> str:
    """Say which operation made the runs diverge, how far, how often, and what to do.

    Args:
        op: the operation.
        step: that was done again.
        fired: in how many repeats.
        repeats: how many there were.
        run: of the training.
        departed: how the runs departed from `deterministic`; None if they did not.
    """
    name = f"{_name(op, run)},"
    how_often = f"in {fired} of {repeats} repeats of step {count(step)}"
    if op["differs_in"] == "operations":
        return (
            f"The step did other operations {how_often}, first {name} where a branch of the code "
            f"depends on something that the seed does not decide."
        )
    if op["differs_in"] == "tensors":
        return (
            f"{name} was given other tensors {how_often}, of those that are the same in both: "
            f"which of them, or in which order, depends on something that the seed does not decide "
            f"(the order of a set, a branch of the code)."
        )
    if "numbers" in op:
        values = f" ({op['numbers'][0]} and {op['numbers'][1]})" if _is_short(op) else ""
        return (
            f"{name} was given another value by Python{values} {how_often}: a value that differs "
            f"enters here, from outside of torch ({OUTSIDE})."
        )
    if op["differs_in"] == "inputs":
        return (
            f"{name} was given another input {how_often}, which no operation before it made: "
            f"another one of the tensors that the step starts with (a weight, a buffer, a part of "
            f"the batch), or one from outside of what is traced ({UNTRACED})."
        )
    if op["differs_in"] == "unwritten":
        return f"{name} read memory that nobody had written {how_often}: {UNWRITTEN_ADVICE}."
    if op["draws"]:
        return (
            f"{name} drew other random numbers {how_often}: seed its generator from the run's seed."
        )
    remedy = remedy_of(op["op"], deterministic=run.variant.deterministic, departed=departed)
    return f"{name} gave other values from equal inputs {how_often}{_size(op)}; {remedy}."


def sentence_without(first: FirstDifference, replayed: Replayed, run: Training) -> str:
    """Say what was seen where no operation can have made the runs diverge."""
    step, repeats, differed = replayed["step"], replayed["repeats"], replayed["differed"]
    quantity = replayed["quantity"]
    if not differed:
        same = f"the same {quantity}" if any(replayed["elsewhere"]) else "the same"
        unseen = ""
        if "since" in first:
            unseen = f", a step that was not traced, from {count(first['since'])} on"
        found = (
            f"Step {count(step)}, done {repeats} times from its start, gave {same} every time: the "
            f"cause lies outside of the replayed step (a schedule, a callback, a value that the "
            f"module keeps in an attribute{unseen}), or it is a race that did not happen again."
        )
    elif replayed["beyond_the_pair"]:
        found = (
            f"It differed again in {differed} of {repeats} repeats of step {count(step)}, in "
            f"{replayed['beyond_the_pair']} by operations that also changed what was equal in the "
            f"pair: the repeats differ by something that is not put back for each of them (a "
            f"counter outside of the module, another library)."
        )
    else:
        found = (
            f"It differed again in {differed} of {repeats} repeats of step {count(step)}, but no "
            f"operation that reaches it by data flow took or gave other values: it was changed "
            f"outside of the operations that are traced ({UNTRACED})."
        )
    elsewhere = [op for op in replayed["elsewhere"] if op is not None]
    if not elsewhere:
        return f"{beginning(first)}. {found}"
    often = f"in {len(elsewhere)} of {repeats} repeats"
    return (
        f"{beginning(first)}. {found} What differed first elsewhere, {often}, is "
        f"{_name(elsewhere[0], run)}: by data flow it does not reach the {quantity}."
    )


def beginning(first: FirstDifference) -> str:
    """Say what differed first between the runs, and when."""
    if "values" in first or "since" in first:
        return f"First to differ, {clause_of(first)}"
    tensor = f" ({first['tensor']})" if first["tensor"] else ""
    if not first["step"]:
        return f"First to differ, before the first step: {first['quantity']}{tensor}"
    return f"First to differ, at step {count(first['step'])}: {first['quantity']}{tensor}"


def _name(op: Operation, run: Training) -> str:
    # The LightningModule's own path is empty: its class speaks for it.
    owner = op["module"] or run.workload.module.partition(":")[2]
    parameter = f", parameter {op['parameter']}" if op["parameter"] else ""
    source = f", {op['source']}" if op["source"] else ""
    return f"{op['op']} in the {PHASES[op['phase']]} of {owner}{parameter}{source}"


def _is_short(op: Operation) -> bool:
    if "numbers" not in op:
        return False
    # Of a tensor of many elements its fingerprint stands there.
    are_values = all(re.fullmatch("[0-9a-f]{16}", number) is None for number in op["numbers"])
    is_pair = len(op["numbers"]) == 2 and are_values
    return is_pair and all(len(number) <= 40 for number in op["numbers"])


def _size(op: Operation) -> str:
    # Of a large output only a sample is measured, which may be equal where the whole is not.
    if "elements" not in op or not op["elements_differing"]:
        return ""
    how_many = f", {count(op['elements_differing'])} of {plural(op['elements'], 'element')}"
    ulp = op["max_ulp"]
    return f"{how_many} by up to {count(ulp)} ULP" if ulp < MOST_ULP else how_many
