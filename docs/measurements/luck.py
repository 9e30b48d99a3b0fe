"""How often answers about luck err: contests of equals, planted differences, changes on a scale.

    python docs/measurements/luck.py 4000

Each contest draws the values of every seed anew, from normal distributions, and each scale of the
study noise the distances of all its runs; no network is trained.
"""

import argparse
import math
import random
from collections import Counter
from collections.abc import Callable
from statistics import NormalDist

import numpy as np

from twinrun.comparison.noise_records import NoiseRun, NoiseTable
from twinrun.comparison.study_records import Choice, Ranking
from twinrun.luck.contest import contest
from twinrun.luck.floor import outlier
from twinrun.luck.forecast import power_with
from twinrun.luck.scale import scale_of
from twinrun.luck.sensitivity import seeds_are_more
from twinrun.luck.standing import standing
from twinrun.luck.welch import Scatter
from twinrun.luck.worth import Worth, weigh

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


def false_alarms_of_collapsing(contests: int, *, seeds: int, share: float) -> float:
    """Return the share of contests among equals with an answer, where trainings may collapse.

    Args:
        contests: how many.
        seeds: a side.
        share: of trainings that end at exactly one value, ten deviations below the others' mean.
    """
    alarms = 0
    for _ in range(contests):
        values = [
            [-10.0 if DRAW.random() < share else _normal() for _ in range(seeds)] for _ in range(2)
        ]
        alarms += contest(_ranking(values)).answer != "undecided"
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


def not_worse(contests: int, *, seeds: int, behind: float, ratio: float = 1.0) -> float:
    """Return the share of contests with a margin in which the first is called better or not worse.

    Args:
        contests: how many.
        seeds: a side.
        behind: how far the first truly is behind the second, in margins; 1 is where each such
            answer is an error. The margin is two standard deviations of the second.
        ratio: the standard deviation of the first, in that of the second.
    """
    called = 0
    for _ in range(contests):
        values = [_values(-2.0 * behind, ratio, seeds), _values(0.0, 1.0, seeds)]
        called += contest({**_ranking(values), "margin": 2.0}).answer in ("better", "not worse")
    return called / contests


def errors_of_unlike(contests: int, *, seeds: int, shape: str) -> tuple[float, float]:
    """Return how often a contest errs whose first candidate fails badly from few seeds.

    Args:
        contests: how many.
        seeds: a side.
        shape: of the first one's values, a key of `SHAPES`; those of the second are normal, and
            deviate three tenths as much.

    Returns:
        The shares in which the first is called better or not worse though it is behind by the
        margin, and in which it is called better though the means are equal.
    """
    draw, errors = SHAPES[shape], [0, 0]
    for _ in range(contests):
        for index, behind in enumerate((2.0, 0.0)):
            values = [[draw() - behind for _ in range(seeds)], _values(0.0, 0.3, seeds)]
            answer = contest({**_ranking(values), "margin": 2.0}).answer
            errors[index] += answer in (("better",) if index else ("better", "not worse"))
    return errors[0] / contests, errors[1] / contests


def _skewed(by: float) -> float:
    """Draw from a log-normal distribution turned around, of mean 0 and deviation 1."""
    mean = math.exp(by**2 / 2)
    deviation = mean * math.sqrt(math.exp(by**2) - 1)
    return (mean - math.exp(by * _normal())) / deviation


def _collapsing(share: float) -> float:
    """Draw from a training that ends ten deviations lower in a share of cases; mean 0, deviation 1.

    The variance is 1 + 100 p (1 - p).
    """
    value = _normal() - (10.0 if DRAW.random() < share else 0.0)
    return (value + 10 * share) / math.sqrt(1 + 100 * share * (1 - share))


# What else the values of a candidate may be over seeds.
SHAPES: dict[str, Callable[[], float]] = {
    "log-normal with 0.5": lambda: _skewed(0.5),
    "log-normal with 1.0": lambda: _skewed(1.0),
    "10 % collapse": lambda: _collapsing(0.1),
}


def told_by_samples(contests: int, *, seeds: int, own: float, samples: int = 360) -> float:
    """Return the share of contests that tell two of equal accuracy, tested on the same samples.

    Args:
        contests: how many.
        seeds: a side.
        own: what of the variance of a sample's difficulty is the candidate's; 0.7 is everybody's,
            and the rest the seed's.
        samples: of the test. Both are right about 95 % of all that there are.
    """
    draw, told = np.random.default_rng(20261123), 0
    border = NormalDist().inv_cdf(0.95)
    for _ in range(contests):
        shared = draw.normal(0, math.sqrt(0.7), samples)
        values = []
        for _ in range(2):
            difficulty = shared + draw.normal(0, math.sqrt(own), samples)
            by_seed = difficulty + draw.normal(0, math.sqrt(0.3 - own), (seeds, samples))
            values.append((by_seed < border).mean(1).tolist())
        told += contest(_ranking(values)).answer != "undecided"
    return told / contests


def _normal() -> float:
    return DRAW.gauss(0, 1)


def _heavy() -> float:
    """Draw from Student's t with 3 degrees of freedom: some runs are far from all others."""
    return _normal() / math.sqrt(sum(_normal() ** 2 for _ in range(3)) / 3)


NOISES: dict[str, Callable[[], float]] = {"normal": _normal, "heavy tails": _heavy}


def worths(
    scales: int,
    *,
    runs: int,
    at: float,
    seeds_at: float = 0.68,
    rounding_at: float = 0.39,
    noise: str = "normal",
    absorbed: float = 0.0,
    measures: int = 2,
    spread: float = 0.1,
) -> Counter[Worth]:
    """Return how often a change gets each answer, on as many scales.

    Args:
        scales: how many.
        runs: perturbations, and seeds with the reference.
        at: the median distance of the change: that of rounding, of seeds, or another.
        seeds_at: the median distance of seeds.
        rounding_at: that of perturbations.
        noise: how the logarithms of distances scatter.
        absorbed: the share of perturbations, and of changes that do what they do, of which nothing
            is left.
        measures: distances by which each run is compared; a metric besides, whose deviation over
            seeds is twice that over rounding. A change moves it as what it is nearer to does.
        spread: by how much the logarithms scatter; a tenth is about 10 % of a distance.
    """
    draw, found = NOISES[noise], Counter[Worth]()
    is_seed = abs(at - seeds_at) < abs(at - rounding_at)

    def run(kind: str, label: str, median: float, metric: float) -> NoiseRun:
        far = {f"m{i}": median * math.exp(spread * draw()) for i in range(measures)}
        return _noise_run(kind, label, {"metric": metric, **far})

    for _ in range(scales):
        # Where the first seed lies; rounding moves its runs around there.
        middle = DRAW.gauss(0, math.sqrt(3))
        metrics = [middle + _normal() for _ in range(runs + 2)]
        changed = DRAW.gauss(0, 2) if is_seed else metrics[-1]
        lost = [DRAW.random() < absorbed for _ in range(runs + 1)]
        if lost[-1] and at == rounding_at:
            found["no more than rounding"] += 1  # it is equal, bit for bit
            continue
        table = _noise_table(
            [
                _noise_run("reference", "seed 0", {"metric": metrics[0], **_none(measures)}),
                *(
                    run("perturbation", f"one ULP {k}", 0.0, metrics[0])
                    if lost[k - 1]
                    else run("perturbation", f"one ULP {k}", rounding_at, metrics[k])
                    for k in range(1, runs + 1)
                ),
                *(run("seed", f"seed {k}", seeds_at, DRAW.gauss(0, 2)) for k in range(1, runs)),
                run("change", "change", at, changed),
            ],
            measures,
        )
        found[weigh(scale_of(table), table["runs"][-1]).answer] += 1
    return found


def _none(measures: int) -> dict[str, float]:
    return {f"m{i}": 0.0 for i in range(measures)}


def _noise_run(kind: str, label: str, values: dict[str, float]) -> NoiseRun:
    return {
        "kind": kind,  # pyrefly: ignore
        "label": label,
        "study": "noise",
        "run": "",
        "answer": "differs",
        "reason": None,
        "values": values,
        "lacks": {},
        "not_finite": [],
    }


def _noise_table(runs: list[NoiseRun], measures: int) -> NoiseTable:
    return {
        "workload": "",
        "variant": "",
        "seed": 0,
        "steps": 1,
        "reason": None,
        "measures": [
            {"name": "metric", "kind": "metric", "floor": 0.0},
            *({"name": f"m{i}", "kind": "rows", "floor": 0.0005} for i in range(measures)),
        ],
        "runs": runs,
        "not_measured": {},
        "left_out": [],
        "other_data": [],
        "samples": [],
        "half_a_seed": None,
    }


def more_by_chance(scales: int, *, runs: int, spread: float) -> float:
    """Return how often a change that does what rounding does is called more than rounding.

    How far a perturbation grows moves predictions and metric alike: a run's metric is as far from
    the reference's as its size says, and so are its distances.

    Args:
        scales: how many.
        runs: perturbations, and seeds with the reference.
        spread: standard deviation of the logarithm of the sizes.
    """
    more = 0
    for _ in range(scales):

        def run(kind: str, label: str) -> NoiseRun:
            size = math.exp(spread * _normal())
            far = 0.001 * size * math.exp(0.1 * _normal())
            return _noise_run(kind, label, {"metric": size * _normal(), "m0": far})

        seeds = [
            {"metric": 300 * _normal(), "m0": 0.6 * math.exp(0.1 * _normal())}
            for _ in range(runs - 1)
        ]
        table = _noise_table(
            [
                _noise_run("reference", "seed 0", {"metric": 0.0, "m0": 0.0}),
                *(run("perturbation", f"one ULP {k}") for k in range(1, runs + 1)),
                *(_noise_run("seed", f"seed {k}", of) for k, of in enumerate(seeds, start=1)),
                run("change", "change"),
            ],
            1,
        )
        table["measures"][1]["floor"] = 5e-6
        worth = weigh(scale_of(table), table["runs"][-1]).answer
        more += worth in ("no more than another seed", "more than another seed")
    return more / scales


def seeds_or_rounding(
    scales: int, *, runs: int, ratio: float, noise: str = "normal"
) -> Counter[bool | None]:
    """Return how often another seed is said to move a metric more than rounding does.

    Args:
        scales: how many.
        runs: perturbations, and seeds with the reference.
        ratio: the deviation over seeds, divided by that over rounding.
        noise: how the values scatter.
    """
    draw, found = NOISES[noise], Counter[bool | None]()
    for _ in range(scales):
        middle = math.sqrt(max(ratio**2 - 1, 0)) * draw()
        table = _noise_table(
            [
                _noise_run("reference", "seed 0", {"metric": middle + draw()}),
                *(
                    _noise_run("perturbation", f"one ULP {k}", {"metric": middle + draw()})
                    for k in range(1, runs + 1)
                ),
                *(
                    _noise_run("seed", f"seed {k}", {"metric": ratio * draw()})
                    for k in range(1, runs)
                ),
            ],
            0,
        )
        found[seeds_are_more(scale_of(table))] += 1
    return found


# What else than normally distributed a metric may be over seeds.
METRICS: dict[str, Callable[[], float]] = {
    "normal": _normal,
    "a share of 0.97 of 360 samples": lambda: sum(DRAW.random() < 0.97 for _ in range(360)) / 360,
    "a share of 0.99 of 50 samples": lambda: sum(DRAW.random() < 0.99 for _ in range(50)) / 50,
    "a loss, log-normal with 0.5": lambda: math.exp(0.5 * _normal()),
}


def outliers(cases: int, *, seeds: int, shift: float = 0.0, metric: str = "normal") -> float:
    """Return the share of groups of seeds in which one, shifted so far, is called an outlier."""
    found, draw = 0, METRICS[metric]
    for _ in range(cases):
        values = [shift + draw(), *(draw() for _ in range(seeds - 1))]
        p = outlier(values)
        found += p is not None and p < 0.05
    return found / cases


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
        "other_samples": False,
        "best": "highest",
        "seeds": list(range(len(values[0]))),
        "without_number": [],
        "contestants": ["0", "1"],
        "conflict": None,
        "choices": choices,
        "finished": 0,
        "same": [],
        "trained": None,
        "margin": None,
        "trials": [],
    }


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("contests", type=int, nargs="?", default=1000)
    contests = parser.parse_args().contests
    for own in (0.05, 0.2):
        shares = [f"{told_by_samples(contests, seeds=s, own=own):.1%}" for s in (3, 5, 10)]
        print(
            f"equals on the same samples, {own:.0%} their own: {', '.join(shares)} are told apart"
        )
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
    for noise, absorbed in (("normal", 0.0), ("heavy tails", 0.0), ("normal", 0.4)):
        for what, at in (("rounding", 0.39), ("a seed", 0.68), ("more", 1.2)):
            found = worths(contests, runs=5, at=at, noise=noise, absorbed=absorbed)
            said = ", ".join(f"{answer}: {n / contests:.1%}" for answer, n in found.most_common())
            print(f"5 and 5 runs, {noise}, {absorbed:.0%} absorbed, change like {what}: {said}")
    for runs in (3, 10):
        for what, at in (("rounding", 0.39), ("a seed", 0.68), ("more", 1.2)):
            found = worths(contests, runs=runs, at=at)
            said = ", ".join(f"{answer}: {n / contests:.1%}" for answer, n in found.most_common())
            print(f"{runs} and {runs} runs, normal, change like {what}: {said}")
    for runs in (5, 10):
        for what, at in (("rounding", 0.39), ("a seed", 0.68)):
            found = worths(contests, runs=runs, at=at, measures=0)
            said = ", ".join(f"{answer}: {n / contests:.1%}" for answer, n in found.most_common())
            print(f"{runs} and {runs} runs, a metric alone, change like {what}: {said}")
        for ratio in (1.0, 2.0, 3.0, 5.0):
            asked = seeds_or_rounding(contests, runs=runs, ratio=ratio)
            said = ", ".join(f"{answer}: {n / contests:.1%}" for answer, n in asked.most_common())
            print(f"{runs} and {runs} runs, seeds move a metric {ratio:g} times as far: {said}")
    for seeds in (5, 10):
        print(
            f"{seeds} seeds: {outliers(contests, seeds=seeds):.1%} have an outlier; of those with "
            f"one that is 5 deviations off {outliers(contests, seeds=seeds, shift=5.0):.1%}"
        )
    for metric in METRICS:
        shares = [f"{outliers(contests, seeds=s, metric=metric):.1%}" for s in (5, 10, 20)]
        print(f"5, 10, 20 seeds of {metric}: {', '.join(shares)} have an outlier")
    for runs in (3, 5, 10):
        for spread in (0.0, 0.35, 1.0, 2.0):
            share = more_by_chance(contests, runs=runs, spread=spread)
            print(
                f"{runs} and {runs} runs, sizes with a log deviation of {spread}: {share:.1%} more"
            )
    for runs in (5, 10):
        for spread in (0.1, 0.37):
            for times in (1.5, 2.0, 3.0, 5.0):
                found = worths(
                    contests,
                    runs=runs,
                    at=0.01 * times,
                    rounding_at=0.01,
                    seeds_at=0.4,
                    spread=spread,
                )
                share = found["no more than rounding"] / contests
                print(
                    f"{runs} and {runs} runs that scatter by {spread}, a change {times:g} times as "
                    f"far: {share:.1%} no more than rounding"
                )
    for seeds in (2, 3, 5):
        share = false_alarms_of_collapsing(contests, seeds=seeds, share=0.3)
        print(f"equals, {seeds} seeds, of which 30 % collapse: {share:.2%} name a winner")
    for ratio in (1.0, 4.0):
        for behind in (1.0, 0.0):
            for seeds in (3, 5, 10):
                share = not_worse(contests, seeds=seeds, behind=behind, ratio=ratio)
                print(
                    f"{seeds} seeds, deviations {ratio:g} to 1, {behind:g} margins behind: "
                    f"{share:.1%} better or not worse"
                )
    for shape in SHAPES:
        for seeds in (3, 5, 10):
            behind, equal = errors_of_unlike(contests, seeds=seeds, shape=shape)
            print(
                f"{seeds} seeds, the first {shape}, the second normal: {behind:.1%} not worse "
                f"though a margin behind, {equal:.1%} better though equal"
            )
    for runs in (5, 10, 20):
        for ratio in (1.0, 2.0, 3.0, 5.0):
            asked = seeds_or_rounding(contests, runs=runs, ratio=ratio, noise="heavy tails")
            said = ", ".join(f"{answer}: {n / contests:.1%}" for answer, n in asked.most_common())
            print(
                f"{runs} and {runs} runs, heavy tails, seeds move a metric {ratio:g} times as far: "
                f"{said}"
            )


if __name__ == "__main__":
    main()
