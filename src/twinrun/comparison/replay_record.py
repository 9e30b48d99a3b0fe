"""The operations of one process compared with those of another: one writes the record, one reads.

Each repeat is compared with the same repeat of the record. What a process counts from repeat to
repeat, in a closure or in a module's global, nobody can put back; it is the same in both.

Of each repeat that diverges the origin is kept: the first operation whose differing values reach
what differed first in the pair (see `origin`). Where there is none, what differed first elsewhere
is kept, to be said, not to be blamed.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import cast

import torch

from twinrun.comparison.causes import CAUSE_OF_QUANTITY
from twinrun.comparison.distances import Distances, distances
from twinrun.comparison.origin import DifferenceOrigin, Slice, Step, Target, step_of
from twinrun.comparison.pair_records import ComparedRow, Operation, Replayed
from twinrun.comparison.replay_files import (
    OF_FIRST,
    OF_FURTHER,
    Samples,
    has_operations,
    key_of,
    read_marks,
    read_operations,
    read_sample,
    repeat_of,
    sample_of,
    write_marks,
    write_operations,
)
from twinrun.comparison.replayed_step import Mark, Replayer, Start, identities
from twinrun.trace.op_rows import AFTER, OpRow
from twinrun.trace.op_tracer import OpTracer, content_of

ORDER: list[str] = list(CAUSE_OF_QUANTITY)


class StepRecorder(Replayer):
    """Leaves the operations of each repeat and a sample of what each gave."""

    def __init__(self, start: Start, repeats: int, record: Path) -> None:
        super().__init__(start, repeats)
        self._record = record
        self._outputs: dict[str, str] = {}
        self._rows: list[OpRow] = []
        self._samples = [Samples(OF_FIRST), Samples(OF_FURTHER)]

    def watch(self, row: OpRow, outputs: list[torch.Tensor]) -> None:
        """Keep a sample of each tensor; of further repeats, of what the first one had otherwise."""
        is_first = not self._done
        if is_first:
            self._outputs[key_of(row)] = row["outputs"]
        elif self._outputs.get(key_of(row)) == row["outputs"]:
            return
        folder = repeat_of(self._record, self._done)
        for position, tensor in enumerate(outputs):
            self._samples[self._done > 0].write(folder, row, position, tensor)

    def end_repeat(self, tracer: OpTracer, marks: list[Mark]) -> None:
        """Write the operations, and the fingerprints of what the step leaves."""
        folder = repeat_of(self._record, self._done)
        if not self._done:
            self._rows = tracer.rows
        # What a further repeat has as the first one, is read there.
        if not self._done or tracer.rows != self._rows:
            write_operations(folder, tracer.rows)
        contents = {key: mark.content for key, mark in identities(marks).items()}
        write_marks(folder, contents)


class Comparer(Replayer):
    """Compares the operations of each repeat with the record."""

    def __init__(
        self, start: Start, repeats: int, record: Path, *, quantity: str, tensor: str | None
    ) -> None:
        """Look for the origin of a difference.

        Args:
            start: of the step.
            repeats: how often to do it.
            record: what `StepRecorder` wrote.
            quantity: what differed first, one of `causes.CAUSE_OF_QUANTITY`.
            tensor: and in which tensor of it; None for what is one value.
        """
        super().__init__(start, repeats)
        self._record, self._quantity, self._tensor = record, quantity, tensor
        self._recorded: dict[str, OpRow] = {}
        self._first: dict[str, OpRow] = {}
        self._contents: dict[str, str] = {}
        self._outputs: dict[str, str] = {}
        self._rows: list[ComparedRow] = []
        self._operations: list[ComparedRow] = []
        self._found = Replayed(
            step=start["step"],
            repeats=repeats,
            quantity=quantity,
            differed=0,
            beyond_the_pair=0,
            firsts=[],
            elsewhere=[],
            operations=[],
        )

    def begin_repeat(self) -> None:
        """Read the same repeat of the record."""
        folder = repeat_of(self._record, self._done)
        if has_operations(folder):
            self._recorded = {key_of(row): row for row in read_operations(folder)}
            self._first = self._first or self._recorded
        else:
            self._recorded = self._first
        self._contents = read_marks(folder)
        if not self._done:
            self._outputs = {key: row["outputs"] for key, row in self._recorded.items()}

    def watch(self, row: OpRow, outputs: list[torch.Tensor]) -> None:
        """Compare an operation with the recorded one, and measure how far it is from it."""
        recorded = self._recorded.get(key_of(row))
        compared = ComparedRow(
            **row,
            inputs_equal=recorded is not None and recorded["inputs"] == row["inputs"],
            outputs_equal=recorded is not None and recorded["outputs"] == row["outputs"],
        )
        # Measured up to the first repeat that diverged: the table is of that one.
        if recorded is not None and not compared["outputs_equal"] and not self._operations:
            compared.update(cast(ComparedRow, self._measured(row, outputs)))
        self._rows.append(compared)

    def end_repeat(self, tracer: OpTracer, marks: list[Mark]) -> None:
        """Go back from what differed first to the operation that made it differ."""
        rows, self._rows = self._rows, []
        pairs = zip(tracer.rows, tracer.flows, strict=True)
        steps = [step_of(row, flow, self._recorded.get(key_of(row))) for row, flow in pairs]
        differing = self._differing(marks)
        found = [mark for mark in differing if mark.quantity == self._quantity]
        # A race may move to another tensor of the quantity.
        found = [mark for mark in found if mark.name == self._tensor] or found
        whole = Slice(steps)
        reached = whole.reached(_targets(found))
        # These were equal in the pair: what made them differ here has not made it diverge.
        earlier = [
            mark for mark in differing if ORDER.index(mark.quantity) < ORDER.index(self._quantity)
        ]
        excluded = whole.reached(_targets(earlier))
        every = whole.origins(reached)
        origins = [o for o in every if o.index not in excluded]
        first = self._operation(origins[0], rows, steps) if origins else None
        first = first or self._left_out(marks, found, rows)
        self._found["differed"] += bool(found)
        self._found["beyond_the_pair"] += bool(every and first is None)
        self._found["firsts"].append(first)
        self._found["elsewhere"].append(None if first else self._elsewhere(rows, steps, reached))
        for index in reached:
            rows[index]["reaches"] = True
        for index in self._behind_updates(rows):  # last: by its phase a row is found in the record
            rows[index]["phase"] = AFTER
        if first is not None and not self._operations:
            self._operations = rows

    def summary(self) -> Replayed:
        """Return what was found."""
        found = self._found
        found["repeats"] = self._done
        found["operations"] = self._operations
        return found

    def _differing(self, marks: Iterable[Mark]) -> list[Mark]:
        return [
            mark
            for key, mark in identities(marks).items()
            if self._contents.get(key) != mark.content
        ]

    def _operation(
        self, origin: DifferenceOrigin, rows: Sequence[ComparedRow], steps: Sequence[Step]
    ) -> Operation:
        """Return what is said of an origin."""
        elsewhere = self._done_elsewhere(origin, rows)
        position = None if elsewhere else origin.index + 1
        row, step = elsewhere or rows[origin.index], steps[origin.index]
        # Of a generator that nobody can follow it is all that is known.
        unseen = row["draws"] and not any(use.is_generator for use in step.flow.reads)
        # What the row holds beside its fingerprints, module and phase above all.
        known = {key: value for key, value in row.items() if key in Operation.__annotations__}
        differs_in = "operations" if elsewhere else origin.differs_in
        if differs_in == "inputs" and self._is_chosen(origin, rows, steps):
            differs_in = "tensors"
        found = cast(Operation, {**known, "position": position, "differs_in": differs_in})
        if position is not None and origin.index in self._behind_updates(rows):
            found["phase"] = AFTER
        found.pop("numbers", None)  # all of them; only those that differ are told
        found["draws"] = origin.draws or (unseen and differs_in == "outputs")
        if origin.is_number:
            found["numbers"] = list(step.numbers[0]) if step.numbers else []
        return found

    def _behind_updates(self, rows: Sequence[ComparedRow]) -> range:
        """Return which operations come behind the last update, unless a backward pass follows.

        Where a module optimizes manually, only the end of its step tells.
        """
        begin = len(rows) if self.updated is None else self.updated
        is_forward = all(row["phase"] == "forward" for row in rows[begin:])
        return range(begin, len(rows)) if is_forward else range(0)

    def _done_elsewhere(
        self, origin: DifferenceOrigin, rows: Sequence[ComparedRow]
    ) -> OpRow | None:
        """Return the operation of which the record alone has the output; None if both have it."""
        recorded = self._recorded.get(key_of(rows[origin.index]))
        if origin.other_read is None or recorded is None:
            return None
        given, own = recorded["reads"], {key_of(row) for row in rows}
        is_as_many = len(given) == len(rows[origin.index]["reads"])
        wanted = {given[origin.other_read]} if is_as_many else set(given)
        wanted -= set(rows[origin.index]["reads"])
        for key, row in self._recorded.items():
            if key not in own and wanted & set(row["writes"]):
                return row
        return None

    def _is_chosen(
        self, origin: DifferenceOrigin, rows: Sequence[ComparedRow], steps: Sequence[Step]
    ) -> bool:
        """Say whether each process has what the other one was given, and gave it elsewhere."""
        recorded = self._recorded.get(key_of(rows[origin.index]))
        if origin.other_read is None or recorded is None:
            return False
        given, own = recorded["reads"], steps[origin.index].flow.reads
        if len(given) != len(own):
            return False
        there = {use.content for s in steps for use in (*s.flow.reads, *s.flow.writes)}
        in_record = {c for row in self._recorded.values() for c in (*row["reads"], *row["writes"])}
        return given[origin.other_read] in there and own[origin.other_read].content in in_record

    def _left_out(
        self, marks: Sequence[Mark], found: Sequence[Mark], rows: Sequence[ComparedRow]
    ) -> Operation | None:
        """Return the operation of the record alone that made there what differs, such as a sum."""
        own, differing = {key_of(row) for row in rows}, {id(mark) for mark in found}
        wanted = {
            content_of(mark.like, int(self._contents[key], 16))
            for key, mark in identities(marks).items()
            if id(mark) in differing and mark.like is not None and key in self._contents
        }
        for key, row in reversed(self._recorded.items()):
            if key not in own and wanted & set(row["writes"]):
                return {
                    "position": None,
                    "phase": row["phase"],
                    "module": row["module"],
                    "op": row["op"],
                    "call": row["call"],
                    "parameter": row["parameter"],
                    "source": row["source"],
                    "draws": False,
                    "differs_in": "operations",
                }
        return None

    def _elsewhere(
        self, rows: Sequence[ComparedRow], steps: Sequence[Step], reached: Mapping[int, object]
    ) -> Operation | None:
        """Return the first operation that differs at all, and does not reach what differed."""
        for index, (row, step) in enumerate(zip(rows, steps, strict=True)):
            is_equal = row["inputs_equal"] and row["outputs_equal"]
            if index not in reached and not (step.is_known and is_equal):
                differs_in = "operations" if not step.is_known else "outputs"
                if step.is_known and not row["inputs_equal"]:
                    differs_in = "inputs"
                return self._operation(
                    DifferenceOrigin(index=index, differs_in=differs_in), rows, steps
                )
        return None

    def _measured(self, row: OpRow, outputs: list[torch.Tensor]) -> Distances | dict[str, float]:
        """Return the distances of the output that is farthest from the recorded one."""
        found = []
        recorded_as = self._recorded[key_of(row)]["outputs"]
        is_as_first = self._outputs.get(key_of(row)) == recorded_as
        folder = repeat_of(self._record, 0 if is_as_first else self._done)
        for position, tensor in enumerate(outputs):
            recorded = read_sample(folder, row, position, tensor)
            if recorded is None:  # there was no room for it, or it is another tensor
                continue
            own = sample_of(tensor, len(recorded))
            if own.shape == recorded.shape and own.dtype == recorded.dtype:
                # torch's name of the type: to NumPy a bfloat16 is a uint16.
                found.append(distances(recorded, own, str(tensor.dtype).split(".")[1]))
        return max(found, key=lambda distance: distance["relative_l2"], default={})


def _targets(marks: Iterable[Mark]) -> list[Target]:
    return [(mark.regions, mark.before) for mark in marks]
