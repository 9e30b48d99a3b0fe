"""What a change is worth: no more than rounding, no more than another seed, or more.

A p below 5 % says more; from 5 to 20 % it decides nothing. Nor does one above it where the
perturbations would not tell a seed from rounding either.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from twinrun.comparison.noise_records import NoiseRun
from twinrun.luck.scale import BORDER, Scale, Tested, why_not
from twinrun.luck.sensitivity import (
    seeds_are_no_more,
    tells_seeds,
    to_tell_seeds,
    unmoved,
)
from twinrun.luck.student_t import LEVEL

Worth: TypeAlias = Literal[
    "equal",
    "no more than rounding",
    "no more than another seed",
    "more than another seed",
    "undecided",
    "not run",
    "not comparable",
]


@dataclass(frozen=True, kw_only=True)
class Weighed:
    """What a run is worth."""

    answer: Worth
    """On the scale."""
    reason: str | None
    """Why there is no answer, or what is no number."""
    rounding: Tested | None
    """May it be a perturbation? None where that was not asked."""
    seeds: Tested | None
    """May it be another seed?"""
    waits_for: Literal["perturbation", "seed"] | None
    """Of which kind more runs are needed; None where no more of these runs would decide."""
    needed: int | None
    """How many further ones would probably decide; None if no number does, or it cannot be said."""


def weigh(scale: Scale, run: NoiseRun) -> Weighed:
    """Say what a run is worth."""
    names = {measure["name"] for measure in scale.measures}
    if run["answer"] != "differs":
        return _without(run["answer"], run["reason"])
    if not names:
        return _without("not comparable", scale.nothing)
    if not names <= {*run["values"], *run["not_finite"]}:
        return _without("not comparable", why_not(run, names))
    rounding, seeds = scale.test(run, scale.rounding), scale.test(run, scale.seeds)
    answer, waits_for, reason = _answer(scale, rounding, seeds)
    broken = [name for name in run["not_finite"] if name in names]
    if broken and run["reason"] is not None:
        reason = "; ".join([run["reason"], *([reason] if reason else [])])
    elif broken and reason is None:
        reason = f"{' and '.join(broken)} without a number"
    needed = None
    if waits_for == "perturbation" and rounding is not None:
        is_near = rounding.p < BORDER or rounding.unlike is not None
        needed = rounding.needed if is_near else to_tell_seeds(scale)
    elif waits_for == "seed" and seeds is not None:
        needed = seeds.needed
    return Weighed(
        answer=answer,
        reason=reason,
        rounding=rounding,
        seeds=seeds,
        waits_for=waits_for,
        needed=needed,
    )


def finer(coarse: Sequence[str]) -> str:
    """Say what would show more than predictions that consist of whole values."""
    verb = "changes" if len(coarse) == 1 else "change"
    return (
        f"{' and '.join(coarse)} {verb} by whole values only; let predict_step return numbers, "
        f"such as scores"
    )


def _without(answer: Worth, reason: str | None) -> Weighed:
    return Weighed(
        answer=answer, reason=reason, rounding=None, seeds=None, waits_for=None, needed=None
    )


def _answer(
    scale: Scale, rounding: Tested | None, seeds: Tested | None
) -> tuple[Worth, Literal["perturbation", "seed"] | None, str | None]:
    if rounding is None:
        grown = " of which anything is left" if scale.absorbed else ""
        reason = f"fewer than two perturbed runs{grown}"
        if scale.coarse:
            return "undecided", None, f"{reason}: {finer(scale.coarse)}"
        return "undecided", "perturbation", reason
    if rounding.p >= LEVEL and rounding.unlike is not None:
        return "undecided", "perturbation", f"no perturbation {rounding.unlike}, and it does"
    if LEVEL <= rounding.p < BORDER:
        return "undecided", "perturbation", None
    if seeds is None:
        return "undecided", "seed", "fewer than two other seeds"
    if rounding.p >= BORDER:
        if tells_seeds(scale) or seeds_are_no_more(scale):
            return "no more than rounding", None, None
        if len(still := unmoved(scale)) == len(scale.measures):
            return (
                "undecided",
                None,
                f"no perturbation and no seed moves {' and '.join(still)}: log a finer metric, "
                f"such as a loss",
            )
        return "undecided", "perturbation", "so few perturbations do not tell even a seed"
    if seeds.p < LEVEL:
        return "more than another seed", None, None
    if seeds.unlike is not None:
        return "undecided", "seed", f"no other seed {seeds.unlike}, and it does"
    return (
        ("undecided", "seed", None)
        if seeds.p < BORDER
        else ("no more than another seed", None, None)
    )
