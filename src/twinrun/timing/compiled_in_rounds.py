"""What torch compiled while rounds were timed, which should have been over before.

A module that changes a number in each step that a graph takes for granted is compiled again and
again, also by a `torch.compile` of its own: such seconds are no seconds of steps.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypedDict

from twinrun.timing.summary import InRounds, Median


class CompiledRow(TypedDict):
    """What was compiled in the rounds of a measurement."""

    variant: str
    """The variant."""
    size: int | None
    """As for `Median`."""
    phase: str
    """As for `Median`."""
    found: InRounds
    """What."""


class CompiledInRounds:
    """Counts what is compiled in the rounds of a timing at one size."""

    def __init__(self) -> None:
        """Count nothing yet."""
        self._found: dict[tuple[str, str], InRounds] = {}

    @contextmanager
    def counting(self, variant: str, phase: str) -> Iterator[None]:
        """Count what is compiled in the block."""
        before = _num_graphs()
        yield
        if graphs := _num_graphs() - before:
            earlier = self._found.get((variant, phase))
            graphs += earlier["graphs"] if earlier else 0
            self._found[variant, phase] = InRounds(graphs=graphs, reason=_last_reason())

    def rows(self, size: int | None) -> list[CompiledRow]:
        """Return what was counted, at a size."""
        return [
            CompiledRow(variant=variant, size=size, phase=phase, found=found)
            for (variant, phase), found in self._found.items()
        ]


def _num_graphs() -> int:
    # Where nothing imported the compiler, nothing was compiled, and it is slow to import.
    compiler = sys.modules.get("torch._dynamo.utils")
    return 0 if compiler is None else compiler.counters["stats"]["unique_graphs"]


def _last_reason() -> str | None:
    """Return why torch compiled again, in its words, without its line of code."""
    from torch._dynamo.utils import get_compilation_metrics

    told = [of.recompile_reason for of in get_compilation_metrics()[-1:]]
    return told[0].split("\n")[0].split("  #")[0].strip() if told and told[0] else None


def with_compiled(medians: Sequence[Median], rows: Sequence[CompiledRow]) -> list[Median]:
    """Return medians with what was compiled in their rounds."""
    found = {(row["variant"], row["size"], row["phase"]): row["found"] for row in rows}
    told: list[Median] = []
    for median in medians:
        of = found.get((median["variant"], median["size"], median["phase"]))
        told.append(median if of is None else {**median, "compiled": of})
    return told
