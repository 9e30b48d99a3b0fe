"""From which step on a variant pays for its first call.

The first call of a compiled variant compiles, allocates, captures: once a training. A timing has
torch compile something before, so a training compiles for longer, whose compiler has to start: the
longer of the two counts. Trainings are of the workload's own size: at another one the compiler's
start is taken to be as long. What a step then saves is that of a step through the Trainer where
that was measured, else of the bare step. Its time ratio has an interval, and so have the steps that
pay: a training whose length lies in it may be too short.

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
from twinrun.timing.training_length import length_of_training, own_size

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
    saved_by: tuple[float, float] | None = None
    """The least and the most of it, by the ratio's 95 % interval; None where it has none."""
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
        return self._steps_of(self.saved)

    @property
    def ends(self) -> tuple[float, float]:
        """Return the fewest and the most of them, by the interval of what a step saves."""
        least, most = self.saved_by or (self.saved, self.saved)
        return self._steps_of(most), self._steps_of(least)

    def _steps_of(self, saved: float) -> float:
        if self.effect != "faster" or saved <= 0:
            return math.inf
        return max(self.once, 0.0) / saved

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
        return self.ends[1] < min(FEW_STEPS, math.inf if self.has is None else self.has)

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
        """Say whether the training is long enough; None where that is not known, or not sure."""
        if self.is_undecided:
            return None
        if self.is_free or self.never_pays:
            return not self.never_pays
        if self.has is None or self.is_unsure:
            return None
        fewest, most = self.ends
        if self.has <= fewest:
            return False
        return None if self.is_most or self.has <= most else True

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
        whole = step[timing["baseline"]]["seconds_per_step"]
        low, high = ratio["low"], ratio["high"]
        behind = medians_behind(timing, ratio)
        bare = _ratio(timing, "train", variant, size)
        return BreakEven(
            once=once,
            is_of_run=once > first,
            step=whole,
            saved=whole * (1 - ratio["time_ratio"]),
            saved_by=None
            if low is None or high is None
            else (whole * (1 - high), whole * (1 - low)),
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
    own = own_size(timing)
    there = first if own == size else _first_call(timing, variant, own)
    return seconds if there is None else first + seconds - there


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
    >>> of |= {"effect": "faster", "has": 3120, "saved_by": (0.008, 0.02)}
    >>> words(BreakEven(once=26.7, saved=0.011, **of)).partition("pays ")[2][:40]
    'above about 2,500 steps (1,300 to 3,400 '
    >>> words(BreakEven(once=26.7, saved=0.011, **of)).partition("; ")[2]
    'this training has 3,120, which may be too few'
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
    pays = f"{takes}, which pays above about {plural(_shown(found.steps, found.has), 'step')}"
    fewest, most = (_shown(end, found.has) for end in found.ends)
    if fewest < most:
        pays += f" ({count(fewest)} to {count(most)} by the interval of a step)"
    if found.has is None:
        return pays
    is_between = found.ends[0] < found.has <= found.ends[1]
    too_few = "may be" if is_between else "is" if found.pays_in_training is False else ""
    return f"{pays}; this training has {found.length}{too_few and f', which {too_few} too few'}"


def _shown(steps: float, has: int | None) -> int:
    """Round up, but not so far that a training that has enough would seem too short."""
    rounded = rounded_up(steps)
    return math.ceil(steps) if has is not None and steps < has <= rounded else rounded


def rounded_up(steps: float) -> int:
    """Round up to two digits: the first call was measured once.

    >>> rounded_up(2310.2), rounded_up(7.2), rounded_up(0.0)
    (2400, 8, 0)
    """
    unit = 10 ** max(0, math.floor(math.log10(max(steps, 1))) - 1)
    return math.ceil(steps / unit) * unit


def ends(found: Sequence[BreakEven]) -> Iterator[int]:
    """Yield the fewest and the most steps that pay, rounded up; one if they agree.

    >>> alike = dict(is_of_run=False, step=0.1, effect="faster", bare="faster")
    >>> alike |= {"is_unsure": False, "has": None}
    >>> two = [BreakEven(once=once, saved=0.01, **alike) for once in (2.0, 1.0)]
    >>> list(ends(two)), list(ends(two[:1]))
    ([100, 200], [200])
    """
    fewest, most = min(of.ends[0] for of in found), max(of.ends[1] for of in found)
    yield from dict.fromkeys(map(rounded_up, (fewest, most)))


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
