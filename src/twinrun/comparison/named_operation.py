"""What is said of an operation with which two processes begin to differ in a step."""

import itertools
from collections.abc import Container, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import cast

from twinrun.comparison.origin import DifferenceOrigin, Slice, Step
from twinrun.comparison.pair_records import ComparedRow, Operation
from twinrun.comparison.replay_files import key_of
from twinrun.trace.op_rows import AFTER, OpRow


@dataclass(frozen=True, kw_only=True)
class Repeat:
    """The operations of a repeat beside those of the record."""

    rows: Sequence[ComparedRow]
    """As the table has them, in their order."""
    steps: Sequence[Step]
    """The same ones, as they are gone back through."""
    recorded: Mapping[str, OpRow]
    """Those of the record, by their keys."""
    updated: int | None
    """How many had been done behind the last update; None if there was none."""


def operation_of(origin: DifferenceOrigin, repeat: Repeat) -> Operation:
    """Return what is said of an origin."""
    elsewhere = _done_elsewhere(origin, repeat)
    position = None if elsewhere else origin.index + 1
    row, step = elsewhere or repeat.rows[origin.index], repeat.steps[origin.index]
    # Of a generator that nobody can follow it is all that is known.
    unseen = row["draws"] and not any(use.is_generator for use in step.flow.reads)
    differs_in = "operations" if elsewhere else origin.differs_in
    if differs_in == "inputs" and _is_chosen(origin, repeat):
        differs_in = "tensors"
    if origin.draws and elsewhere is None and _draws_in_another_order(repeat):
        differs_in = "tensors"
    found = _named(row) | {"position": position, "differs_in": differs_in}
    if position is not None and origin.index in behind_updates(repeat):
        found["phase"] = AFTER
    is_drawn = origin.draws or (unseen and differs_in == "outputs")
    found["draws"] = is_drawn and elsewhere is None
    if origin.is_number:
        found["numbers"] = list(step.numbers[0]) if step.numbers else []
    return cast(Operation, found)


def missing_operation(repeat: Repeat, wanted: Set[str]) -> Operation | None:
    """Return the last operation of the record alone that wrote what is wanted, such as a sum."""
    for row in reversed(_missing(repeat)):
        if wanted & set(row["writes"]):
            return _of_the_record(row)
    return None


def first_differing(repeat: Repeat, *, without: Container[int]) -> Operation | None:
    """Return the first operation that differs at all, but for some; None if none does."""
    for index, (row, step) in enumerate(zip(repeat.rows, repeat.steps, strict=True)):
        is_equal = row["inputs_equal"] and row["outputs_equal"]
        if index not in without and not (step.is_known and is_equal):
            differs_in = "operations" if not step.is_known else "outputs"
            if step.is_known and not row["inputs_equal"]:
                differs_in = "inputs"
            return operation_of(DifferenceOrigin(index=index, differs_in=differs_in), repeat)
    missing = _missing(repeat)
    return _of_the_record(missing[0]) if missing else None


def differs_by_itself(op: Operation) -> bool:
    """Say whether an operation needs nothing from Python to differ."""
    return op["differs_in"] == "unwritten" or (op["differs_in"] == "outputs" and not op["draws"])


def done_before(op: Operation, repeat: Repeat) -> int:
    """Return how many operations a repeat had done before one, or before the record alone did."""
    if op["position"] is not None:
        return op["position"] - 1
    both = zip(repeat.rows, repeat.recorded, strict=False)
    alike = itertools.takewhile(lambda pair: key_of(pair[0]) == pair[1], both)
    return sum(1 for _ in alike)


def suspect_of(whole: Slice, repeat: Repeat, before: int) -> tuple[Operation, bool] | None:
    """Return the first operation of whose values Python may have made what differs behind it.

    What Python, NumPy or another library makes of a tensor's values nobody follows.

    Args:
        whole: the operations, to go back through them.
        repeat: the same ones.
        before: how many of them were done before Python gave what differs.

    Returns:
        The operation, and whether Python was seen to read a value that came of it; None if no
        operation differed by itself.
    """
    read = whole.read_by_python(before)
    differing = whole.differing({index: {None} for index in range(before)})
    for origin in sorted(whole.origins(differing), key=lambda origin: origin.index not in read):
        if origin.differs_in in ("outputs", "unwritten"):
            return operation_of(origin, repeat), origin.index in read
    return None


def behind_updates(repeat: Repeat) -> range:
    """Return which operations come behind the last update, unless a backward pass follows.

    Where a module optimizes manually, only the end of its step tells.
    """
    rows = repeat.rows
    begin = len(rows) if repeat.updated is None else repeat.updated
    is_forward = all(row["phase"] == "forward" for row in rows[begin:])
    return range(begin, len(rows)) if is_forward else range(0)


def _named(row: OpRow) -> dict[str, object]:
    """Return what the row holds beside its fingerprints, module and phase above all."""
    # Of its numbers only those that differ are told.
    known = Operation.__annotations__.keys() - {"numbers"}
    return {key: value for key, value in row.items() if key in known}


def _missing(repeat: Repeat) -> list[OpRow]:
    own = {key_of(row) for row in repeat.rows}
    return [row for key, row in repeat.recorded.items() if key not in own]


def _of_the_record(row: OpRow) -> Operation:
    found = _named(row) | {"position": None, "draws": False, "differs_in": "operations"}
    return cast(Operation, found)


def _done_elsewhere(origin: DifferenceOrigin, repeat: Repeat) -> OpRow | None:
    """Return the operation of which the record alone has the output; None if both have it."""
    own = repeat.rows[origin.index]
    recorded = repeat.recorded.get(key_of(own))
    if origin.other_read is None or recorded is None:
        return None
    given = recorded["reads"]
    wanted = {given[origin.other_read]} if len(given) == len(own["reads"]) else set(given)
    wanted -= set(own["reads"])
    return next((row for row in _missing(repeat) if wanted & set(row["writes"])), None)


def _draws_in_another_order(repeat: Repeat) -> bool:
    own = [key_of(row) for row in repeat.rows if row["draws"]]
    recorded = [key for key, row in repeat.recorded.items() if row["draws"]]
    return own != recorded and sorted(own) == sorted(recorded)


def _is_chosen(origin: DifferenceOrigin, repeat: Repeat) -> bool:
    """Say whether each process has what the other one was given, and gave it elsewhere."""
    recorded = repeat.recorded.get(key_of(repeat.rows[origin.index]))
    if origin.other_read is None or recorded is None:
        return False
    given, own = recorded["reads"], repeat.steps[origin.index].flow.reads
    if len(given) != len(own):
        return False
    there = {use.content for s in repeat.steps for use in (*s.flow.reads, *s.flow.writes)}
    in_record = {c for row in repeat.recorded.values() for c in (*row["reads"], *row["writes"])}
    return given[origin.other_read] in there and own[origin.other_read].content in in_record
