"""Whether a difference between two runs is rounding, or the training computed something else.

Other initial weights, batches, random numbers and settings of the optimizer are never rounding,
however little they move the loss. What arises inside a step is judged by witnesses: losses, updates
and, where gradients were equal and the optimizer made something else of them, the parameters (see
`witnesses`). Each is compared with what rounding explains there (see `rounding`).

`rounding` is said where no witness goes further than that. `algorithmic` takes two that do, losses
and updates: either alone goes further by rounding, too. A loss may be a small difference of large
numbers, and Adam makes a whole step of a gradient that is but rounding, which is why most of the
elements that moved have to. In a format of fewer digits than float32's both may, and it is never
said of them. Nor is it where rounding may decide the steps of most elements, as at a minimum that a
training begins in: of these half go the other way, so that a quarter of all do, or the first loss
is rounding beside the next ones. Of parameters that equal gradients led to nothing is enlarged:
they alone are enough. Else it is `undecided`, with what each witness says. Buffers may differ where
no parameter feels it (a moving average that only predicts), and so may an evaluation: where
parameters end with half of their digits equal, buffers must, too, and then what is logged, tested
and predicted (see `outputs_apart`). Nor is it said to be rounding where a later step was given
something else, or tears the runs apart: see `given_later` and `later_steps`. `rounding` says no
more than that it suffices: in a low precision much hides behind rounding.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from twinrun import artifacts
from twinrun.comparison import rounding
from twinrun.comparison.causes import GIVEN
from twinrun.comparison.given_later import GIVEN_TO_STEPS, given_otherwise
from twinrun.comparison.later_steps import torn_apart
from twinrun.comparison.outputs_apart import outputs_apart
from twinrun.comparison.pair_records import Comparison
from twinrun.comparison.tensors import buffers_apart
from twinrun.comparison.witnesses import (
    OF_FORWARD_PASS,
    Diverging,
    Witness,
    by_losses,
    by_parameters,
    by_updates,
    diverging,
)
from twinrun.formatting import count, measure
from twinrun.wording import some

OF_STEPS = ["step", "loss_difference", "relative_l2", "parameters_equal", *GIVEN_TO_STEPS]
BLIND = "no step shows what the updates made of it"
ALONE = "nothing else shows it"
FEW = (
    "no more than half of the elements that moved are, and an optimizer may step by rounding alone"
)
TURNED = (
    "a quarter of the elements that moved or more do not go the same way in both, as they do where "
    "an optimizer steps by rounding alone"
)
RISEN = "as where a training begins with gradients that are but rounding, which decides its steps"
HIDDEN = "parameters move too little to show what the optimizer made of equal gradients"
SHORT = "in fewer digits than float32 has, a network may enlarge rounding to that"


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

    @property
    def is_by_numbers(self) -> bool:
        """Whether it is called algorithmic for how far the runs are apart."""
        return self.size == "algorithmic" and self.judged_by != "cause"

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
        if self.judged_by == "cause" or self.apart is None or self.bound is None:
            return ""
        return Witness(
            of=self.judged_by, apart=self.apart, bound=self.bound, least=self.bound
        ).numbers()


def size_of(found: Comparison, steps: Path, repeat: Path | None = None) -> DifferenceSize | None:
    """Judge the difference of two runs.

    Args:
        found: their comparison.
        steps: its table of steps.
        repeat: folder of the first one's repeat, if there is one.

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
    runs = diverging(found, first, every)
    judged = _together(runs)
    if judged.size != "rounding":
        return judged
    later = [given_otherwise(found, every), torn_apart(runs)]
    if any(later):
        doubt = f"{judged.numbers()}; but {', '.join(filter(None, later))}"
        return replace(judged, size="undecided", doubt=doubt)
    return _with_ends(judged, found, runs, repeat)


def _together(runs: Diverging) -> DifferenceSize:
    """Judge by all witnesses, each of which may know nothing."""
    updates = by_updates(runs)
    parameters, loss, update = (
        # The one that goes farthest beyond its bound.
        max(of_kind, key=lambda witness: witness.excess, default=None)
        for of_kind in (by_parameters(runs), by_losses(runs), updates)
    )
    seen = [witness for witness in (parameters, loss, update) if witness is not None]
    if not seen:
        return DifferenceSize(size="undecided", judged_by="losses", doubt=BLIND)
    if parameters is not None and parameters.apart > parameters.bound:
        return _judged("algorithmic", parameters)
    if all(witness.apart <= witness.least for witness in seen):
        # Losses that are as near as rounding brings them show a forward pass, and no update.
        if seen == [loss] and runs.first["quantity"] not in OF_FORWARD_PASS:
            return _judged("undecided", seen[0], BLIND)
        if runs.first["cause"] == "optimizer" and update is not None:
            computed = rounding.movement_bound(*runs.formats, size=0, moved=1)
            if update.bound > 2 * computed:
                return _judged("undecided", seen[0], f"{seen[0].numbers()}; but {HIDDEN}")
        # What it was judged by: a coarser bound would say less than was seen.
        return _judged("rounding", replace(seen[0], bound=seen[0].least))
    doubts = [witness.numbers() for witness in seen]
    doubts += [_of_mixed(witness) for witness in seen if witness.least < witness.bound]
    if loss is None or update is None:
        doubts.append(ALONE)
    elif loss.apart > loss.bound and update.apart > update.bound:
        if not update.is_common:
            doubts.append(FEW)
        elif any(witness.turns for witness in updates):
            doubts.append(TURNED)
        elif rise := runs.rise:
            first, largest = map(measure, rise)
            doubts.append(f"the loss rises from {first} to {largest} at once, {RISEN}")
        elif not any(formats.is_short for formats in runs.formats):
            return _judged("algorithmic", loss)
        else:
            doubts.append(SHORT)
    return _judged("undecided", seen[0], "; ".join(doubts))


def _judged(
    size: Literal["rounding", "algorithmic", "undecided"], by: Witness, doubt: str | None = None
) -> DifferenceSize:
    return DifferenceSize(size=size, judged_by=by.of, apart=by.apart, bound=by.bound, doubt=doubt)


def _of_mixed(witness: Witness) -> str:
    return (
        f"types of numbers are mixed, or a batch's may be another, and the finest explains "
        f"{measure(witness.least)} of these"
    )


def _with_ends(
    judged: DifferenceSize, found: Comparison, runs: Diverging, repeat: Path | None
) -> DifferenceSize:
    """Doubt that it is rounding where the parameters stayed together, and something else did not.

    That is buffers, or else what was computed of both.
    """
    bound, end = rounding.half_of_digits(*runs.formats), found["relative_l2"] or 0
    if end > bound:
        return judged
    apart = buffers_apart(found)
    if apart is not None and apart > bound:
        doubt = f"buffers end a relative L2 of {measure(apart)} apart"
    elif others := outputs_apart([Path(run) for run in found["runs"]], repeat, bound):
        doubt = some(others)
    else:
        return judged
    doubt = f"{judged.numbers()}; but {doubt}, and parameters {measure(end)}"
    return replace(judged, size="undecided", doubt=doubt)


def losses_apart(found: Comparison, steps: Path) -> float | None:
    """Return |difference of the losses| / |loss|, the largest of the steps that are looked at."""
    first = found["first_difference"]
    if first is None or "since" in first:
        return None
    looked = by_losses(diverging(found, first, artifacts.read_csv(steps, OF_STEPS)))
    return max((witness.apart for witness in looked), default=None)
