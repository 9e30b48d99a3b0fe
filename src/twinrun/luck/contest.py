"""Two candidates: is the first better than the second, or just luckier?"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Literal

from twinrun.comparison.study_records import Choice, Ranking, Trial
from twinrun.luck.forecast import power_with, seeds_needed
from twinrun.luck.pairing import bought_by_seed
from twinrun.luck.stillness import Stillness, stillness
from twinrun.luck.student_t import LEVEL
from twinrun.luck.welch import Difference, Scatter, scatter, welch


@dataclass(frozen=True, kw_only=True)
class Contest:
    """What the seeds of two candidates say."""

    answer: Literal["better", "worse", "not worse", "undecided", "not comparable"]
    """Of the first; not worse by as much as a margin, where there is one."""
    reason: str | None
    """Why they are not comparable."""
    first: Scatter | None
    """Of the first one's values; None where they are not comparable."""
    second: Scatter | None
    """Of the second one's."""
    difference: Difference | None
    """First less second; None where luck was not measured: a single seed, or none that matters."""
    bought: float | None
    """Share of the difference's variance that pairing by seed takes away; None if none is told."""
    is_same: bool = False
    """Whether weights, predictions and all that is tested are the same of both from each seed."""
    forgiven: float = 0.0
    """What the margin adds to the first one's values."""
    still: Mapping[str, Stillness] = field(default_factory=dict)
    """Of those that no seed moves what it does not, by label, where values differ by seeds."""

    @property
    def needed(self) -> int | None:
        """Seeds a side that would tell them apart, if all is as measured; None if no number."""
        if self.first is None or self.second is None or self.difference is None:
            return None
        return seeds_needed(self.first, self.second)

    @property
    def needed_within(self) -> int | None:
        """Seeds a side that would show that the first is not worse by the margin; as `needed`."""
        if self.first is None or self.second is None or self.difference is None:
            return None
        lifted = replace(self.first, mean=self.first.mean + self.forgiven)
        if not self.forgiven or (lifted.mean - self.second.mean) * self.forgiven <= 0:
            return None
        return seeds_needed(lifted, self.second)

    @property
    def power(self) -> float | None:
        """How probable it was that as many seeds tell such a difference."""
        if self.first is None or self.second is None or self.difference is None:
            return None
        return power_with(self.first, self.second, self.first.number)


def candidates(ranking: Ranking) -> list[Choice]:
    """Return the two choices of a contest, the first one first, whichever is better."""
    of_name = {choice["name"]: choice for choice in ranking["choices"]}
    return [of_name[name] for name in ranking["contestants"]]


def contest(ranking: Ranking) -> Contest:
    """Compare the two choices of a contest."""
    choices = candidates(ranking)
    if (reason := _why_not(ranking, choices)) is not None:
        return Contest(
            answer="not comparable",
            reason=reason,
            first=None,
            second=None,
            difference=None,
            bought=None,
        )
    values = [choice["values"] for choice in choices]
    first, second = map(scatter, values)
    found = welch(first, second)
    still = {c["label"]: kind for c in choices if found and (kind := stillness(ranking, c))}
    found = None if still else found
    is_same = first.number > 1 and values[0] == values[1] and _are_same_trainings(ranking)
    return Contest(
        answer=_answer(ranking, found, is_same=is_same),
        reason=None,
        first=first,
        second=second,
        difference=found,
        bought=bought_by_seed(*values),
        is_same=is_same,
        forgiven=_sign(ranking) * (ranking["margin"] or 0.0),
        still=still,
    )


def _answer(
    ranking: Ranking, found: Difference | None, *, is_same: bool
) -> Literal["better", "worse", "not worse", "undecided"]:
    """Say how the first stands; a margin forgives what is shown to be less than it.

    That both have the same values shows nothing of other seeds; that they are the same to the bit
    shows that they diverge from few, if any: see `may_diverge`.
    """
    margin, sign = ranking["margin"], _sign(ranking)
    if found is not None and found.p < LEVEL and sign * found.mean > 0:
        return "better"
    # The end of the 95 % interval at which the first is worst: it errs in 2.5 % of contests.
    if margin is not None and (
        is_same or (found is not None and min(sign * end for end in found.interval) > -margin)
    ):
        return "not worse"
    return "worse" if found is not None and found.p < LEVEL else "undecided"


def may_diverge(seeds: int) -> float:
    """Return in which share of trainings two may diverge that are the same from so many seeds.

    At most, with 95 % confidence: if it were more, one of the seeds would have shown it.

    >>> round(may_diverge(5), 2)
    0.45
    """
    return 1 - LEVEL ** (1 / seeds)


def _are_same_trainings(ranking: Ranking) -> bool:
    """Say whether both candidates end alike from each seed: weights, predictions, test metrics.

    Of two that predict nothing it is not known: one may use its weights in another way. Nor is it
    where predictions tell nothing of the network, as an index of the samples: another seed's, of
    the same samples, would be the same.
    """
    of_seed: dict[int, list[Trial]] = {}
    for trial in ranking["trials"]:
        of_seed.setdefault(trial["seed"], []).append(trial)
    left = [[_left(trial) for trial in of] for of in of_seed.values()]
    if ranking["other_samples"] or not all(len(of) == 2 and of[0] == of[1] for of in left):
        return False
    firsts = [of[0] for of in of_seed.values()]
    if any(t["weights_sha256"] is None or t["predictions_sha256"] is None for t in firsts):
        return False
    return any(
        one["predicted_on"] is not None
        and one["predicted_on"] == other["predicted_on"]
        and one["predictions_sha256"] != other["predictions_sha256"]
        for one, other in combinations(firsts, 2)
    )


def _left(trial: Trial) -> tuple[object, ...]:
    """Return all that is compared of a training; numbers as texts, since a NaN is one there."""
    hashes = trial["weights_sha256"], trial["predictions_sha256"], trial["predicted_on"]
    return *hashes, repr(sorted(trial["tested"].items()))


def _sign(ranking: Ranking) -> int:
    return 1 if ranking["best"] == "highest" else -1


def _why_not(ranking: Ranking, choices: list[Choice]) -> str | None:
    if ranking["conflict"] is not None:
        return ranking["conflict"]
    lacking = [f"{c['label']}: {c['lacks']}" for c in choices if c["rank"] is None]
    return "; ".join(lacking) or None
