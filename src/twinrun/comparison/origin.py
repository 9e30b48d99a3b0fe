"""Which operations of a replayed step made what differed first: a dynamic slice.

From the memory of the quantity that differed first one goes back, operation by operation, along
values that differ between the two processes: to the operations that wrote them, and to what these
had read (dynamic slicing; Agrawal and Horgan, PLDI 1990). Where none of what an operation read
differs, or nobody wrote it, the difference came in: it is an *origin*. What differs beside this
way, such as a time that is logged, has not made the difference.

What goes through Python can be followed only where a number comes back as it was read (`.item()`);
elsewhere the operation that is given another number is the origin.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from twinrun.comparison.pair_records import DiffersIn
from twinrun.trace.data_flow import Flow, Region, Use
from twinrun.trace.op_rows import READING_BACK, OpRow

Target = tuple[tuple[Region, ...], int]  # memory, and how many operations were done by then
Lane = int | None
TRUTHS = ("True", "False")  # two values that agree by chance half of the time


@dataclass(frozen=True, kw_only=True)
class Step:
    """An operation of a repeat beside the same one of the record."""

    flow: Flow
    """What it reads and writes."""
    is_known: bool
    """Whether the record has it."""
    reads_differ: Sequence[bool]
    """Of each that it reads; all, of one that the record lacks."""
    writes_differ: Sequence[bool]
    """Likewise."""
    numbers: Sequence[tuple[str, str]]
    """Its plain arguments that differ: as they were in the record, and as they are here."""
    reads_back: bool
    """Whether it hands a tensor's value to Python; `numbers` has what it gave."""


@dataclass(frozen=True, kw_only=True)
class DifferenceOrigin:
    """An operation with which a difference came into a step."""

    index: int
    """Index of the operation."""
    differs_in: DiffersIn
    """See `pair_records.Operation`."""
    is_number: bool = False
    """Whether a number or another plain argument differs."""
    draws: bool = False
    """Whether the state of its generator differs."""
    other_read: int | None = None
    """Which of its reads is another tensor than in the record, that nothing made differ."""


def step_of(row: OpRow, flow: Flow, recorded: OpRow | None) -> Step:
    """Compare an operation with the recorded one of the same key.

    Args:
        row: of the repeat.
        flow: what it reads and writes.
        recorded: None if the record has none.
    """
    return Step(
        flow=flow,
        is_known=recorded is not None,
        reads_differ=_differing(recorded and recorded["reads"], row["reads"]),
        writes_differ=_differing(recorded and recorded["writes"], row["writes"]),
        numbers=_pairs(recorded["numbers"], row["numbers"]) if recorded else [],
        reads_back=row["op"] == READING_BACK,
    )


def _differing(recorded: Sequence[str] | None, own: Sequence[str]) -> list[bool]:
    """Compare item by item; of lists of unlike length, such as those of `cat`, all differ."""
    if recorded is None or len(recorded) != len(own):
        return [True] * len(own)
    return [left != right for left, right in zip(recorded, own, strict=True)]


def _pairs(recorded: Sequence[str], own: Sequence[str]) -> list[tuple[str, str]]:
    if len(recorded) != len(own):
        return [(str(list(recorded)), str(list(own)))]
    pairs = zip(recorded, own, strict=True)
    return [(left, right) for left, right in pairs if left != right]


def _is_in(use: Use, lanes: set[Lane]) -> bool:
    return use.lane is None or None in lanes or use.lane in lanes


class Slice:
    """The operations of a repeat, to go back through them."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = steps
        self._writers: dict[int, list[tuple[int, int]]] = {}
        self._views: dict[int, list[int]] = {}
        self._read_back: dict[tuple[str, str], list[int]] = {}
        for index, step in enumerate(steps):
            for position, use in enumerate(step.flow.writes):
                for number in {region.storage for region in use.regions}:
                    self._writers.setdefault(number, []).append((index, position))
            for number in {region.storage for use in step.flow.views for region in use.regions}:
                self._views.setdefault(number, []).append(index)
            for pair in step.numbers if step.reads_back else []:
                if pair[0] not in TRUTHS:
                    self._read_back.setdefault(pair, []).append(index)

    def reached(
        self, targets: Iterable[Target], *, by_equal_values: bool = False
    ) -> dict[int, set[Lane]]:
        """Return the operations whose differing values make up the targets, with their lanes.

        Args:
            targets: where to go back from.
            by_equal_values: whether to go along values that are equal, too, as what rounding leaves
                of other ones.
        """
        makers, read = self._differing_makers, self._differing_reads
        if by_equal_values:
            makers, read = self._possible_makers, self._reads
        found: dict[int, set[Lane]] = {}
        to_follow = [(region, before) for regions, before in targets for region in regions]
        while to_follow:
            region, before = to_follow.pop()
            made = [
                (index, self._steps[index].flow.writes[position].lane)
                for index, position in makers(region, before)
            ]
            while made:
                index, lane = made.pop()
                lanes = found.setdefault(index, set())
                if lane in lanes:
                    continue
                lanes.add(lane)
                reads = read(index, {lane})
                to_follow += [(region, index) for use in reads for region in use.regions]
                numbers = self._steps[index].numbers
                made += [
                    (reader, None) for pair in numbers for reader in self._readers(pair, index)
                ]
        return found

    def read_by_python(self, before: int) -> dict[int, set[Lane]]:
        """Return the operations whose differing values Python had read before one, as `reached`."""
        return self.reached(
            (use.regions, index)
            for index, step in enumerate(self._steps[:before])
            if step.reads_back and step.numbers
            for use in self._differing_reads(index, {None})
        )

    def origins(self, reached: dict[int, set[Lane]]) -> list[DifferenceOrigin]:
        """Return the origins among the operations that were reached, in their order."""
        found = (self._origin(index, lanes) for index, lanes in reached.items())
        origins = (origin for origin in found if origin is not None)
        return sorted(origins, key=lambda origin: origin.index)

    def differing(self, reached: dict[int, set[Lane]]) -> dict[int, set[Lane]]:
        """Return those among operations that differ in what reaches the targets."""
        return {index: lanes for index, lanes in reached.items() if self._differs(index, lanes)}

    def _differs(self, index: int, lanes: set[Lane]) -> bool:
        step = self._steps[index]
        written = zip(step.flow.writes, step.writes_differ, strict=True)
        return (
            not step.is_known
            or bool(step.numbers)
            or bool(self._differing_reads(index, lanes))
            or any(differs and _is_in(use, lanes) for use, differs in written)
        )

    def _origin(self, index: int, lanes: set[Lane]) -> DifferenceOrigin | None:
        """Return an operation as an origin; None if it but handed on what it was given."""
        step = self._steps[index]
        if not step.is_known:
            return DifferenceOrigin(index=index, differs_in="operations")
        reads = self._differing_reads(index, lanes)
        for use in reads:
            if not any(self._is_made(region, index) for region in use.regions):
                return self._entry(index, use)
        # Beside inputs that differ, too: the learning rate beside gradients.
        if any(not self._readers(pair, index) for pair in step.numbers):
            return DifferenceOrigin(index=index, differs_in="inputs", is_number=True)
        if reads or step.numbers:  # it handed them on
            return None
        # What nobody wrote has one fingerprint, whatever lies there.
        # What it writes itself need not have been read.
        written = {region for use in step.flow.writes for region in use.regions}
        is_unwritten = any(
            self._is_unwritten(use, index)
            for use in step.flow.reads
            if written.isdisjoint(use.regions)
        )
        return DifferenceOrigin(index=index, differs_in="unwritten" if is_unwritten else "outputs")

    def _is_unwritten(self, use: Use, before: int) -> bool:
        makers = (maker for region in use.regions for maker, _ in self._makers(region, before))
        return any(self._steps[maker].flow.is_allocation for maker in makers)

    def _entry(self, index: int, use: Use) -> DifferenceOrigin:
        """Return how an operation came by something that no operation made differ."""
        read = list(self._steps[index].flow.reads).index(use)
        if use.is_generator:
            return DifferenceOrigin(index=index, differs_in="outputs", draws=True, other_read=read)
        chosen = DifferenceOrigin(index=index, differs_in="tensors", other_read=read)
        makers = [
            (self._steps[maker].flow, position)
            for region in use.regions
            for maker, position in self._makers(region, index)
        ]
        if self._is_unwritten(use, index):
            return DifferenceOrigin(index=index, differs_in="unwritten")
        # An operation gave the very same in both processes: the record's read another tensor.
        if any(flow.writes[position].content == use.content for flow, position in makers):
            return chosen
        view = self._view_of(use, index)
        if view is None:
            return replace(chosen, differs_in="inputs")
        step = self._steps[view]
        # Another row of an equal tensor.
        if step.numbers or not step.is_known:
            kind: DiffersIn = "inputs" if step.is_known else "operations"
            return DifferenceOrigin(index=view, differs_in=kind, is_number=step.is_known)
        # Who looked first at what came from outside is nearest to the line that brought it. A view
        # of the very same in both is one of several that could be read.
        reads = self._differing_reads(view, {None})
        return self._entry(view, reads[0]) if reads else chosen

    def _view_of(self, use: Use, before: int) -> int | None:
        """Return the last operation that gave this very content as a view."""
        for region in use.regions:
            for index in reversed(self._views.get(region.storage, [])):
                views = self._steps[index].flow.views
                given = (
                    (view.regions, view.content) == (use.regions, use.content) for view in views
                )
                if index < before and any(given):
                    return index
        return None

    def _reads(self, index: int, lanes: set[Lane]) -> list[Use]:
        return [use for use in self._steps[index].flow.reads if _is_in(use, lanes)]

    def _differing_reads(self, index: int, lanes: set[Lane]) -> list[Use]:
        step = self._steps[index]
        reads = zip(step.flow.reads, step.reads_differ, strict=True)
        return [use for use, differs in reads if differs and _is_in(use, lanes)]

    def _readers(self, pair: tuple[str, str], before: int) -> list[int]:
        """Return the operations that had handed this pair of numbers to Python."""
        return [index for index in self._read_back.get(pair, []) if index < before]

    def _is_made(self, region: Region, before: int) -> bool:
        return next(self._differing_makers(region, before), None) is not None

    def _differing_makers(self, region: Region, before: int) -> Iterator[tuple[int, int]]:
        for index, position in self._makers(region, before):
            if self._steps[index].writes_differ[position]:
                yield index, position

    def _possible_makers(self, region: Region, before: int) -> Iterator[tuple[int, int]]:
        for index, position in self._makers(region, before):
            step = self._steps[index]
            # What is drawn from a generator does not round its state: an equal one hides nothing.
            if step.writes_differ[position] or not step.flow.writes[position].is_generator:
                yield index, position

    def _makers(self, region: Region, before: int) -> Iterator[tuple[int, int]]:
        """Yield the operations that wrote what a region holds before one, the last one first."""
        for index, position in reversed(self._writers.get(region.storage, [])):
            if index >= before:
                continue
            own = self._steps[index].flow.writes[position].regions
            if any(written.overlaps(region) for written in own):
                yield index, position
                # What was there before it is lost.
                if any(written.covers(region) for written in own):
                    return
