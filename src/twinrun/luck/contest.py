"""Two candidates: is the first better than the second, or just luckier?"""

from dataclasses import dataclass
from typing import Literal

from twinrun.comparison.study_records import Choice, Ranking
from twinrun.luck.forecast import power_with, seeds_needed
from twinrun.luck.pairing import bought_by_seed
from twinrun.luck.student_t import LEVEL
from twinrun.luck.welch import Difference, Scatter, scatter, welch


@dataclass(frozen=True, kw_only=True)
class Contest:
    """What the seeds of two candidates say."""

    answer: Literal["better", "worse", "undecided", "not comparable"]
    """Of the first."""
    reason: str | None
    """Why they are not comparable."""
    first: Scatter | None
    """Of the first one's values; None where they are not comparable."""
    second: Scatter | None
    """Of the second one's."""
    difference: Difference | None
    """First less second; None where luck was not measured: a single seed, or none that matters."""
    bought: float | None
    """Share of the difference's variance that pairing by seed takes away."""

    @property
    def needed(self) -> int | None:
        """Seeds a side that would tell them apart, if all is as measured; None if no number."""
        if self.first is None or self.second is None or self.difference is None:
            return None
        return seeds_needed(self.first, self.second)

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
    answer: Literal["better", "worse", "undecided"] = "undecided"
    if found is not None and found.p < LEVEL:
        is_higher = found.mean > 0
        answer = "better" if is_higher == (ranking["best"] == "highest") else "worse"
    return Contest(
        answer=answer,
        reason=None,
        first=first,
        second=second,
        difference=found,
        bought=bought_by_seed(*values),
    )


def _why_not(ranking: Ranking, choices: list[Choice]) -> str | None:
    if ranking["conflict"] is not None:
        return ranking["conflict"]
    lacking = [f"{c['label']}: {c['lacks']}" for c in choices if c["rank"] is None]
    return "; ".join(lacking) or None
