"""An optimizer's counts of steps in float64 during a step in one piece, and torch's own between.

The plain update computes with its count as a Python number. A graph has it as a tensor: with
torch's float32 one, 1 - 0.999 ** 1 of Adam loses four digits. Fingerprints and checkpoints see
the state between steps: with a count in float64 it would be another one than the plain step's.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import torch

# The optimizers that compute with their count of steps.
COUNTING = (
    torch.optim.Adam,
    torch.optim.AdamW,
    torch.optim.Adamax,
    torch.optim.RAdam,
    torch.optim.Adagrad,
)


def has_begun(optimizer: torch.optim.Optimizer, parameters: Iterable[torch.Tensor]) -> bool:
    """Say whether the counts are there that a first, plain step makes."""
    if type(optimizer) not in COUNTING:
        return True
    return all(["step" in optimizer.state.get(p, {}) for p in parameters])  # noqa: C419


class ExactCounts:
    """The counts of one optimizer."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        """Begin with none."""
        self._is_counting = type(optimizer) in COUNTING
        # Tensors that stay, since a replay writes to the addresses that its capture saw.
        self._exact: list[tuple[torch.Tensor, dict[str, object], torch.Tensor]] = []
        self._both: list[tuple[torch.Tensor, torch.Tensor]] = []

    def are_of(self, states: Mapping[torch.Tensor, Mapping[str, object]]) -> bool:
        """Say whether an optimizer's states are still those whose counts were taken over.

        A training may empty them, and a plain step makes others.
        """
        return all([states.get(p) is state for p, state, _ in self._exact])  # noqa: C419

    def add(self, parameter: torch.Tensor, state: dict[str, object], count: torch.Tensor) -> None:
        """Take over the count of a parameter's state."""
        if self._is_counting and count.dtype != torch.float64:
            self._exact.append((parameter, state, count.double()))

    @contextmanager
    def exact(self) -> Iterator[None]:
        """Have the state hold tensors in float64, which `read` fills."""
        held = [
            (state, count, exact)
            for _, state, exact in self._exact
            # A callback may have emptied it.
            if isinstance(count := state.get("step"), torch.Tensor)
        ]
        self._both = [(count, exact) for _, count, exact in held]
        for state, _, exact in held:
            state["step"] = exact
        try:
            yield
        finally:
            for state, count, _ in held:
                state["step"] = count

    # Both are parts of a graph, where they take no launches of their own.

    def read(self) -> None:
        """Fill the counts in float64."""
        for count, exact in self._both:
            exact.copy_(count)

    def write_back(self) -> None:
        """Have torch's own counts follow."""
        for count, exact in self._both:
            count.copy_(exact)
