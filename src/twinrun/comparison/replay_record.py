"""The operations of one process compared with those of another: one writes the record, one reads.

Each repeat is compared with the same repeat of the record. What a process counts from repeat to
repeat, in a closure or in a module's global, nobody can put back; it is the same in both.

Of each repeat that diverges the origin is kept: the first operation whose differing values reach
what differed first in the pair (see `origin`). Where there is none, the first one is kept that
leads to it, though what differs is lost on the way; else what differed first elsewhere, to be said,
not to be blamed.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import cast

import torch

from twinrun.comparison.causes import CAUSE_OF_QUANTITY
from twinrun.comparison.distances import Distances, distances
from twinrun.comparison.named_operation import (
    Repeat,
    behind_updates,
    differs_by_itself,
    done_before,
    first_differing,
    missing_operation,
    operation_of,
    suspect_of,
)
from twinrun.comparison.origin import Lane, Slice, Target, step_of
from twinrun.comparison.pair_records import ComparedRow, Operation
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
from twinrun.comparison.replay_results import Finding, Replayed, Role, is_same
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
            earlier=start["earlier"],
            not_put_back=start["not_put_back"],
            repeats=repeats,
            differed=0,
            findings=[],
            origins=[],
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
        repeat = Repeat(rows=rows, steps=steps, recorded=self._recorded, updated=self.updated)
        whole = Slice(steps)
        found = self._of_the_pair(self._differing(marks))
        reached = whole.reached(_targets(found))
        finding = self._origin(whole, reached, marks, repeat) or self._beside(whole, marks, repeat)
        if finding is not None:
            finding["differed"] = bool(found)
            finding["suspect"] = self._suspect(finding, found, whole, repeat)
        self._found["differed"] += bool(found)
        self._found["findings"].append(finding)
        for index in reached:
            rows[index]["reaches"] = True
        for index in behind_updates(repeat):  # last: by its phase a row is found in the record
            rows[index]["phase"] = AFTER
        if finding is None or finding["role"] == "elsewhere":
            return
        if finding["role"] == "origin" and not self._operations:
            self._operations = rows
        self._found["operations"] = self._operations or self._found["operations"] or rows

    def summary(self) -> Replayed:
        """Return what was found."""
        self._found["repeats"] = self._done
        return self._found

    def _origin(
        self, whole: Slice, reached: dict[int, set[Lane]], marks: Sequence[Mark], repeat: Repeat
    ) -> Finding | None:
        """Return the operation that made differ what differed first in the pair; None if none."""
        differing = self._differing(marks)
        # These were equal in the pair: what made them differ here may not have made it diverge.
        before = ORDER.index(self._quantity)
        earlier = [mark for mark in differing if ORDER.index(mark.quantity) < before]
        excluded = whole.reached(_targets(earlier))
        every = whole.origins(reached)
        own = [operation_of(of, repeat) for of in every if of.index not in excluded]
        for op in own:
            if not any(is_same(known, op) for known in self._found["origins"]):
                self._found["origins"].append(op)
        if own:
            return _finding("origin", own[0])
        wanted = self._recorded_contents(marks, self._of_the_pair(differing))
        if missing := missing_operation(repeat, wanted):
            return _finding("origin", missing)
        if every:
            return _finding("beyond the pair", operation_of(every[0], repeat))
        return None

    def _beside(self, whole: Slice, marks: Sequence[Mark], repeat: Repeat) -> Finding | None:
        """Return the first operation that differs without making the same differ; None if none."""
        leading = whole.reached(_targets(self._of_the_pair(marks)), by_equal_values=True)
        if lost := whole.origins(whole.differing(leading)):
            return _finding("lost", operation_of(lost[0], repeat))
        elsewhere = first_differing(repeat, without=leading)
        return _finding("elsewhere", elsewhere) if elsewhere else None

    def _suspect(
        self, finding: Finding, found: Sequence[Mark], whole: Slice, repeat: Repeat
    ) -> tuple[Operation, bool] | None:
        """Return what Python may have made the difference of; None where it came from no one."""
        if finding["role"] == "elsewhere":
            before = max((mark.before for mark in found), default=len(repeat.rows))
        elif differs_by_itself(finding["op"]):
            return None
        else:
            before = done_before(finding["op"], repeat)
        return suspect_of(whole, repeat, before)

    def _differing(self, marks: Iterable[Mark]) -> list[Mark]:
        return [
            mark
            for key, mark in identities(marks).items()
            if self._contents.get(key) != mark.content
        ]

    def _of_the_pair(self, marks: Sequence[Mark]) -> list[Mark]:
        """Return those of what differed first in the pair."""
        found = [mark for mark in marks if mark.quantity == self._quantity]
        # A race may move to another tensor of the quantity.
        return [mark for mark in found if mark.name == self._tensor] or found

    def _recorded_contents(self, marks: Sequence[Mark], found: Sequence[Mark]) -> set[str]:
        """Return what some of the marks were in the record, as operations write it."""
        differing = {id(mark) for mark in found}
        return {
            content_of(mark.like, int(self._contents[key], 16))
            for key, mark in identities(marks).items()
            if id(mark) in differing and mark.like is not None and key in self._contents
        }

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


def _finding(role: Role, op: Operation) -> Finding:
    return Finding(role=role, op=op, differed=False, suspect=None)


def _targets(marks: Iterable[Mark]) -> list[Target]:
    return [(mark.regions, mark.before) for mark in marks]
