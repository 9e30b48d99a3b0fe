"""Whether a difference between two runs is rounding, or the training computed something else.

Other initial weights, batches, random numbers and settings of the optimizer are never rounding,
however little they move the loss. What arises inside a step is judged by its loss: in the step in
which the runs diverged, which shows the forward pass, and in the next one, which shows what the
update made of it. Later ones show how training enlarges anything. Where gradients were equal, and
the optimizer made something else of them, the parameters after the step tell more than the next
loss. Each is compared with what rounding explains there (see `rounding`): `algorithmic` is what
goes beyond it. `rounding` says no more than that it does not: in a low precision much hides behind
rounding.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from twinrun import artifacts, run_files
from twinrun.comparison import rounding
from twinrun.comparison.causes import GIVEN
from twinrun.comparison.pair_records import Comparison, FirstDifference
from twinrun.formatting import measure

STEPS_LOOKED_AT = 2
OF_FORWARD_PASS = ("buffers", "loss")  # quantities that the loss of their own step shows


@dataclass(frozen=True, kw_only=True)
class DifferenceSize:
    """What a difference can come from, and what that was judged by."""

    size: Literal["rounding", "algorithmic"]
    """Whether rounding explains the difference."""
    judged_by: Literal["cause", "losses", "parameters"]
    """The cause by itself, or the distance of the losses or of the parameters."""
    apart: float | None = None
    """|difference of the losses| / |loss|, or the relative L2 distance of the parameters; None
    where the cause alone decides."""
    bound: float | None = None
    """The most that rounding explains of it."""

    def sentence(self) -> str:
        """Say it in a clause, with its numbers."""
        if self.judged_by == "cause":
            return "which rounding cannot cause"
        than = "more" if self.size == "algorithmic" else "no more"
        return (
            f"{than} than rounding explains ({self.judged_by} {measure(self.apart)} of their size "
            f"apart, by rounding at most {measure(self.bound)})"
        )


def size_of(found: Comparison, steps: Path) -> DifferenceSize | None:
    """Judge the difference of two runs.

    Args:
        found: their comparison.
        steps: its table of steps.

    Returns:
        None if nothing differs at any step, or no loss shows what does: none is known, it is not
        finite or 0 in the first run, or the training ended.
    """
    first = found["first_difference"]
    if first is None:
        return None
    if first["quantity"] in GIVEN:
        return DifferenceSize(size="algorithmic", judged_by="cause")
    looked = _losses_looked_at(found, first, steps)
    if first["cause"] == "optimizer":
        looked.append(_parameters_looked_at(found, first, steps))
    # The one that goes farthest beyond its bound. The bound is 0 where all parameters are
    # integers, and must not divide.
    return max(looked, key=lambda size: (size.apart or 0) / (size.bound or math.inf), default=None)


def losses_apart(found: Comparison, steps: Path) -> float | None:
    """Return |difference of the losses| / |loss|, the largest of the steps that are looked at."""
    first = found["first_difference"]
    if first is None:
        return None
    looked = _losses_looked_at(found, first, steps)
    return max((size.apart or 0 for size in looked), default=None)


def _losses_looked_at(
    found: Comparison, first: FirstDifference, steps: Path
) -> list[DifferenceSize]:
    """Judge the loss of each step that is looked at, where there is one."""
    differences = artifacts.read_csv(steps, ["loss_difference"])["loss_difference"].to_numpy()
    # Two runs and no more: with the rows of a further repeat, a row's place would not be its step.
    baseline, changed = (run_files.read_run(Path(run, "run.json")) for run in found["runs"])
    steps_of_baseline = run_files.verified(Path(found["runs"][0], "run.json"), "steps.csv")
    losses = artifacts.read_csv(steps_of_baseline, ["loss"])["loss"].abs().to_numpy()
    # Steps count from 1 and rows from 0. Step 0 is before training: the first row shows it.
    start = max(first["step"] - 1, 0)
    looked = []
    for index in range(start, min(start + STEPS_LOOKED_AT, len(differences))):
        loss = losses[index]
        # Nothing can be measured relative to it. A step without a loss, as with manual
        # optimization, is written as NaN.
        if not np.isfinite(loss) or loss == 0:
            continue
        if index == start and first["step"] and first["quantity"] not in OF_FORWARD_PASS:
            continue  # this loss was computed before what differs
        # nanmax, since an earlier step may have given no loss. After an infinite loss the bound is
        # infinite: nothing is called algorithmic by it.
        bound = rounding.bound(
            baseline,
            changed,
            steps_after=index - start,
            shrunk=float(loss / np.nanmax(losses[: index + 1])),
        )
        looked.append(_judged("losses", float(differences[index] / loss), bound))
    return looked


def _parameters_looked_at(found: Comparison, first: FirstDifference, steps: Path) -> DifferenceSize:
    """Judge the parameters after the step in which equal gradients led to other ones."""
    run = run_files.read_run(Path(found["runs"][0], "run.json"))
    # ASSUME the elements that tracing samples stand for all parameters: no step keeps them whole.
    table = artifacts.read_csv(steps, ["relative_l2"])
    apart = float(table["relative_l2"][first["step"] - 1])
    return _judged("parameters", apart, rounding.update_bound(run))


def _judged(
    judged_by: Literal["losses", "parameters"], apart: float, bound: float
) -> DifferenceSize:
    size = "algorithmic" if apart > bound else "rounding"
    return DifferenceSize(size=size, judged_by=judged_by, apart=apart, bound=bound)
