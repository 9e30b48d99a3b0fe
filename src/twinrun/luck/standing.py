"""How the choices of a ranking stand: which one is best, or between which it is undecided.

The first choice, by its mean over seeds, is compared with each of the others. Those that Holm's
method does not tell from it stay rivals: the best is among them and the first, but for a
probability of 5 %. It is best where no rival is left.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from twinrun.comparison.study_records import Ranking
from twinrun.luck.forecast import seeds_needed
from twinrun.luck.holm import adjusted
from twinrun.luck.stillness import Stillness, stillness
from twinrun.luck.student_t import LEVEL
from twinrun.luck.welch import Scatter, scatter, welch


@dataclass(frozen=True, kw_only=True)
class Placed:
    """A choice with a rank."""

    label: str
    """How it is called for a reader."""
    rank: int
    """From 1, by the mean; shared by those of one mean."""
    scatter: Scatter
    """Mean and standard deviation of its values over seeds."""
    p: float | None
    """How probable it is that only luck puts the first before it, by Holm; None of the first, and
    where luck was not measured."""
    is_rival: bool
    """Whether it may be the best as well as the first."""
    still: Stillness | None
    """What of it nothing shows to be moved by seeds; see `stillness`."""


@dataclass(frozen=True, kw_only=True)
class Standing:
    """All choices of a ranking."""

    placed: Sequence[Placed]
    """Those with a rank, the best mean first."""
    beside: Sequence[tuple[str, str]]
    """Those without one, and why."""
    seeds: int
    """How many seeds each mean is of."""

    @property
    def firsts(self) -> list[Placed]:
        """Those of the best mean: where several share it, nothing puts one before another."""
        return [choice for choice in self.placed if choice.rank == 1]

    @property
    def rivals(self) -> list[Placed]:
        """The choices that are not told from the first."""
        return [choice for choice in self.placed[1:] if choice.is_rival]

    @property
    def unmoved(self) -> list[Placed]:
        """The rivals whose luck, or the first one's, was not measured."""
        return [rival for rival in self.rivals if rival.p is None]

    @property
    def still(self) -> list[Placed]:
        """Of the first and the unmoved those that no seed moves, where seeds move another."""
        compared = [*self.placed[:1], *self.unmoved]
        some_move = any(choice.scatter.deviation for choice in compared)
        return [choice for choice in compared if some_move and choice.still]

    @property
    def needed(self) -> int | None:
        """Seeds of each that would tell the first from its other rivals, if all is as measured.

        None if no number does. At least one rival is not of the unmoved.
        """
        first = self.placed[0].scatter
        measured = [rival.scatter for rival in self.rivals if rival.p is not None]
        # Holm's method counts each of them at most so often.
        found = [seeds_needed(first, rival, LEVEL / len(measured)) for rival in measured]
        numbers = [number for number in found if number is not None]
        return max(numbers) if len(numbers) == len(found) else None


def standing(ranking: Ranking) -> Standing:
    """Compare the first choice of a ranking with each of the others."""
    ranked = [(c["rank"], c) for c in ranking["choices"] if c["rank"] is not None]
    choices = [choice for _, choice in ranked]
    scatters = [scatter(choice["values"]) for choice in choices]
    still = [stillness(ranking, choice) for choice in choices]
    differences = [
        None if still[0] or other_is_still else welch(scatters[0], other)
        for other, other_is_still in zip(scatters[1:], still[1:], strict=True)
    ]
    measured = iter(adjusted([found.p for found in differences if found is not None]))
    ps = [None if found is None else next(measured) for found in differences]
    placed = [
        Placed(
            label=choice["label"],
            rank=rank,
            scatter=found,
            p=p,
            is_rival=bool(index) and not (p is not None and p < LEVEL),
            still=still[index],
        )
        for index, ((rank, choice), found, p) in enumerate(
            zip(ranked, scatters, [None, *ps][: len(choices)], strict=True)
        )
    ]
    return Standing(
        placed=placed,
        beside=[(c["label"], c["lacks"] or "") for c in ranking["choices"] if c["rank"] is None],
        seeds=len(ranking["seeds"]),
    )
