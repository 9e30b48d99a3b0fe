"""Choices that no seed moves: how lucky they are was not measured, and scatter shows nothing."""

from collections.abc import Sequence
from typing import Literal

from twinrun.comparison.begun import Begun
from twinrun.comparison.study_records import Choice, Ranking
from twinrun.luck.welch import scatter

Stillness = Literal["result", "beginning", "traced"]
"""What no seed moves of a choice: all that it ends in; weights, mini-batches and torch's RNG state
that it begins with; the first two, where of the third nobody knows."""
Beginning = Literal["weights", "batches", "random"]


def stillness(ranking: Ranking, choice: Choice) -> Stillness | None:
    """Say whether all seeds give a choice one result, or one beginning, and nothing moves it.

    It may seed itself. Weights that differ show that it does not do so in all: then a metric that
    takes few values, or has come to its end, stands still alone. They may differ by what it draws
    under way: a module that seeds torch, and draws noise from NumPy's generator. Its scatter is
    that noise's, and tells nothing of other weights and orders of samples. Weights that were
    trained before and samples in their own order are the same for all seeds, too: then dropout
    under other states of torch's generators is luck as it should be.
    """
    if not scatter(choice["values"]).deviation:
        trials = [t for t in ranking["trials"] if t["choice"] == choice["name"]]
        weights = {t["weights_sha256"] for t in trials if t["seed"] in ranking["seeds"]}
        if len(weights) == 1 or None in weights:
            return "result"
    found = unmoved(ranking, choice)
    if "weights" not in found or "batches" not in found:
        return None
    if "random" in found:
        return "beginning"
    begun = _begun(ranking, choice)
    is_known = all(of[state] for of in begun for state in ("random", "random_after"))
    return None if is_known else "traced"


def unmoved(ranking: Ranking, choice: Choice) -> list[Beginning]:
    """Name what several seeds do not move of what a choice begins with; unknown is not named."""
    return still_parts(_begun(ranking, choice))


def still_parts(begun: Sequence[Begun]) -> list[Beginning]:
    """Name what is the same of several beginnings, one of each seed; unknown is not named."""
    # A module may seed torch before its first step, or in each: then the states behind it are same.
    keys: dict[Beginning, Sequence[_Key]] = {
        "weights": ("weights",),
        "batches": ("batches",),
        "random": ("random", "random_after"),
    }
    return [part for part, of in keys.items() if any(_are_same(begun, key) for key in of)]


_Key = Literal["weights", "batches", "random", "random_after"]


def _are_same(begun: Sequence[Begun], key: _Key) -> bool:
    return len(begun) > 1 and bool(begun[0][key]) and len({each[key] for each in begun}) == 1


def _begun(ranking: Ranking, choice: Choice) -> list[Begun]:
    seeds = {*ranking["seeds"]}
    return [
        trial["begun"]
        for trial in ranking["trials"]
        if trial["choice"] == choice["name"] and trial["seed"] in seeds
    ]
