"""Choices that no seed moves: how lucky they are was not measured, and scatter shows nothing."""

from typing import Literal

from twinrun.comparison.study_records import Choice, Ranking
from twinrun.luck.welch import scatter

Stillness = Literal["result", "beginning"]
"""What no seed moves of a choice: all that it ends in; weights and mini-batches that it begins
with."""
Beginning = Literal["weights", "batches"]


def stillness(ranking: Ranking, choice: Choice) -> Stillness | None:
    """Say whether all seeds give a choice one result, or one beginning, and nothing moves it.

    It may seed itself. Weights that differ show that it does not do so in all: then a metric that
    takes few values, or has come to its end, stands still alone. They may differ by what it draws
    under way: a module that seeds torch, and draws noise from NumPy's generator. Its scatter is
    that noise's, and tells nothing of other weights and orders of samples.
    """
    if not scatter(choice["values"]).deviation:
        trials = [t for t in ranking["trials"] if t["choice"] == choice["name"]]
        weights = {t["weights_sha256"] for t in trials if t["seed"] in ranking["seeds"]}
        if len(weights) == 1 or None in weights:
            return "result"
    return "beginning" if len(unmoved(ranking, choice)) == 2 else None


def unmoved(ranking: Ranking, choice: Choice) -> list[Beginning]:
    """Name what several seeds do not move of what a choice begins with; unknown is not named."""
    seeds = {*ranking["seeds"]}
    begun = [
        trial["begun"]
        for trial in ranking["trials"]
        if trial["choice"] == choice["name"] and trial["seed"] in seeds
    ]
    parts: tuple[Beginning, ...] = ("weights", "batches")
    return [
        part
        for part in parts
        if len(begun) > 1 and begun[0][part] and len({each[part] for each in begun}) == 1
    ]
