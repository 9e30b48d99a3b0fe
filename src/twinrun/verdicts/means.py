"""How means over seeds are written, and what is said where luck decides nothing."""

from collections.abc import Sequence

from twinrun.formatting import count, digits_for, measure, plural
from twinrun.luck.forecast import MOST_SEEDS
from twinrun.luck.welch import Scatter, steps_between

NONE_AHEAD = "from one seed only, by which none is ahead"
UNMOVED = "no seed changes these values, so how much of the order is luck was not measured"
ALIKE = (
    "each of these seeds gives {whom} the same value, as it would one training done twice: if they "
    "are the same, more seeds tell nothing"
)


def seeds_still(needed: int | None, seeds: int) -> str:
    """Say how many seeds would decide.

    >>> seeds_still(7, 3)
    '7 seeds would probably tell such a difference (4 more)'
    """
    if needed is None:
        return f"no number of seeds up to {count(MOST_SEEDS)} would probably tell"
    needed = max(needed, seeds + 1)
    return (
        f"{plural(needed, 'seed')} would probably tell such a difference "
        f"({count(needed - seeds)} more)"
    )


def spread(found: Scatter, digits: int = 3) -> str:
    """Write a mean with its 95 % interval, which is seen however narrow it is.

    Args:
        found: of one choice.
        digits: of a mean without an interval.
    """
    if found.interval is None:
        return measure(found.mean, digits)
    low, high = found.interval
    digits = digits_for(max(abs(low), abs(high)), high / 2 - low / 2)
    low, mean, high = (measure(value, digits) for value in (low, found.mean, high))
    return f"{mean} ({low} to {high})"


def digits_apart(found: Sequence[Scatter]) -> int:
    """Return how many digits tell means from each other that are more than rounding apart."""
    means = [of.mean for of in found]
    return digits_for(max(map(abs, means)), min(steps_between(means), default=0.0))
