"""Batches that go round in a timing, each given to a step as a loader would give it.

A step may take from its batch (`batch.pop("labels")`) or change it in place. So each call is given
containers of its own; and tensors of its own, where the first calls were seen to change theirs.
Both are made before the clock starts.
"""

from collections.abc import Iterator, Sequence

import torch

from twinrun.batches import leaves, num_bytes, opaque, tensors
from twinrun.copied_batches import copied, with_tensors
from twinrun.errors import TwinrunError
from twinrun.trace.fingerprints import described

PART_BYTES = 2**28  # of copies that are made at once


class Circulating:
    """Some batches, the first after the last."""

    def __init__(self, batches: Sequence[object]) -> None:
        """Keep them; until `trust`, what is given are copies."""
        self.batches = batches
        self.next = 0
        """How many were given; may be set."""
        # What nobody can look into, nobody sees change.
        self.are_changed = any(opaque(batch) for batch in batches)
        """Whether a step changes the tensors of its batch."""
        self._is_watched = True
        self._words = [_words(tensors(batch)) for batch in batches]
        self._versions: list[list[int]] = []

    def __len__(self) -> int:
        """Return how many they are."""
        return len(self.batches)

    def first(self) -> object:
        """Return a copy of the first one."""
        return copied(self.batches[0])

    def trust(self) -> None:
        """End the first calls: tensors that none of them has changed are given as they are."""
        self._is_watched = False
        self._versions = [_versions(tensors(batch)) for batch in self.batches]

    def parts(self, calls: int) -> Iterator[list[tuple[object, int]]]:
        """Yield the batches of the next calls with their numbers, in parts to be called in turn.

        Raises:
            TwinrunError: if a step has changed tensors that no first call had changed.
        """
        numbers = [(self.next + number) % len(self) for number in range(calls)]
        self.next += calls
        is_copied = self._is_watched or self.are_changed
        while numbers:
            size = self._fitting(numbers) if is_copied else len(numbers)
            part = [(self._given(number, is_copied), number) for number in numbers[:size]]
            # Taken before the calls, which may empty their containers.
            held = [(number, tensors(batch)) for batch, number in part] if is_copied else []
            yield part
            self._look(held, numbers[:size])
            del numbers[:size]

    def _given(self, number: int, is_copied: bool) -> object:
        batch = self.batches[number]
        return copied(batch) if is_copied else with_tensors(batch, _anew)

    def _fitting(self, numbers: Sequence[int]) -> int:
        """Return how many copies are made at once, at least one."""
        size = 0
        for position, number in enumerate(numbers):
            size += num_bytes(self.batches[number])
            if size > PART_BYTES:
                return max(1, position)
        return len(numbers)

    def _look(self, held: Sequence[tuple[int, list[torch.Tensor]]], numbers: Sequence[int]) -> None:
        """See whether calls have changed the tensors that they were given."""
        if self.are_changed:
            return
        if self._is_watched:
            self.are_changed = any(_words(given) != self._words[number] for number, given in held)
        elif any(_versions(tensors(self.batches[n])) != self._versions[n] for n in {*numbers}):
            raise TwinrunError(
                "the step changes its batch in place, which no first call did: the batches that "
                "go round are no more what they were"
            )


def shapes_of(batch: object) -> tuple[torch.Size | type, ...]:
    """Return the shapes of a batch's tensors, and the classes of what else it has."""
    return tuple(x.shape if isinstance(x, torch.Tensor) else type(x) for _, x in leaves(batch))


def _anew(tensor: torch.Tensor) -> torch.Tensor:
    """Return the same numbers without what a step has noted on their tensor, such as `.grad`."""
    return tensor.detach().requires_grad_(tensor.requires_grad)


def _words(found: Sequence[torch.Tensor]) -> list[str]:
    return [described(tensor) for tensor in found]


def _versions(found: Sequence[torch.Tensor]) -> list[int]:
    # torch counts writes in place, but not to what was made in inference mode.
    return [0 if tensor.is_inference() else tensor._version for tensor in found]
