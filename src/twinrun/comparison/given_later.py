"""What two trainings were given otherwise at any step, also behind the one in which they diverged.

The size of a difference is judged where it began. A pair that began to differ by rounding may be
given other batches, random numbers or settings of the optimizer behind it, or end elsewhere: that
decides more of what is learned, and the first difference does not show it. It need not be a cause
of its own: a schedule on a plateau, or early stopping, may have followed what rounding began. Does
without torch.
"""

from collections.abc import Iterator

import pandas as pd

from twinrun.comparison.pair_records import Comparison
from twinrun.formatting import count, plural

# Columns of the table of steps, in the order of `causes`, and what is said where one is not equal.
GIVEN_TO_STEPS = {
    "random_equal": "the RNG states are others",
    "batch_equal": "the batches are others",
    "settings_equal": "the optimizer's settings are others",
}


def given_otherwise(found: Comparison, steps: pd.DataFrame) -> str | None:
    """Say in clauses what was given otherwise, each with its first step; None if nothing was.

    Of steps that were not traced nobody knows, and that is said.

    Args:
        found: a comparison of two runs.
        steps: its table of steps.
    """
    return ", ".join([*_of_steps(steps), *_of_number(found), *_of_unseen(found)]) or None


def _of_steps(steps: pd.DataFrame) -> Iterator[str]:
    for column, words in GIVEN_TO_STEPS.items():
        # A cell is empty where nobody knows.
        differing = steps["step"][steps[column].eq(False)]
        if len(differing):
            yield f"from step {count(int(differing.iloc[0]))} {words}"


def _of_number(found: Comparison) -> Iterator[str]:
    if "steps_of_runs" in found:
        first, second = found["steps_of_runs"]
        yield f"one training has {plural(first, 'step')} and the other {count(second)}"


def _of_unseen(found: Comparison) -> Iterator[str]:
    if "traced" in found:
        yield "what the steps that were not traced were given is not known"
