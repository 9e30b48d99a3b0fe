"""Values that follow from numbers which are still on a GPU, until one copy brings these over.

A number is left where it was computed, with what will be made of it. `fetch` copies all numbers
that some values need, one copy a GPU, and waits for them; nothing else here waits.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar, cast

import numpy as np
import torch
import xxhash

Value = TypeVar("Value")
Made = TypeVar("Made")


class Numbers:
    """Words of 64 bits: on a GPU first, here once they were fetched."""

    def __init__(self) -> None:
        self.on_device: torch.Tensor | None = None
        """(n,) int64; None before they are computed, and once they are here."""
        self.here = np.empty(0, dtype=np.uint64)


class Pending(Generic[Value]):
    """A value that follows from numbers on a GPU."""

    def __init__(self, needed: Sequence[Numbers], make: Callable[[], Value], kind: int) -> None:
        """Say what it follows from.

        Args:
            needed: the numbers.
            make: makes the value of them once they are here.
            kind: 0 if it is the value that the same tensors have on a CPU; else another number
                for others among them that were hashed on a GPU.
        """
        self.needed, self.make, self.kind = needed, make, kind


def together(
    values: list[Value | Pending[Value]], make: Callable[[list[Value]], Made]
) -> Made | Pending[Made]:
    """Return what is made of values; a pending one where one of them is."""
    # Asked in C: a step of many small tensors has hundreds of them.
    if Pending not in map(type, values):
        return make(cast(list[Value], values))
    needed = [n for value in values if isinstance(value, Pending) for n in value.needed]
    kinds = [kind_of(value) for value in values]
    kind = xxhash.xxh3_64_intdigest(np.array(kinds, dtype=np.uint64).data) if any(kinds) else 0
    return Pending(
        list(dict.fromkeys(needed)), lambda: make([value_of(value) for value in values]), kind
    )


def fetch(values: Iterable[object]) -> None:
    """Bring over all numbers that values need: one copy a GPU, which waits for what it computes."""
    needed = {n for value in values if isinstance(value, Pending) for n in value.needed}
    waiting: dict[torch.device, list[tuple[Numbers, torch.Tensor]]] = {}
    for numbers in needed:
        if (on_device := numbers.on_device) is not None:
            waiting.setdefault(on_device.device, []).append((numbers, on_device))
    for found in waiting.values():
        here = torch.cat([on_device for _, on_device in found]).cpu().numpy().view(np.uint64)
        ends = np.cumsum([len(on_device) for _, on_device in found])
        for (numbers, _), part in zip(found, np.split(here, ends[:-1]), strict=True):
            numbers.here, numbers.on_device = part, None


def value_of(value: Value | Pending[Value]) -> Value:
    """Return a value whose numbers were fetched."""
    return value.make() if isinstance(value, Pending) else value


def values_of(values: list[Value | Pending[Value]]) -> list[Value]:
    """Return values whose numbers were fetched."""
    if Pending not in map(type, values):
        return cast(list[Value], values)
    return [value_of(value) for value in values]


def kind_of(value: object) -> int:
    """Say by which hash a fingerprint was taken: two of unlike kinds say nothing of each other."""
    return value.kind if isinstance(value, Pending) else 0
