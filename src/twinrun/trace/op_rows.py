"""The row of an operation in the trace of a step. Does without torch."""

from typing import Literal, TypedDict

AFTER = "after update"
Phase = Literal["forward", "backward", "optimizer", "after update"]
# By which operations of two processes correspond. With the source line, a branch that is taken in
# one of them moves no count but those of its own lines.
KEY: tuple[Literal["phase", "module", "op", "source", "call"], ...] = (
    *("phase", "module", "op"),
    *("source", "call"),
)
READING_BACK = "aten::_local_scalar_dense"  # what `.item()` and `bool(tensor)` call


class OpRow(TypedDict):
    """What an operation was, and the fingerprints of what it took and gave."""

    phase: Phase
    """The phase of the training step."""
    module: str
    """Path of the module that it belongs to; empty outside of any."""
    op: str
    """Its name, such as `aten::index_put`."""
    source: str
    """The user's line, `file:line`; may be empty."""
    call: int
    """Counts the calls of this name in this phase and module, on this line, from 1."""
    parameter: str
    """Name of the parameter that it reads, or whose gradient it computes; may be empty."""
    draws: bool
    """Whether it draws random numbers."""
    numbers: list[str]
    """Its arguments that are no tensors, as Python writes them; of READING_BACK what it gave."""
    reads: list[str]
    """A fingerprint of each tensor that it reads, and of the generator that it draws from."""
    writes: list[str]
    """A fingerprint of each tensor whose content it makes."""
    inputs: str
    """One of the tensors that it reads, and of `numbers`."""
    outputs: str
    """One of all tensors that it gives or changes, views included."""
