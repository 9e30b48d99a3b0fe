"""The advice at the top of the page: at most six sentences, each resting on verdicts.

What is said first decides most: what repeats and what mends it; what is faster; what breaks
equality; how much is luck; what could not be measured. Of each kind the first sentence is taken,
in this order, and then the second ones, until there are six; that a training repeats anyway is said
if there is room, or if no other one is known. Nothing is said of what is undecided
or not comparable, and of a kind of which nothing was measured.
"""

from collections.abc import Callable, Sequence
from itertools import zip_longest

from twinrun.report.advice_causes import breaking
from twinrun.report.advice_luck import lucks, not_measured
from twinrun.report.advice_repeats import repeating, repeating_anyway
from twinrun.report.advice_speed import speeds
from twinrun.report.results import Results
from twinrun.report.sentence import Sentence, merged

MOST_SENTENCES = 6
KINDS: Sequence[Callable[[Results], list[Sentence]]] = (
    repeating,
    speeds,
    breaking,
    lucks,
    not_measured,
)


def advice(results: Results) -> list[Sentence]:
    """Return the sentences in the order of the page."""
    repeats, *others = (merged(of_kind(results)) for of_kind in KINDS)
    anyway = merged(repeating_anyway(results))
    if not repeats:
        repeats, anyway = anyway[:1], anyway[1:]
    return chosen([repeats, *others], anyway)


def chosen(kinds: Sequence[Sequence[Sentence]], last: Sequence[Sentence] = ()) -> list[Sentence]:
    """Choose six sentences: the first of each kind, then the second of each; kind by kind.

    Args:
        kinds: of each the sentences in their order.
        last: further ones of the first kind, if there is room.
    """
    by_rank = [
        (kind, rank, found)
        for rank, row in enumerate(zip_longest(*kinds))
        for kind, found in enumerate(row)
        if found is not None
    ]
    by_rank += [(0, len(by_rank) + rank, found) for rank, found in enumerate(last)]
    kept = sorted(by_rank[:MOST_SENTENCES], key=lambda entry: entry[:2])
    return [found for _, _, found in kept]
