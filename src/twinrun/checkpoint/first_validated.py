"""How validations begin and how long they are: what was so twice is so behind a checkpoint.

Validation data are mostly the same each time. Where a stream goes on that is to begin anew, or the
other way round, its first mini-batch is another one then, or there are fewer. Of data that change
from validation to validation nothing is known, and nothing is asked of data that are told nothing:
they may change on purpose (larger images, more rows), and do not depend on where they were.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TypedDict

from twinrun.checkpoint.restored import ELSEWHERE
from twinrun.checkpoint.stateful import Stateful
from twinrun.checkpoint.stream_position import parts_of


class Validations(TypedDict):
    """What is known of the last two, by the number of the loader."""

    first: dict[int, list[int]]
    """Fingerprints of their first mini-batches, of a sanity check's too."""
    lengths: dict[int, list[int]]
    """How many mini-batches there were."""


class FirstValidated:
    """Looks at validations, and at the first one behind a checkpoint."""

    def __init__(self, fingerprint: Callable[[object], int] | None) -> None:
        """Know none yet.

        Args:
            fingerprint: of a batch; None looks at none.
        """
        self._fingerprint = fingerprint
        self._known: Validations = {"first": {}, "lengths": {}}
        self._expected: Validations | None = None
        self._now, self._first = Counter[int](), dict[int, int]()

    def state(self) -> Validations:
        """Return what a checkpoint keeps."""
        first, lengths = self._known["first"], self._known["lengths"]
        return {"first": {**first}, "lengths": {**lengths}}

    def resumed(self, state: Validations | None) -> None:
        """Expect what was the same in the last two validations.

        Args:
            state: what `state` returned; an older version's checkpoint has None.
        """
        if state is not None:
            self._known = {"first": {**state["first"]}, "lengths": {**state["lengths"]}}
            self._expected = self.state()

    def comes(self, number: int, batch: object, turn: int) -> None:
        """Take a mini-batch, the so many-th of a loader."""
        self._now[number] += 1
        if turn == 0 and self._fingerprint is not None:
            self._first[number] = self._fingerprint(batch)

    def ends(self, loaders: Sequence[object], *, is_whole: bool) -> str | None:
        """Return why the first validation behind a checkpoint was none of the same data, if so.

        Args:
            loaders: for validation.
            is_whole: whether it was no sanity check.
        """
        expected, self._expected = self._expected, None
        first, lengths = self._first, dict(self._now) if is_whole else {}
        self._now, self._first = Counter(), {}
        for known, found in ((self._known["first"], first), (self._known["lengths"], lengths)):
            for number, value in found.items():
                known[number] = [*known.get(number, [])[-1:], value]
        if expected is None or not any(isinstance(part, Stateful) for part in parts_of(loaders)):
            return None
        if _is_other(expected["first"], first, fewest=2):
            return f"{ELSEWHERE}: another first mini-batch of validation data came after the stop"
        if _is_other(expected["lengths"], lengths, fewest=1):
            return f"{ELSEWHERE}: another number of mini-batches of validation data came after it"
        return None


def _is_other(known: Mapping[int, Sequence[int]], found: Mapping[int, int], fewest: int) -> bool:
    return any(
        len(values) >= fewest and len({*values}) == 1 and found[number] != values[0]
        for number, values in known.items()
        if number in found
    )
