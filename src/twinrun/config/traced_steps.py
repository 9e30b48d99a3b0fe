"""Which steps of a training are traced: a variant's `trace`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

PER_TENSOR = 1_000_000  # as the schema has it

TraceSetting: TypeAlias = Mapping[str, int | None] | None
"""A variant's `trace`: its `every`, `first` and `per_tensor`, or None for no trace."""


@dataclass(frozen=True, kw_only=True)
class TracedSteps:
    """The steps that are traced."""

    every: int | None = 1
    """Each step that this divides; None for none but the first."""
    first: int = 0
    """The first steps, all of them."""
    per_tensor: int = PER_TENSOR
    """Fingerprints of single tensors that are kept of the first of them; 0 for none at all."""

    def __contains__(self, step: int) -> bool:
        return step <= self.first or (self.every is not None and step % self.every == 0)

    @property
    def start(self) -> int:
        """The first of them; 0 if there is none.

        >>> TracedSteps(every=10).start, TracedSteps(first=5).start
        (10, 1)
        """
        return 1 if self.first else self.every or 0

    @property
    def are_all(self) -> bool:
        """Whether every step is traced."""
        return self.every == 1

    @property
    def are_none(self) -> bool:
        """Whether no step is traced."""
        return self.every is None and not self.first

    def number(self, steps: int) -> int:
        """Count those of a training of some steps.

        >>> TracedSteps(every=10, first=15).number(40)  # 1 to 15, 20, 30, 40
        18
        """
        first = min(self.first, steps)
        return first if self.every is None else first + steps // self.every - first // self.every


def traced_steps(setting: TraceSetting) -> TracedSteps:
    """Return the steps that a variant's `trace` asks for."""
    if setting is None:
        return TracedSteps(every=None)
    return TracedSteps(
        every=setting.get("every", 1),
        first=setting.get("first") or 0,
        per_tensor=PER_TENSOR if (kept := setting.get("per_tensor")) is None else kept,
    )
