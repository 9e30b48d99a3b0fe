"""Choices that no seed moves: how lucky they are was not measured, and scatter shows nothing."""

from twinrun.comparison.study_records import Choice, Ranking
from twinrun.luck.welch import scatter


def stands_still(ranking: Ranking, choice: Choice) -> bool:
    """Say whether all seeds give a choice one result, and nothing shows that they move it.

    It may seed itself. Weights that differ show that it does not: then a metric that takes few
    values, or has come to its end, stands still alone.
    """
    if scatter(choice["values"]).deviation:
        return False
    trials = [t for t in ranking["trials"] if t["choice"] == choice["name"]]
    weights = {t["weights_sha256"] for t in trials if t["seed"] in ranking["seeds"]}
    return len(weights) == 1 or None in weights
