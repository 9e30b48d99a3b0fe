"""The sentences of a location: which operation it was, how far, how often, and what to do.

Does without torch.
"""

import re

from twinrun.comparison.advice import UNWRITTEN_ADVICE, remedy_of
from twinrun.comparison.difference_words import clause_of
from twinrun.comparison.pair_records import FirstDifference, Location, Operation
from twinrun.comparison.replay_results import Replayed, of_role
from twinrun.comparison.ulps import MOST_ULP
from twinrun.config.definitions import Training
from twinrun.formatting import count, plural
from twinrun.trace.op_rows import Phase
from twinrun.wording import some

PHASES: dict[Phase, str] = {
    "forward": "forward pass",
    "backward": "backward pass",
    "optimizer": "optimizer step",
    "after update": "code behind the optimizer's step",
}
# Operations are traced in the thread that trains, and in those of the backward pass.
UNTRACED = "a clock, a set, NumPy, another library, another thread"
# A number that Python has read from a tensor is followed only as long as it stays as it is.
BY_PYTHON = f"{UNTRACED}, what Python has computed from a tensor's values"

RESEED = (
    "seed a generator of your own from the run's seed; torch's own, with which the step begins "
    "alike, was seeded anew or drawn from in between (torch.manual_seed, another thread)"
)
# How Python may have come by the values of an operation.
READ = "of which Python had read a value"
UNREAD = "what Python, NumPy or another library computes from a tensor's values is not traced"
# By what tensors or draws come in another order.
ORDERS = "the order of a set, or in which threads end, a branch of the code"
# Where what a step does not decide may lie; a step ends before `on_train_batch_end`.
OUTSIDE = "a schedule, a callback, a hook behind it, a value that the module keeps in an attribute"
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
    if op["draws"]:
        return _of_draws(op, name, how_often)
    if op["differs_in"] == "operations":
        return (
            f"The step did other operations {how_often}, first {name} where a branch of the code "
            f"depends on something that the seed does not decide."
        )
    if op["differs_in"] == "tensors":
        return (
            f"{name} was given other tensors {how_often}, of those that are the same in both: "
            f"which of them, or in which order, depends on something that the seed does not decide "
            f"({ORDERS})."
        )
    if "numbers" in op:
        values = f" ({op['numbers'][0]} and {op['numbers'][1]})" if _is_short(op) else ""
        return (
            f"{name} was given another value by Python{values} {how_often}: a value that differs "
            f"enters here, from outside of torch ({BY_PYTHON})."
        )
    if op["differs_in"] == "inputs":
        return (
            f"{name} was given another input {how_often}, which no operation before it was seen to "
            f"make: another one of the tensors that the step starts with (a weight, a buffer, a "
            f"part of the batch), or one from outside of what is traced ({UNTRACED}, memory that "
            f"one of these shares)."
        )
    if op["differs_in"] == "unwritten":
        return (
            f"{name} read memory that no operation had written {how_often}: {UNWRITTEN_ADVICE}; or "
            f"else what filled it (NumPy, another library, another thread) gave other values."
        )
    remedy = remedy_of(op["op"], deterministic=run.variant.deterministic, departed=departed)
    return f"{name} gave other values from equal inputs {how_often}{_size(op)}; {remedy}."


def _of_draws(op: Operation, name: str, how_often: str) -> str:
    if op["differs_in"] == "tensors":
        return (
            f"{name} drew at another place {how_often}: the step does the same draws in another "
            f"order, which depends on something that the seed does not decide ({ORDERS})."
        )
    return (
        f"{name} drew other random numbers {how_often}, from a state of its generator that no "
        f"operation before it was seen to make: {RESEED}."
    )


def suspicion(found: Location, run: Training, departed: str | None) -> str:
    """Say of which operation Python may have what differs, and what to do; nothing if of none."""
    suspect = found["suspect"]
    if suspect is None or found["step"] is None:
        return ""
    says = sentence_of(
        suspect["op"],
        step=found["step"],
        fired=suspect["fired"],
        repeats=found["repeats"],
        run=run,
        departed=departed,
    )
    return (
        f" What decides it may be computed from what an operation before it gave, which differed "
        f"in each of these, and {READ if suspect['is_read'] else UNREAD}: {says}"
    )


def sentence_without(
    first: FirstDifference, replayed: Replayed, run: Training, *, likely: str, suspected: str
) -> str:
    """Say what was seen where no operation can be said to have made the runs diverge.

    Args:
        first: what differed first in the pair.
        replayed: what the repeats showed.
        run: of the training.
        likely: what is said of an operation that is likely to have done it; empty of none.
        suspected: what is said of one from which Python may have what differs; empty of none.
    """
    quantity, step, repeats = _quantity(first), count(first["step"]), replayed["repeats"]
    said = f"{beginning(first)}. "
    if of_role(replayed, "beyond the pair"):
        return (
            f"{said}Likely, but not shown: {likely} It made the {quantity} differ here, and also "
            f"what was equal in the pair: equal by rounding there, or the repeats differ by "
            f"something that is not put back for each of them (a counter outside of the module, "
            f"another library)."
        )
    if replayed["differed"]:
        said += (
            f"It differed again in {replayed['differed']} of {repeats} repeats of step {step}, but "
            f"no operation that leads to it by data flow made it differ: it was changed outside of "
            f"the operations that are traced ({UNTRACED}), or is memory that none has written."
        )
    else:
        said += (
            f"Step {step}, done {repeats} times from its start, gave the same {quantity} every "
            f"time{_because(first)}."
        )
    if not likely:
        return f"{said}{suspected or _elsewhere(replayed, quantity, run)}"
    return (
        f"{said} Or it is this, which was not seen to do it: {likely} By data flow it leads to the "
        f"{quantity}; what differs was lost on the way (rounded away, not used, or overwritten)."
    )


def _because(first: FirstDifference) -> str:
    unseen = ""
    if "since" in first:
        unseen = f", a step that was not traced, from {count(first['since'])} on"
    return (
        f": the cause lies outside of the replayed step ({OUTSIDE}{unseen}), or it did not happen "
        f"again (a race, the order of a set, which is another one in each process)"
    )


def _elsewhere(replayed: Replayed, quantity: str, run: Training) -> str:
    """Say what else differed; nothing if nothing did."""
    elsewhere = of_role(replayed, "elsewhere")
    if not elsewhere:
        return ""
    said = (
        f" What differed first elsewhere, in {len(elsewhere)} of {replayed['repeats']} repeats, is "
        f"{_name(elsewhere[0], run)}"
    )
    if elsewhere[0]["position"] is None:
        return f"{said}, which one process alone did."
    return (
        f"{said}: no data flow that is traced leads from it to the {quantity}; what Python, NumPy "
        f"or another library computes from a tensor's values is not traced."
    )


def strayed(replayed: Replayed) -> list[str]:
    """Say where a repeat did not begin as the run's step did, if so."""
    step, earlier, said = count(replayed["step"]), replayed["earlier"], []
    if earlier is not None:
        said.append(
            f"The training that led to step {step} once more had diverged from the first run at "
            f"step {count(earlier['step'])} ({earlier['quantity']}): the step was repeated from "
            f"what that training had come to."
        )
    if names := replayed["not_put_back"]:
        said.append(
            f"What the training moves and neither the module nor an optimizer of Lightning's "
            f"holds ({some(names)}) was not put back for the repeats: it began them as a training "
            f"begins, not as step {step} did."
        )
    return said


def beginning(first: FirstDifference) -> str:
    """Say what differed first between the runs, and when."""
    if "values" in first or "since" in first:
        return f"First to differ, {clause_of(first)}"
    if not first["step"]:
        return f"First to differ, before the first step: {_quantity(first)}"
    return f"First to differ, at step {count(first['step'])}: {_quantity(first)}"


def _quantity(first: FirstDifference) -> str:
    return f"{first['quantity']} ({first['tensor']})" if first["tensor"] else first["quantity"]


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
