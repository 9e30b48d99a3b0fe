"""What the repeats of a step showed: from the processes that replay to the one that locates.

Does without torch.
"""

from typing import Literal, TypedDict

from twinrun.comparison.pair_records import ComparedRow, Operation, Suspect

# By which an operation is known from repeat to repeat.
SAME: tuple[Literal["op", "phase", "module", "parameter", "source", "differs_in"], ...] = (
    *("op", "phase", "module", "parameter", "source", "differs_in"),
)


class EarlierDifference(TypedDict):
    """Where the training that led to the step differed from the run that it was to repeat."""

    step: int
    """From 1."""
    quantity: str
    """What differed first in it."""


# How an operation is to what differed first in the pair: it made it differ; it did so, and made
# differ what was equal in the pair, too; it leads to it, but what differs is lost on the way; none.
Role = Literal["origin", "beyond the pair", "lost", "elsewhere"]


class Finding(TypedDict):
    """The operation that is told of a repeat."""

    role: Role
    """What it has to do with what differed first in the pair."""
    op: Operation
    """The first of this role."""
    differed: bool
    """Whether what differed first in the pair did so in this repeat."""
    suspect: tuple[Operation, bool] | None
    """One of whose values Python may have made what differs, and whether Python was seen to read
    some; None if none before it differs by itself, or `op` does so."""


class Replayed(TypedDict):
    """What the repeats of a step showed."""

    step: int
    """The step that was done again."""
    earlier: EarlierDifference | None
    """Where the training up to the step was no longer the run's; None if it was to the end."""
    not_put_back: list[str]
    """Weights outside of the module, which have their first values in every repeat, by name."""
    repeats: int
    """How often the step was done."""
    differed: int
    """In how many repeats that which differed first in the pair did so again."""
    findings: list[Finding | None]
    """For each repeat the first operation of the first role that there is; None if none differs."""
    origins: list[Operation]
    """Every operation that made it differ in a repeat, once: one may hide others."""
    operations: list[ComparedRow]
    """Those of the first repeat with an origin, or else with one that leads there: the table."""


def of_role(replayed: Replayed, role: Role) -> list[Operation]:
    """Return the operations of a role, in the order of their repeats."""
    return [found["op"] for found in replayed["findings"] if found and found["role"] == role]


def suspect_of(replayed: Replayed, op: Operation | None) -> Suspect | None:
    """Return the operation of whose values Python may have made what differs, by the first repeat.

    One that was equal in a repeat that differed all the same does not decide it: it is left out.

    Args:
        replayed: what the repeats showed.
        op: the one that is told of them; None where what differed was changed unseen.
    """
    findings = [found for found in replayed["findings"] if found is not None]
    if op is None:
        told = [found for found in findings if found["differed"]]
        # In the others nothing else was seen to differ.
        differed = replayed["differed"]
    else:
        told = [found for found in findings if is_same(found["op"], op)]
        differed = len(told)
    suspects = [found["suspect"] for found in told if found["suspect"] is not None]
    if not suspects:
        return None
    first = suspects[0][0]
    read = [is_read for other, is_read in suspects if is_same(other, first)]
    if len(read) < differed:
        return None
    every = [found["suspect"][0] for found in findings if found["suspect"] is not None]
    fired = sum(is_same(other, first) for other in every)
    return Suspect(op=first, is_read=all(read), fired=fired)


def is_same(op: Operation, other: Operation) -> bool:
    """Say whether two repeats tell of one operation of the code."""
    # Of tensors in another order any may be the first.
    parts = [part for part in SAME if part != "parameter" or other["differs_in"] != "tensors"]
    return all(op[part] == other[part] for part in parts)
