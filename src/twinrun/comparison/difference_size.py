"""Whether a difference between two runs is rounding, or the training computed something else.

Other initial weights, batches, random numbers and settings of the optimizer are never rounding,
however little they move the loss. What arises inside a step is judged by two witnesses:

- the losses: of the step in which the runs diverged, which shows the forward pass, and of the first
  step that starts with other parameters, which shows what the update made of it (under a schedule
  that begins at a rate of 0 that is not the next one). Later ones show how training enlarges
  anything;
- the updates: how far the parameters are apart, relative to how far they moved. A loss may be blind
  (a small rate, gradients that hardly matter) or too sharp (it is a difference of large numbers).

Where gradients were equal, and the optimizer made something else of them, the parameters after the
step tell more than the next loss. Each is compared with what rounding explains there (see
`rounding`). `algorithmic` and `rounding` are said where the witnesses agree, else `undecided`, with
what each says. Buffers may differ where no parameter feels it (a moving average that only
predicts): where parameters end with half of their digits equal, buffers must, too. Nor is it said
to be rounding where a later step was given something else: see `given_later`. `rounding` says no
more than that it suffices: in a low precision much hides behind rounding.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from twinrun import artifacts, run_files
from twinrun.comparison import rounding
from twinrun.comparison.causes import GIVEN
from twinrun.comparison.given_later import GIVEN_TO_STEPS, given_otherwise
from twinrun.comparison.kept_steps import row_of
from twinrun.comparison.pair_records import Comparison, FirstDifference
from twinrun.comparison.tensors import buffers_apart
from twinrun.formatting import count, measure
from twinrun.run_records import RunManifest

STEPS_LOOKED_AT = 2
OF_FORWARD_PASS = ("buffers", "loss")  # quantities that the loss of their own step shows
OF_STEPS = ["step", "loss_difference", "relative_l2", "parameters_equal", *GIVEN_TO_STEPS]
BLIND = "no step shows what the updates made of it"


@dataclass(frozen=True, kw_only=True)
class DifferenceSize:
    """What a difference can come from, and what that was judged by."""

    size: Literal["rounding", "algorithmic", "undecided"]
    """Whether rounding explains the difference."""
    judged_by: Literal["cause", "losses", "parameters", "updates"]
    """The cause by itself, or the distance of the losses, of the parameters or of their updates."""
    apart: float | None = None
    """|difference of the losses| / |loss|, the relative L2 distance of the parameters, or their
    distance relative to how far they moved; None where the cause alone decides."""
    bound: float | None = None
    """The most that rounding explains of it."""
    doubt: str | None = None
    """Why it is undecided."""

    def sentence(self) -> str:
        """Say it in a clause, with its numbers."""
        if self.judged_by == "cause":
            return "which the rounding of the steps does not cause"
        if self.doubt is not None:
            return f"undecided whether rounding explains it: {self.doubt}"
        than = "more" if self.size == "algorithmic" else "no more"
        return f"{than} than rounding explains ({self.numbers()})"

    def numbers(self) -> str:
        """Say what was measured, and what rounding explains of it."""
        of = "the way they moved" if self.judged_by == "updates" else "their size"
        what = "parameters" if self.judged_by == "updates" else self.judged_by
        return (
            f"{what} {measure(self.apart)} of {of} apart, by rounding at most {measure(self.bound)}"
        )

    @property
    def excess(self) -> float:
        """How many times what rounding explains it is."""
        # The bound is 0 where all parameters are integers, and must not divide.
        return (self.apart or 0) / (self.bound or math.inf)


def size_of(found: Comparison, steps: Path) -> DifferenceSize | None:
    """Judge the difference of two runs.

    Args:
        found: their comparison.
        steps: its table of steps.

    Returns:
        None if nothing differs at any step.
    """
    first = found["first_difference"]
    if first is None:
        return None
    if "since" in first:
        unseen = "no step shows what no module holds"
        if first["since"]:
            unseen = f"the steps from {count(first['since'])} on were not traced"
        return DifferenceSize(size="undecided", judged_by="losses", doubt=unseen)
    if first["quantity"] in GIVEN:
        return DifferenceSize(size="algorithmic", judged_by="cause")
    every = artifacts.read_csv(steps, OF_STEPS)
    table = _consecutive(every)
    runs = tuple(run_files.read_run(Path(run, "run.json")) for run in found["runs"])
    losses = _losses_looked_at(found, first, table)
    if first["cause"] == "optimizer":
        losses += _parameters_looked_at(found, first, table)
    # The ones that go farthest beyond their bounds.
    by_loss = max(losses, key=lambda size: size.excess, default=None)
    by_update = max(
        _updates_looked_at(found, first, table, (runs[0], runs[1])),
        key=lambda size: size.excess,
        default=None,
    )
    judged = _together(by_loss, by_update, is_forward=first["quantity"] in OF_FORWARD_PASS)
    if judged.size != "rounding":
        return judged
    other = given_otherwise(found, every)
    if other is not None:
        return _undecided(judged, f"{judged.numbers()}; but {other}")
    return _with_buffers(judged, found, (runs[0], runs[1]))


def _together(
    by_loss: DifferenceSize | None, by_update: DifferenceSize | None, *, is_forward: bool
) -> DifferenceSize:
    """Judge by two witnesses, each of which may know nothing."""
    if by_loss is None:
        blind = DifferenceSize(size="undecided", judged_by="losses", doubt=BLIND)
        return blind if by_update is None else by_update
    if by_loss.judged_by == "parameters":
        return by_loss
    if by_update is None:
        if by_loss.size == "algorithmic":
            return by_loss
        # Losses that are as near as rounding brings them show a forward pass, and no update.
        return by_loss if is_forward else _undecided(by_loss, BLIND)
    if by_loss.size == by_update.size:
        return by_loss
    return _undecided(by_loss, f"{by_loss.numbers()}; {by_update.numbers()}")


def _undecided(judged: DifferenceSize, doubt: str) -> DifferenceSize:
    return DifferenceSize(
        size="undecided",
        judged_by=judged.judged_by,
        apart=judged.apart,
        bound=judged.bound,
        doubt=doubt,
    )


def _with_buffers(
    judged: DifferenceSize, found: Comparison, runs: tuple[RunManifest, RunManifest]
) -> DifferenceSize:
    """Doubt that it is rounding where the parameters stayed together, and buffers did not."""
    apart, bound = buffers_apart(found), rounding.half_of_digits(*runs)
    if apart is None or apart <= bound or (found["relative_l2"] or 0) > bound:
        return judged
    return _undecided(
        judged,
        f"{judged.numbers()}; but buffers end a relative L2 of {measure(apart)} apart, and "
        f"parameters {measure(found['relative_l2'])}",
    )


def losses_apart(found: Comparison, steps: Path) -> float | None:
    """Return |difference of the losses| / |loss|, the largest of the steps that are looked at."""
    first = found["first_difference"]
    if first is None or "since" in first:
        return None
    looked = _losses_looked_at(found, first, _consecutive(artifacts.read_csv(steps, OF_STEPS)))
    return max((size.apart or 0 for size in looked), default=None)


def _consecutive(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table as far as every step was traced: a row's index is its step's, from 0."""
    return table[table["step"].to_numpy() == np.arange(1, len(table) + 1)]


def _losses_looked_at(
    found: Comparison, first: FirstDifference, steps: pd.DataFrame
) -> list[DifferenceSize]:
    """Judge the loss of each step that is looked at, where there is one."""
    differences = steps["loss_difference"].to_numpy()
    # Two runs and no more: with the rows of a further repeat, a row's place would not be its step.
    baseline, changed = (run_files.read_run(Path(run, "run.json")) for run in found["runs"])
    steps_of_baseline = run_files.verified(Path(found["runs"][0], "run.json"), "steps.csv")
    losses = artifacts.read_csv(steps_of_baseline, ["loss"])["loss"].abs().to_numpy()
    start, apart_at = _start_of(first), _step_apart(first, steps)
    of_update = [] if apart_at is None else [apart_at + 1]
    looked = []
    # Of what differs before training, the first two: the first row shows it.
    for index in dict.fromkeys([start, *(of_update if first["step"] else [start + 1])]):
        if index >= len(differences):
            continue
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


def _start_of(first: FirstDifference) -> int:
    # Steps count from 1 and rows from 0. Step 0 is before training: the first row shows it.
    return max(first["step"] - 1, 0)


def _step_apart(first: FirstDifference, steps: pd.DataFrame) -> int | None:
    """Return the row of the first step after which the parameters differ; None if they never do."""
    start = _start_of(first)
    differing = np.flatnonzero(~steps["parameters_equal"].to_numpy(dtype=bool)[start:])
    return start + int(differing[0]) if len(differing) else None


def _updates_looked_at(
    found: Comparison,
    first: FirstDifference,
    steps: pd.DataFrame,
    runs: tuple[RunManifest, RunManifest],
) -> list[DifferenceSize]:
    """Judge how far parameters are apart after the updates in which they diverged."""
    step = _step_apart(first, steps)
    if step is None:
        return []
    # ASSUME the elements that tracing samples stand for all parameters: no step keeps them whole.
    samples = [
        artifacts.read_arrays(run_files.verified(Path(run, "run.json"), "fingerprints.npz"))
        for run in found["runs"]
    ]
    looked = []
    # A sample is taken after each step: of the first one nothing tells how far it moved them.
    before = max(step - 1, 0)
    for index in range(before + 1, min(step + STEPS_LOOKED_AT, len(steps))):
        numbers = steps["step"].to_numpy()[[before, index, index]]
        start, left, right = (
            _sample_after(arrays, int(number))
            for arrays, number in zip((samples[0], *samples), numbers, strict=True)
        )
        if start is None or left is None or right is None:
            continue
        moved = float(np.linalg.norm(left - start))
        apart = float(np.linalg.norm(right - left))
        if not apart and not steps["parameters_equal"][index]:
            continue  # the sample holds none of those that differ
        bound = rounding.movement_bound(*runs, size=float(np.linalg.norm(left)), moved=moved)
        # With a bound like this the parameters hide any update.
        if np.isfinite(apart) and moved and bound < 1:
            looked.append(_judged("updates", apart / moved, bound))
    return looked


def _sample_after(arrays: Mapping[str, np.ndarray], step: int) -> np.ndarray | None:
    """Return the parameters' elements that were kept after a step, float64; None if none were."""
    row = row_of(arrays, "sample_steps", step)
    return None if row is None else arrays["sample"][row].astype(np.float64)


def _parameters_looked_at(
    found: Comparison, first: FirstDifference, steps: pd.DataFrame
) -> list[DifferenceSize]:
    """Judge the parameters after the step in which equal gradients led to other ones."""
    run = run_files.read_run(Path(found["runs"][0], "run.json"))
    apart = float(steps["relative_l2"][first["step"] - 1])
    # 0 where the sample holds none of those that differ, or the optimizer's state alone differs;
    # NaN where the step has none.
    if not apart or math.isnan(apart):
        return []
    return [_judged("parameters", apart, rounding.update_bound(run))]


def _judged(
    judged_by: Literal["losses", "parameters", "updates"], apart: float, bound: float
) -> DifferenceSize:
    size = "algorithmic" if apart > bound else "rounding"
    return DifferenceSize(size=size, judged_by=judged_by, apart=apart, bound=bound)
