"""The section of the study reproducibility: does training repeat, and what does repeating cost?"""

from collections.abc import Iterable
from typing import Any

import pandas as pd

from twinrun.report.results import Material
from twinrun.report.runs import metrics
from twinrun.timing.summary import TimingSummary

MOST_TENSORS = 40
FIGURES = ("first_layer", "layers", "operations", "growth", "curves", "strip", "cost")


def section(material: Material) -> dict[str, Any]:
    """Give what the section's template needs."""
    study = material.config["reproducibility"]
    return {
        "title": "Does it repeat?",
        "seeds": study["seeds"],
        "repeats": study["repeats"],
        "workloads": [_workload(material, name) for name in study["workloads"]],
    }


def _workload(material: Material, workload: str) -> dict[str, Any]:
    variants = [
        _variant(material, workload, variant)
        for variant in material.config["reproducibility"]["variants"]
    ]
    settings = material.config["workloads"][workload]
    place = f"reproducibility/{workload}"
    return {
        "name": workload,
        "module": settings["module"],
        "epochs": settings["epochs"],
        "variants": variants,
        "compared": [variant for variant in variants if variant["pairs"]],
        "figures": {name: material.figures.get(f"{place}/{name}") for name in FIGURES},
        "metrics": metrics(material, workload, material.config["reproducibility"]["variants"]),
        "cost": _cost(material.timings.get(f"determinism_{workload}")),
    }


def _variant(material: Material, workload: str, variant: str) -> dict[str, Any]:
    """Sum up the comparisons of a variant over its seeds: the worst of each measure."""
    pairs = [
        comparison
        for comparison in material.comparisons
        if comparison["study"] == "reproducibility"
        and (comparison["workload"], comparison["variant"]) == (workload, variant)
    ]
    summed = {
        "name": variant,
        "not_run": material.not_run.get(variant),
        "pairs": len(pairs),
        "equal_pairs": sum(pair["answer"] == "equal" for pair in pairs),
    }
    if not pairs:
        return summed
    refused = [pair["reason"] for pair in pairs if pair["answer"] == "not comparable"]
    differing = [pair for pair in pairs if pair["answer"] == "differs"]
    worst = max(differing or pairs, key=lambda pair: pair["relative_l2"] or 0)
    first = min((pair["first_difference"] for pair in differing), key=_step, default=None)
    drawn = min(pairs, key=lambda pair: pair["seed"])  # the one of the figures
    return summed | {
        "answer": "differs" if differing else "not comparable" if refused else "equal",
        "reasons": list(dict.fromkeys(refused)),
        "worst": worst,
        "first": first,
        "places": _places(
            location
            for location in material.locations
            if (location["workload"], location["variant"]) == (workload, variant)
            and location["answer"] != "equal"
        ),
        "layer": _first_layer(drawn),
        "tensors": _most_different(worst),
    }


def _places(locations: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Give the sentence of each place in which pairs part, with the number of its seeds."""
    places: dict[tuple[str | None, ...], dict[str, Any]] = {}
    for location in locations:
        op = location["op"] or {}
        names = (op.get(key) for key in ("op", "phase", "module", "parameter"))
        empty = {"sentence": location["sentence"], "seeds": 0}
        places.setdefault((location["cause"], *names), empty)["seeds"] += 1
    return list(places.values())


def _step(difference: dict[str, Any]) -> int:
    return difference["step"] or 0


def _first_layer(pair: dict[str, Any]) -> dict[str, Any] | None:
    """Give the row of the first parameter tensor, of the lowest repeat; None in a refused pair."""
    tensors = _tensors(pair)
    parameters = tensors[tensors["kind"] == "parameter"]
    return None if parameters.empty else parameters.iloc[0].to_dict()


def _most_different(pair: dict[str, Any]) -> list[dict[str, Any]]:
    """Give the rows of the tensors that differ most, in the order of repeats and of the module."""
    if pair["answer"] != "differs":
        return []
    most = _tensors(pair).nlargest(MOST_TENSORS, "elements_differing")
    return most.sort_index().to_dict("records")


def _tensors(pair: dict[str, Any]) -> pd.DataFrame:
    tensors = pd.read_csv(pair["tensors"])
    return tensors[tensors["seed"] == pair["seed"]]


def _cost(timing: TimingSummary | None) -> dict[str, object] | None:
    """Give medians by variant and phase, and the ratios of the training steps."""
    if timing is None:
        return None
    return {
        "baseline": timing["baseline"],
        "medians": timing["medians"],
        "ratios": [
            ratio
            for ratio in timing["ratios"]
            if ratio["phase"] == "train" and ratio["variant"] != timing["baseline"]
        ],
        "skipped": timing["skipped"],
        "unstable": [
            median["variant"]
            for median in timing["medians"]
            if median["phase"] == "train" and median["unstable"]
        ],
    }
