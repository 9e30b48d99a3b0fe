"""The section of the study reproducibility: does training repeat, and what does repeating cost?"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypedDict

import pandas as pd

from twinrun import artifacts
from twinrun.comparison.conditions import conditions_of_seeds
from twinrun.comparison.pair_records import Comparison, Location
from twinrun.figures.predictions import worse_than_first
from twinrun.report.results import ReportedComparison, Results
from twinrun.report.runs import metrics
from twinrun.timing.steadiness import medians_behind
from twinrun.timing.summary import TimingSummary
from twinrun.verdicts.equality import CLOSED
from twinrun.verdicts.speed import unsteadiness

MOST_TENSORS = 40
FIGURES = ("first_layer", "layers", "operations", "growth", "curves", "strip", "cost")


def section(results: Results) -> dict[str, object]:
    """Return what the section's template needs."""
    study = results.config["reproducibility"]
    return {
        "seeds": study["seeds"],
        "repeats": study["repeats"],
        "workloads": [_workload(results, name) for name in study["workloads"]],
    }


def _workload(results: Results, workload: str) -> dict[str, object]:
    variants = [
        _variant(results, workload, variant)
        for variant in results.config["reproducibility"]["variants"]
    ]
    settings = results.config["workloads"][workload]
    folder = f"reproducibility/{workload}"
    return {
        "name": workload,
        "module": settings["module"],
        "length": results.length_of(workload),
        "variants": variants,
        "compared": [variant for variant in variants if variant["pairs"]],
        # Their figures would be flat lines.
        "all_equal": {v["answer"] for v in variants if v["pairs"]} == {"equal"},
        "images": settings["shows"].get("images", []),
        "worse": _worse(results, workload, settings["shows"].get("images", [])),
        "figures": {name: results.figures.get(f"{folder}/{name}") for name in FIGURES},
        "metrics": metrics(results, "reproducibility", workload),
        "untimed": results.untimed("reproducibility", workload),
        "cost": _cost(results.timings.get(f"determinism_{workload}")),
    }


def _worse(results: Results, workload: str, names: Sequence[str]) -> list[str]:
    """Name the drawn images that are farther from what they should be than the first ones are."""
    study = results.config["reproducibility"]
    # Of the run that the strip shows, and of no other: where it failed nothing is drawn.
    shown = (workload, study["variants"][0], study["seeds"][0], 1)
    drawn = [
        run["path"]
        for run in results.runs
        if (run["workload"], run["variant"], run["seed"], run["repeat"]) == shown
        and not run["perturbation"]
    ]
    return worse_than_first(drawn[0], names=names) if drawn else []


def _variant(results: Results, workload: str, variant: str) -> dict[str, object]:
    """Sum up the comparisons of a variant over its seeds: the worst of each measure."""
    pairs = [
        found
        for found in results.repeats_of("reproducibility", workload)
        if found["variant"] == variant
    ]
    summed: dict[str, object] = {
        "name": variant,
        "not_run": results.not_run.get(variant),
        "pairs": len(pairs),
        "equal_pairs": sum(pair["answer"] == "equal" for pair in pairs),
        "differing_pairs": sum(pair["answer"] == "differs" for pair in pairs),
    }
    if not pairs:
        return summed
    reasons = [
        pair["reason"]
        for answer in ("not comparable", "not run")
        for pair in pairs
        if pair["answer"] == answer
    ]
    differing = [pair for pair in pairs if pair["answer"] == "differs"]
    # None for a pair that could not be compared; a diverged one may hold infinity.
    worst = max(differing or pairs, key=lambda pair: pair["relative_l2"] or 0)
    # The worst of all seeds in numbers, one seed in the pictures.
    drawn = min(pairs, key=lambda pair: pair["seed"])  # the one of the figures
    return summed | {
        "answer": _answer(pairs),
        "reasons": list(dict.fromkeys(reasons)),
        "worst": worst,
        # Of the same seed as the numbers: each seed may have a cause of its own.
        "first": worst["first_difference"],
        "conditions": conditions_of_seeds(pairs),
        "divergences": _divergences(
            location
            for location in results.locations
            if location["study"] == "reproducibility"
            and (location["workload"], location["variant"]) == (workload, variant)
            and location["answer"] not in CLOSED
        ),
        "layer": _first_layer(drawn),
        "tensors": _most_different(worst),
    }


def _answer(pairs: Iterable[Comparison]) -> str:
    """Return the answer of the worst seed, as the verdicts do."""
    answers = {pair["answer"] for pair in pairs}
    # A verdict and its section must not say two things: see `verdicts.equality`.
    worst_first = ("differs", "not comparable", "not run", "equal")
    return next(answer for answer in worst_first if answer in answers)


class Divergence(TypedDict):
    """An operation, or a cause where none was found, at which pairs diverge."""

    seed: int
    """The first that diverges there."""
    sentence: str
    """What was found of it."""
    seeds: int
    """How many seeds diverge there."""


def _divergences(locations: Iterable[Location]) -> list[Divergence]:
    """Group the seeds that diverge at the same operation."""
    divergences: dict[tuple[str | int | None, ...], Divergence] = {}
    for location in locations:
        # Seeds that diverge alike are one line of the page, however many there are.
        key = (location["answer"], location["cause"])
        if op := location["op"] or location["likely"]:
            key += (op["op"], op["phase"], op["module"], op["parameter"])
            key += (op["source"], op["differs_in"])  # the cause tells what is drawn apart
        else:
            key += (location["step"],)
        empty: Divergence = {
            "seed": location["seed"],
            "sentence": location["sentence"],
            "seeds": 0,
        }
        divergences.setdefault(key, empty)["seeds"] += 1
    return list(divergences.values())


def _first_layer(pair: ReportedComparison) -> Mapping[Hashable, object] | None:
    """Return the row of the first parameter tensor, of the lowest repeat; None if there is none."""
    tensors = _tensors(pair)
    parameters = tensors[tensors["kind"] == "parameter"]
    return None if parameters.empty else parameters.iloc[0].to_dict()


def _most_different(pair: ReportedComparison) -> Sequence[Mapping[Hashable, object]]:
    """Return the rows of the tensors that differ most, by repeat and in the module's order."""
    if pair["answer"] != "differs":
        return []
    most = _tensors(pair).nlargest(MOST_TENSORS, "elements_differing")
    return most.sort_index().to_dict("records")


def _tensors(pair: ReportedComparison) -> pd.DataFrame:
    tensors = artifacts.read_csv(pair["tensors"], ["seed", "elements_differing"])
    return tensors[tensors["seed"] == pair["seed"]]


def _cost(timing: TimingSummary | None) -> dict[str, object] | None:
    """Return medians by variant and phase, and the ratios of the training steps."""
    if timing is None:
        return None
    return {
        "baseline": timing["baseline"],
        "medians": timing["medians"],
        "ratios": [
            {**ratio, "doubt": unsteadiness(ratio, medians_behind(timing, ratio))}
            for ratio in timing["ratios"]
            if ratio["phase"] == "train" and ratio["variant"] != timing["baseline"]
        ],
        "proofs": timing["proofs"],
        "without_epoch_hooks": timing["without_epoch_hooks"],
        "skipped": timing["skipped"],
        "unstable": [
            median["variant"]
            for median in timing["medians"]
            if median["phase"] == "train" and median["unstable"]
        ],
    }
