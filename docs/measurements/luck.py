"""Whether contests of equals name a winner, and planted differences are found as was forecast.

    python docs/measurements/luck.py 4000

Each contest draws the values of every seed anew, from normal distributions; no network is trained.
"""

import random
import sys

from twinrun.comparison.study_records import Choice, Ranking
from twinrun.luck.contest import contest
from twinrun.luck.forecast import power_with
from twinrun.luck.standing import standing
from twinrun.luck.welch import Scatter

DRAW = random.Random(20261122)  # noqa: S311 a simulation


def false_alarms(contests: int, *, seeds: int, choices: int = 2, ratio: float = 1.0) -> float:
    """Return the share of contests among equals that name a winner.

    Args:
        contests: how many.
        seeds: of each choice.
        choices: how many.
        ratio: the standard deviation of the first, of those of the others.
    """
    deviations = [ratio] + [1.0] * (choices - 1)
    alarms = 0
    for _ in range(contests):
        found = standing(_ranking([_values(0.0, of, seeds) for of in deviations]))
        alarms += not found.rivals
    return alarms / contests


def true_best_excluded(contests: int, *, seeds: int, choices: int, lead: float) -> float:
    """Return the share of sweeps in which the truly best is not among those that may be."""
    excluded = 0
    for _ in range(contests):
        values = [_values(lead, 1.0, seeds), *(_values(0, 1, seeds) for _ in range(choices - 1))]
        found = standing(_ranking(values))
        may_be = [choice.label for choice in found.placed[:1]] + [c.label for c in found.rivals]
        excluded += "0" not in may_be
    return excluded / contests


def planted(contests: int, *, seeds: int, shift: float, ratio: float = 1.0) -> tuple[float, float]:
    """Return the power that is forecast for a difference, and the share that is found.

    Args:
        contests: how many.
        seeds: a side.
        shift: the true difference, in standard deviations of the second.
        ratio: the standard deviation of the first, in that of the second.
    """
    first = Scatter(number=seeds, mean=shift, deviation=ratio)
    second = Scatter(number=seeds, mean=0.0, deviation=1.0)
    answers = [
        contest(_ranking([_values(shift, ratio, seeds), _values(0.0, 1.0, seeds)])).answer
        for _ in range(contests)
    ]
    return power_with(first, second, seeds), answers.count("better") / contests


def _values(mean: float, deviation: float, seeds: int) -> list[float]:
    return [DRAW.gauss(mean, deviation) for _ in range(seeds)]


def _ranking(values: list[list[float]]) -> Ranking:
    """Rank choices, which are called 0, 1, ... in the order of their values."""
    order = sorted(range(len(values)), key=lambda index: -sum(values[index]))
    choices: list[Choice] = [
        {"name": str(i), "label": str(i), "rank": rank, "values": values[i], "lacks": None}
        for rank, i in enumerate(order, start=1)
    ]
    return {
        "workload": "",
        "metric": "",
        "measured_in": "test",
        "epoch": None,
        "best": "highest",
        "seeds": list(range(len(values[0]))),
        "without_number": [],
        "contestants": ["0", "1"],
        "conflict": None,
        "choices": choices,
        "finished": 0,
        "same": [],
        "trials": [],
    }


def main() -> None:
    """Simulate and print."""
    contests = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    for seeds in (2, 3, 5, 10):
        for ratio in (1.0, 4.0):
            share = false_alarms(contests, seeds=seeds, ratio=ratio)
            print(f"equals, {seeds} seeds, deviations {ratio:g} to 1: {share:.2%} name a winner")
    for choices in (3, 6, 20):
        share = false_alarms(contests, seeds=3, choices=choices)
        print(f"equals, 3 seeds, {choices} choices: {share:.2%} name a winner")
        lost = true_best_excluded(contests, seeds=3, choices=choices, lead=0.3)
        print(f"one is best by 0.3 deviations, {choices} choices: {lost:.2%} leave it out")
    for seeds, shift in ((3, 3.0), (5, 2.0), (10, 1.325)):
        forecast, found = planted(contests, seeds=seeds, shift=shift)
        print(
            f"planted {shift} deviations, {seeds} seeds: {forecast:.1%} forecast, {found:.1%} found"
        )
    for seeds, shift in ((3, 8.0), (5, 6.0)):
        forecast, found = planted(contests, seeds=seeds, shift=shift, ratio=4.0)
        print(
            f"planted {shift}, deviations 4 to 1, {seeds} seeds: {forecast:.1%} forecast, "
            f"{found:.1%} found"
        )


if __name__ == "__main__":
    main()
