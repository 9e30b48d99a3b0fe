"""What shows how large a difference between two runs is, each beside what rounding explains of it.

- the losses: of the step in which the runs diverged, which shows the forward pass, and of the first
  step that starts with other parameters, which shows what the update made of it (under a schedule
  that begins at a rate of 0 that is not the next one). Later ones show how training enlarges
  anything;
- the updates: how far the parameters are apart, relative to how far they moved. A loss may be blind
  (a small rate, gradients that hardly matter) or too sharp (it is a difference of large numbers);
- the parameters after a step in which equal gradients led to other ones: only the optimizer did
  that. An optimizer may not feel at once what it was given (Adam's first update is the same
  whatever the gradients' scale), so the loss after the next update is looked at, too.
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
from twinrun.comparison.formats import Formats, formats_of
from twinrun.comparison.kept_steps import row_of, rows_of
from twinrun.comparison.pair_records import Comparison, FirstDifference
from twinrun.formatting import measure

STEPS_LOOKED_AT = 2
OF_FORWARD_PASS = ("buffers", "loss")  # quantities that the loss of their own step shows


@dataclass(frozen=True, kw_only=True)
class Witness:
    """What shows a difference."""

    of: Literal["losses", "parameters", "updates"]
    """What is apart."""
    apart: float
    """How far, relative to the losses, the parameters, or the way that these moved."""
    bound: float
    """The most that rounding explains of it, in the coarsest formats that can reach it."""
    least: float
    """The same in the finest of the formats that the network consists of."""
    is_common: bool = True
    """Whether most of what is apart is: of updates, half of the elements that moved."""
    turns: bool = False
    """Whether that may be steps by chance: of updates, a quarter of the elements that moved do not
    go the same way. Of those that rounding decides one in two does not."""

    @property
    def excess(self) -> float:
        """How many times what rounding explains it is."""
        # The bound is 0 where all parameters are integers, and must not divide.
        return self.apart / (self.bound or math.inf)

    def numbers(self) -> str:
        """Say what was measured, and what rounding explains of it."""
        of = "the way they moved" if self.of == "updates" else "their size"
        what = "parameters" if self.of == "updates" else self.of
        return (
            f"{what} {measure(self.apart)} of {of} apart, by rounding at most {measure(self.bound)}"
        )


@dataclass(frozen=True, kw_only=True)
class Diverging:
    """Two runs of a comparison in which a step differs."""

    first: FirstDifference
    """What differed first."""
    steps: pd.DataFrame
    """The table of steps as far as every step was traced: a row's index is its step's, from 0."""
    paths: tuple[Path, Path]
    """The run.json of each."""
    losses: np.ndarray
    """Of the first run's steps."""
    formats: tuple[Formats, Formats]
    """Of each run."""

    @property
    def start(self) -> int:
        """The row of the step in which they diverged."""
        # Steps count from 1 and rows from 0. Step 0 is before training: the first row shows it.
        return max(self.first["step"] - 1, 0)

    @property
    def apart_at(self) -> int | None:
        """The row of the first step after which the parameters differ; None if they never do."""
        equal = self.steps["parameters_equal"].to_numpy(dtype=bool)
        differing = np.flatnonzero(~equal[self.start :])
        return self.start + int(differing[0]) if len(differing) else None

    @property
    def rise(self) -> tuple[float, float] | None:
        """The loss of the step in which they diverged and a later one, beside which it is rounding.

        As it is of a training that begins at a minimum: what rounding makes of gradients of 0
        decides its first steps. None where no loss rises so.
        """
        losses = np.abs(self.losses[self.start : self.start + 1 + STEPS_LOOKED_AT])
        if len(losses) < 2 or not np.isfinite(losses).all():
            return None
        first, largest = float(losses[0]), float(losses[1:].max())
        coarsest = max(rounding.error(of, steps_after=0) for of in self.formats)
        return (first, largest) if first <= coarsest * largest and largest else None

    @property
    def finest(self) -> tuple[Formats, Formats]:
        """The formats, each the finest of a run's."""
        return self.formats[0].finest(), self.formats[1].finest()


def diverging(found: Comparison, first: FirstDifference, steps: pd.DataFrame) -> Diverging:
    """Read what the witnesses are measured by.

    Args:
        found: the comparison.
        first: what differed first in it.
        steps: its table of steps.
    """
    one, other = (Path(run, "run.json") for run in found["runs"])
    # Two runs and no more: with the rows of a further repeat, a row's place would not be its step.
    losses = [
        artifacts.read_csv(run_files.verified(path, "steps.csv"), ["loss"])["loss"].to_numpy(float)
        for path in (one, other)
    ]
    return Diverging(
        first=first,
        steps=steps[steps["step"].to_numpy() == np.arange(1, len(steps) + 1)],
        paths=(one, other),
        losses=losses[0],
        formats=(
            formats_of(run_files.read_run(one), losses[0]),
            formats_of(run_files.read_run(other), losses[1]),
        ),
    )


def by_losses(runs: Diverging) -> list[Witness]:
    """Return the loss of each step that is looked at, where there is one."""
    first, start, apart_at = runs.first, runs.start, runs.apart_at
    differences, losses = runs.steps["loss_difference"].to_numpy(), np.abs(runs.losses)
    of_update = [] if apart_at is None else [apart_at + 1]
    if apart_at is not None and first["cause"] == "optimizer":
        of_update.append(apart_at + 2)
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
        shrunk = float(loss / np.nanmax(losses[: index + 1]))
        bound, least = (
            rounding.bound(*formats, steps_after=index - start, shrunk=shrunk)
            for formats in (runs.formats, runs.finest)
        )
        apart = float(differences[index] / loss)
        looked.append(Witness(of="losses", apart=apart, bound=bound, least=least))
    return looked


def by_updates(runs: Diverging) -> list[Witness]:
    """Return how far parameters are apart after the updates in which they diverged."""
    step, steps = runs.apart_at, runs.steps
    if step is None:
        return []
    # ASSUME the elements that tracing samples stand for all parameters: no step keeps them whole.
    samples = [
        artifacts.read_arrays(run_files.verified(path, "fingerprints.npz")) for path in runs.paths
    ]
    looked = []
    # A sample is taken after each step: of the first one nothing tells how far it moved them.
    before = max(step - 1, 0)
    for index in range(before + 1, min(step + STEPS_LOOKED_AT, len(steps))):
        numbers = steps["step"].to_numpy()[[before, index]]
        (start, left), (begun, right) = (
            [_sample_after(arrays, int(number)) for number in numbers] for arrays in samples
        )
        if start is None or left is None or begun is None or right is None:
            continue
        moved = float(np.linalg.norm(left - start))
        apart = float(np.linalg.norm(right - left))
        if not apart and not steps["parameters_equal"][index]:
            continue  # the sample holds none of those that differ
        size = float(np.linalg.norm(left))
        bound, least = (
            rounding.movement_bound(*formats, size=size, moved=moved)
            for formats in (runs.formats, runs.finest)
        )
        if any(formats.loss for formats in runs.formats):
            # No loss shows whether half of the digits are lost by rounding: without cancellation.
            least = sum(rounding.error(formats, steps_after=1) for formats in runs.finest)
            least += rounding.storing_bound(*runs.finest, size=size) / (moved or 1)
        # With a bound like this the parameters hide any update.
        if np.isfinite(apart) and moved and bound < 1:
            way, other = left - start, right - begun
            has_moved = way != 0
            further = np.abs(right - left)[has_moved] > bound * np.abs(way)[has_moved]
            turned = (np.sign(other) != np.sign(way))[has_moved]
            looked.append(
                Witness(
                    of="updates",
                    apart=apart / moved,
                    bound=bound,
                    least=least,
                    is_common=float(further.mean()) > 1 / 2,
                    turns=float(turned.mean()) >= 1 / 4,
                )
            )
    return looked


def sampled_updates(runs: Diverging) -> tuple[np.ndarray, np.ndarray]:
    """Return how far each step brings parameters apart, of the way they move in it.

    Returns:
        Of each step, NaN where it or the step before has no sample; and what storing explains.
    """
    numbers = runs.steps["step"].to_numpy()
    found = [artifacts.read_arrays(run_files.verified(of, "fingerprints.npz")) for of in runs.paths]
    rows = [rows_of(arrays, "sample_steps", numbers) for arrays in found]
    apart, stored = np.full((2, len(numbers)), np.nan)
    known = (rows[0] >= 0) & (rows[1] >= 0)
    for index in np.flatnonzero(known[1:] & known[:-1]) + 1:
        (start, left), (other, right) = (
            arrays["sample"][of[[index - 1, index]]].astype(np.float64)
            for arrays, of in zip(found, rows, strict=True)
        )
        moved = float(np.linalg.norm(left - start))
        if moved and np.isfinite(moved):
            apart[index] = np.linalg.norm((right - other) - (left - start)) / moved
            size = float(np.linalg.norm(left))
            stored[index] = rounding.storing_bound(*runs.finest, size=size) / moved
    return apart, stored


def _sample_after(arrays: Mapping[str, np.ndarray], step: int) -> np.ndarray | None:
    """Return the parameters' elements that were kept after a step, float64; None if none were."""
    row = row_of(arrays, "sample_steps", step)
    return None if row is None else arrays["sample"][row].astype(np.float64)


def by_parameters(runs: Diverging) -> list[Witness]:
    """Return the parameters after the step in which equal gradients led to other ones."""
    if runs.first["cause"] != "optimizer":
        return []
    apart = float(runs.steps["relative_l2"][runs.start])
    # 0 where the sample holds none of those that differ, or the optimizer's state alone differs;
    # NaN where the step has none.
    if not apart or math.isnan(apart):
        return []
    bound, least = (rounding.update_bound(of[0]) for of in (runs.formats, runs.finest))
    return [Witness(of="parameters", apart=apart, bound=bound, least=least)]
