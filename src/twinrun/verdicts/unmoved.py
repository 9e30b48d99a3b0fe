"""What is said of choices that no seed moves, in all or in what they begin with."""

from collections.abc import Container, Mapping, Sequence
from typing import get_args

from twinrun.comparison.study_records import Ranking
from twinrun.formatting import count
from twinrun.luck.stillness import Beginning, Stillness, unmoved
from twinrun.verdicts.means import joined, some_of

_CALLED: dict[Beginning, str] = {
    "weights": "the initial weights",
    "batches": "the first batches",
    "random": "torch's RNG state",
}
_NOT_TRACED = ", and whether torch's RNG state is, too, was not traced"


def stand_still(still: Mapping[str, Stillness], seeds: int) -> str:
    """Say that no seed moves choices, by their labels, and what that may be.

    >>> stand_still({"wide": "result"}, 4)
    'no seed moves wide (its result is the same from each of 4 seeds, so it may seed itself), so \
its luck is not measured'
    >>> stand_still({"wide": "beginning"}, 4)
    "no seed moves the initial weights, the first batches and torch's RNG state of wide (they are \
the same from each of 4 seeds, so it may seed itself in part), so the luck of these is not measured"
    """
    of_kind = {of: [k for k, v in still.items() if v == of] for of in get_args(Stillness)}
    return "; ".join(
        [
            *_ended_alike(of_kind["result"], seeds),
            *_began_alike(of_kind["beginning"], seeds, "", list(_CALLED)),
            *_began_alike(of_kind["traced"], seeds, _NOT_TRACED, ["weights", "batches"]),
        ]
    )


def _ended_alike(labels: Sequence[str], seeds: int) -> list[str]:
    if not labels:
        return []
    its, itself, whose = "its result", "it may seed itself", "its"
    if len(labels) > 1:
        its, itself, whose = "the result of each", "they may seed themselves", "their"
    return [
        f"no seed moves {some_of(labels)} ({its} is the same from each of {count(seeds)} seeds, so "
        f"{itself}), so {whose} luck is not measured"
    ]


def _began_alike(
    labels: Sequence[str], seeds: int, unknown: str, parts: Sequence[Beginning]
) -> list[str]:
    if not labels:
        return []
    itself = "it may seed itself" if len(labels) == 1 else "each may seed itself"
    of_each = "" if len(labels) == 1 else " for each"
    return [
        f"no seed moves {joined([_CALLED[part] for part in parts])} of {some_of(labels)} (they are "
        f"the same{of_each} from each of {count(seeds)} seeds{unknown}, so {itself} in part), so "
        f"the luck of these is not measured"
    ]


def not_counted(parts: Sequence[Beginning], where: str = "") -> str:
    """Say what no seed of a study noise moves of what a training begins with; "" if it is nothing.

    >>> not_counted(["weights", "batches"])
    '; no seed moves the initial weights and the first batches, whose luck is not counted'
    """
    if not parts:
        return ""
    itself = " (the module may seed itself)" if len(parts) == len(_CALLED) else ""
    named = joined([_CALLED[part] for part in parts])
    return f"; no seed moves {named}{where}{itself}, whose luck is not counted"


def begun_alike(ranking: Ranking, said: Container[str]) -> str:
    """Name what no seed moves of what ranked choices begin with: its luck is in no scatter.

    Ordinary as it is: weights that were trained before, samples in their own order.

    Args:
        ranking: of several seeds, or of one, which shows nothing.
        said: labels of choices of which it is said elsewhere.
    """
    choices = [c for c in ranking["choices"] if c["rank"] is not None and c["label"] not in said]
    found: dict[Beginning, list[str]] = {}
    for choice in choices:
        for part in unmoved(ranking, choice):
            found.setdefault(part, []).append(choice["label"])
    clauses = [
        f"; no seed moves {_CALLED[part]} of "
        f"{'any' if len(of) == len(choices) > 2 else some_of(of)}, so "
        f"{'its' if part == 'random' else 'their'} luck is not counted"
        for part, of in found.items()
    ]
    return "".join(clauses)
