"""The record of a proof that fast steps compute what plain ones do: see `acceleration.proof`."""

from typing import TypedDict


class Share(TypedDict):
    """How many of how many."""

    judged: int
    """How many could be judged."""
    of: int
    """How many there are."""


class ProofLeg(TypedDict):
    """Fast steps compared with plain ones in one precision: see `acceleration.proof`."""

    precision: str
    """Lightning's name of it."""
    distance: float
    """The largest relative L2 distance of a value that was compared; of one that is no further off
    than rounding leaves of a 0, relative to the largest of its kind."""
    bound: float
    """The distance that rounding explains."""
    judged: int
    """Values that were compared and depend on the weights."""
    left_out: int
    """Values that rounding alone moves too far to tell."""
    unrepeated: int
    """Values that a second plain training does not repeat."""
    fixed: int
    """Counters, rates and constants, which were compared but show nothing."""
    losses: Share
    """How many of the losses were judged."""
    parameters: Share
    """How many of the parameters that training moves were judged."""


class Proof(TypedDict):
    """That a variant's fast steps compute what plain ones compute, but for rounding."""

    steps: int
    """Steps of each short training."""
    shapes: int
    """Shapes of batch in them."""
    in_parts: str | None
    """Why steps are not done in one piece, where the variant asks for that."""
    legs: list[ProofLeg]
    """In float64, and in the variant's own precision."""
    not_in_float64: str | None
    """Why the first of them is missing."""
    seed: int
    """The seed of the short trainings."""
    seconds: float
    """That the proof took when it was made."""
    key: str | None
    """Hash of what it rests on; None for one that is not kept for others."""
    is_remembered: bool
    """Whether it was made before, by another run or timing of the same: another seed, or repeat."""
