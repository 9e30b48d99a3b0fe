"""Whether a later step tears two runs apart, more than rounding lets them diverge in one.

Witnesses are of the steps in which runs diverge. Behind these training enlarges what is apart,
rounding too, but it takes steps: where one loses more than half of the digits in which losses or
updates still agreed, a second cause may have begun in it. The model has no other number for what
a network enlarges within a step (see `rounding.movement_bound`). It may be the network all the same
(a branch, a near tie), which is why nothing is called algorithmic by it.

Not seen is what grows by less, what begins where half of the digits are gone already, and updates
between steps of which no sample is kept.
"""

from collections.abc import Iterator

import numpy as np

from twinrun.comparison import rounding
from twinrun.comparison.witnesses import STEPS_LOOKED_AT, Diverging, sampled_updates
from twinrun.formatting import count, measure


def torn_apart(runs: Diverging) -> str | None:
    """Say in clauses which later steps tear the runs apart; None if at none."""
    return ", ".join([*_of_losses(runs), *_of_updates(runs)]) or None


def _of_losses(runs: Diverging) -> Iterator[str]:
    differences = runs.steps["loss_difference"].to_numpy()
    # A loss that is small beside earlier ones is a difference of numbers as large as they were.
    # Steps without a loss are NaN.
    largest = np.fmax.accumulate(np.abs(runs.losses[: len(differences)]))
    apart = np.divide(differences, largest, out=np.full(len(largest), np.nan), where=largest > 0)
    half = rounding.half_of_digits(*runs.formats)
    yield from _first_leap(runs, apart, apart, half, "losses {} of their size")


def _of_updates(runs: Diverging) -> Iterator[str]:
    apart, stored = sampled_updates(runs)
    # An update feels how far the parameters are apart and, with momentum, earlier updates.
    before = np.fmax(apart, runs.steps["relative_l2"].to_numpy())
    half = rounding.half_of_digits(*runs.finest)
    words = "parameters {} of the way they move"
    yield from _first_leap(runs, apart - stored, before, half, words)


def _first_leap(
    runs: Diverging, apart: np.ndarray, before: np.ndarray, half: float, words: str
) -> Iterator[str]:
    """Say of the first later step that loses more than half of the digits that agreed until then.

    Args:
        runs: two runs.
        apart: of each step, how far they are apart.
        before: of each step, what a later one may enlarge.
        half: the root of the relative spacing of their numbers.
        words: what is apart, with a place for a number.
    """
    numbers = runs.steps["step"].to_numpy()
    # Of earlier rows the witnesses are.
    begin = runs.start + 1 if runs.apart_at is None else runs.apart_at + STEPS_LOOKED_AT
    for index in range(begin, len(apart)):
        agreed = float(np.nanmax(np.append(before[:index], 0.0)))
        # Where all digits agreed, a step leaves half of them: `half` is `half**2 / half`.
        if apart[index] > max(agreed, half**2) / half:
            yield (
                f"step {count(int(numbers[index]))} brings {words.format(measure(apart[index]))} "
                f"apart, where none before it had more than {measure(agreed)}"
            )
            return
