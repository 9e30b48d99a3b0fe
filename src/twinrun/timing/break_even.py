"""From which step on a variant pays for its first call.

The first call of a compiled variant compiles, allocates, captures: once a training. A timing has
torch compile something before, so a training compiles for longer, whose compiler has to start: the
longer of the two counts. Trainings are of the workload's own size: at another one the compiler's
start is taken to be as long. What a step then saves is that of a step through the Trainer where
that was measured, else of the bare step.

A training has as many mini-batches as its epochs, or as trainings had that ended before these.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from twinrun.formatting import count, plural, seconds
from twinrun.timing.ratio_words import Effect
from twinrun.timing.steadiness import clear_effect, medians_behind
from twinrun.timing.summary import Median, Ratio, TimingSummary
from twinrun.timing.trained import Trained

FEW_STEPS = (
    10  # a first call that is made up for by fewer costs nothing, in a training that has them
)
IN_TRAINER = {
    "faster": "is faster",
    "slower": "is slower",
    "no difference that matters": "shows no difference that matters",
    "no difference measured": "shows no difference that is measured",
    "too few measurements": "was measured too few times",
}


@dataclass(frozen=True, kw_only=True)
class BreakEven:
    """What a variant's first call costs, and when its steps have made up for it."""

    once: float
    """Seconds that the first call takes more than the baseline's; negative where it takes less."""
    is_of_run: bool
    """Whether these are what a training compiled for, which is longer."""
    step: float
    """Seconds of the baseline's step."""
    saved: float
    """Seconds that a step takes less than the baseline's; negative where it takes more."""
    effect: Effect
    """What the timing shows of a step: through the Trainer where that was measured."""
    bare: Effect
    """What it shows of the bare step; the same where no other one was measured."""
    is_unsure: bool
    """Whether the clock of the steps was unstable."""
    has: int | None
    """Mini-batches that the training takes; None where nobody can say."""
    is_most: bool = False
    """Whether it may take fewer: of a stream only `max_steps` is known."""

    @property
    def steps(self) -> float:
        """Return the steps after which it pays; infinite where no step is shown to be faster."""
        if self.effect != "faster" or self.saved <= 0:
            return math.inf
        return max(self.once, 0.0) / self.saved

    @property
    def subject(self) -> str:
        """Name what takes longer."""
        return "compiling in a training" if self.is_of_run else "its first call"

    @property
    def is_free(self) -> bool:
        """Say whether the first call costs next to nothing.

        Of steps that are not faster, none make up for it: it is compared with the steps themselves.
        """
        if math.isinf(self.steps):
            return self.once < FEW_STEPS * self.step
        return self.steps < min(FEW_STEPS, math.inf if self.has is None else self.has)

    @property
    def in_trainer(self) -> str:
        """Say what the step through the Trainer shows, where only the bare one is faster."""
        if self.bare != "faster" or self.effect == "faster":
            return ""
        return f"through Lightning's Trainer its step {IN_TRAINER[self.effect]}"

    @property
    def never_pays(self) -> bool:
        """Say whether steps are shown not to be faster, so that no number of them pays."""
        return math.isinf(self.steps) and not self.is_undecided

    @property
    def pays_in_training(self) -> bool | None:
        """Say whether the training is long enough; None where that is not known."""
        if self.is_undecided:
            return None
        if self.is_free or self.never_pays:
            return not self.never_pays
        if self.has is None or self.is_unsure:
            return None
        is_enough = self.steps < self.has
        return None if is_enough and self.is_most else is_enough

    @property
    def length(self) -> str | None:
        """Name the mini-batches that the training takes; None where nobody can say."""
        at_most = "at most " if self.is_most else ""
        return None if self.has is None else f"{at_most}{count(self.has)}"

    @property
    def is_undecided(self) -> bool:
        """Say whether the timing could not tell if a step is faster, or is so by next to nothing.

        A difference that does not matter in a step adds up: of enough steps, it may pay.
        """
        return self.effect not in ("faster", "slower")


def break_even(
    timing: TimingSummary,
    variant: str,
    size: int | None,
    trained: Trained | None = None,
) -> BreakEven | None:
    """Return from which step on a variant of a timing pays, at a size.

    Args:
        timing: the timing.
        variant: its name.
        size: at which it was measured.
        trained: what trainings of the workload show; None where there are none.

    Returns:
        None where the first calls or the steps of one of the two were not measured.
    """
    names, first = {variant, timing["baseline"]}, _first_call(timing, variant, size)
    if first is None:
        return None
    once = max(first, _in_training(timing, variant, size, first, trained))
    has, is_at_most = length_of_training(timing, size, trained)
    for phase in ("trainer", "train"):
        ratio, step = _ratio(timing, phase, variant, size), _medians(timing, phase, size)
        if ratio is None or not names <= step.keys():
            continue
        # By the ratio, not by both medians: it is taken within each round.
        saved = step[timing["baseline"]]["seconds_per_step"] * (1 - ratio["time_ratio"])
        behind = medians_behind(timing, ratio)
        bare = _ratio(timing, "train", variant, size)
        return BreakEven(
            once=once,
            is_of_run=once > first,
            step=step[timing["baseline"]]["seconds_per_step"],
            saved=saved,
            effect=clear_effect(ratio, behind),
            bare=clear_effect(bare or ratio, medians_behind(timing, bare or ratio)),
            is_unsure=any(median["unstable"] for median in behind),
            has=has,
            is_most=is_at_most,
        )
    return None


def _first_call(timing: TimingSummary, variant: str, size: int | None) -> float | None:
    """Return the seconds that a first call takes more than the baseline's; None if not measured."""
    calls, baseline = _medians(timing, "first_call", size), timing["baseline"]
    if not {variant, baseline} <= calls.keys():
        return None
    return calls[variant]["seconds_per_step"] - calls[baseline]["seconds_per_step"]


def _in_training(
    timing: TimingSummary, variant: str, size: int | None, first: float, trained: Trained | None
) -> float:
    """Return the seconds that a training compiles for more than the baseline's; 0 if not known."""
    if trained is None or not {variant, timing["baseline"]} <= trained.compiling.keys():
        return 0.0
    seconds = trained.compiling[variant] - trained.compiling[timing["baseline"]]
    own = _own_size(timing)
    there = first if own == size else _first_call(timing, variant, own)
    return seconds if there is None else first + seconds - there


def _own_size(timing: TimingSummary) -> int | None:
    """Return the size of the workload's trainings; None where the timing has no sizes."""
    name = timing["settings"]["timing"].size
    return None if name is None else timing["settings"]["workload"].hyperparameters.get(name)


def length_of_training(
    timing: TimingSummary, size: int | None, trained: Trained | None
) -> tuple[int | None, bool]:
    """Return the mini-batches of the workload's training at a size, and whether it may have fewer.

    None where nobody can say.
    """
    told, is_at_most = steps_of_training(timing, size), is_most(timing, size)
    if trained is None or trained.epochs is None:
        return told, is_at_most
    batches = _of_epoch(timing, size)
    if not batches or size != _own_size(timing):
        return told, True  # what ended the trainings may end this one
    taken = timing["settings"]["workload"].trainer.batches_taken(trained.epochs, batches)
    return taken, not trained.is_exact


def steps_of_training(timing: TimingSummary, size: int | None) -> int | None:
    """Return the mini-batches of the workload's training at a size; None where nobody can say.

    Of a stream as many as its `max_steps` may be; see `is_most`.
    """
    workload = timing["settings"]["workload"]
    told, batches = workload.trainer, _of_epoch(timing, size)
    if batches is None:
        return told.batches_of_steps()
    has_end = workload.epochs != -1 or told.max_steps != -1
    return told.batches_taken(workload.epochs, batches) if has_end and batches else None


def is_most(timing: TimingSummary, size: int | None) -> bool:
    """Say whether the training may have fewer mini-batches, since nobody knows when an epoch ends.

    Its epochs may be over before, and the last step of each may be of fewer mini-batches.
    """
    workload = timing["settings"]["workload"]
    is_exact = workload.epochs == -1 and workload.trainer.accumulation() == 1
    return _of_epoch(timing, size) is None and not is_exact


def _of_epoch(timing: TimingSummary, size: int | None) -> int | None:
    """Return the batches of an epoch: None of streams, 0 at a size that was not measured."""
    return next((e["train"] for e in timing["extents"] if e["size"] == size), 0)


def words(found: BreakEven | None) -> str:
    """Say what the first call costs, and whether the training is long enough; a clause, or nothing.

    >>> of = dict(is_of_run=False, step=0.03, bare="slower", is_unsure=False, has=3120)
    >>> words(BreakEven(once=26.7, saved=0.011, effect="faster", **of))
    'its first call takes 26.7 s more, which pays above about 2,500 steps; this training has 3,120'
    >>> words(BreakEven(once=26.7, saved=-0.01, effect="slower", **of))
    'its first call takes 26.7 s more, which never pays, since its steps are not faster'
    >>> words(BreakEven(once=26.7, saved=0.001, effect="no difference that matters", **of))
    'its first call takes 26.7 s more, and whether any number of steps pays for it is undecided'
    >>> words(BreakEven(once=26.7, saved=0.011, effect="faster", **of | {"has": 2480}))
    'its first call takes 26.7 s more, which pays above about 2,428 steps; this training has 2,480'
    """
    if found is None or found.is_free:
        return "" if found is None else found.in_trainer
    takes = f"{found.subject} takes {seconds(found.once)} more"
    if found.is_undecided:
        since = f", since {found.in_trainer}" if found.in_trainer else ""
        return f"{takes}, and whether any number of steps pays for it is undecided{since}"
    if found.never_pays:
        return f"{takes}, which never pays, since {found.in_trainer or 'its steps are not faster'}"
    if found.is_unsure:
        return f"{takes}, and how many steps pay for it is unsure: the clock was unstable"
    steps = rounded_up(found.steps)
    if found.has is not None and found.steps < found.has <= steps:
        steps = math.ceil(found.steps)  # rounded up, it would be too many
    pays = f"{takes}, which pays above about {plural(steps, 'step')}"
    if found.has is None:
        return pays
    too_few = ", which is too few" if found.pays_in_training is False else ""
    return f"{pays}; this training has {found.length}{too_few}"


def rounded_up(steps: float) -> int:
    """Round up to two digits: the first call was measured once.

    >>> rounded_up(2310.2), rounded_up(7.2)
    (2400, 8)
    """
    unit = 10 ** max(0, math.floor(math.log10(steps)) - 1)
    return math.ceil(steps / unit) * unit


def ends(found: Sequence[BreakEven]) -> Iterator[int]:
    """Yield the smallest and the largest number of steps that pay, rounded up; one if they agree.

    >>> alike = dict(is_of_run=False, step=0.1, effect="faster", bare="faster")
    >>> alike |= {"is_unsure": False, "has": None}
    >>> two = [BreakEven(once=once, saved=0.01, **alike) for once in (2.0, 1.0)]
    >>> list(ends(two)), list(ends(two[:1]))
    ([100, 200], [200])
    """
    numbers = [of.steps for of in found]
    yield from dict.fromkeys(rounded_up(end(numbers)) for end in (min, max))


def _ratio(timing: TimingSummary, phase: str, variant: str, size: int | None) -> Ratio | None:
    key = (phase, variant, size)
    found = (r for r in timing["ratios"] if (r["phase"], r["variant"], r["size"]) == key)
    return next(found, None)


def _medians(timing: TimingSummary, phase: str, size: int | None) -> dict[str, Median]:
    return {
        median["variant"]: median
        for median in timing["medians"]
        if (median["phase"], median["size"]) == (phase, size)
    }
