"""Which steps of a training were traced, in a clause."""

from twinrun.config.traced_steps import TracedSteps
from twinrun.formatting import count

UNTRACED = "parameters and buffers compared before the first step and at the end only; not traced"

HASHED_APART = (
    "compared whole at the first traced step alone, since fingerprints of a GPU are no CPU's; at "
    "others losses, RNG states and sampled parameters"
)

SHARDS_APART = (
    "the batches of {steps} not compared, since the shards of several workers could not be put "
    "together to a whole mini-batch"
)


def traced_clause(traced: TracedSteps, *steps: int) -> str | None:
    """Say which steps of trainings were traced; None where all were.

    Args:
        traced: the steps that were to be.
        steps: how many each training has.

    >>> traced_clause(TracedSteps(every=10), 40)
    'traced every 10th step'
    >>> traced_clause(TracedSteps(every=None, first=100), 400)
    'traced at the first 100 steps alone'
    >>> traced_clause(TracedSteps(every=None, first=100), 40)
    >>> traced_clause(TracedSteps(every=100), 10).rpartition("; ")[2]
    'not traced, as every 100th step is none of 10'
    """
    if traced.are_none:
        return UNTRACED
    if all(traced.number(each) == each for each in steps):
        return None
    # What one of them alone did is compared with nothing.
    if traced.every is not None and not traced.number(min(steps)):
        return f"{UNTRACED}, as every {ordinal(traced.every)} step is none of {count(min(steps))}"
    first = f"the first {count(traced.first)} steps" if traced.first > 1 else "the first step"
    if traced.every is None or traced.number(max(steps)) <= traced.first:
        return f"traced at {first} alone"
    every = f"every {ordinal(traced.every)} step"
    return f"traced at {first} and {every}" if traced.first else f"traced {every}"


def ordinal(number: int) -> str:
    """Write the ordinal of a number.

    >>> [ordinal(number) for number in (2, 3, 10, 11, 21, 112)]
    ['2nd', '3rd', '10th', '11th', '21st', '112th']
    """
    is_teen = number % 100 in (11, 12, 13)
    ending = "th" if is_teen else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{count(number)}{ending}"
