"""Verdicts on equality: does it repeat, where does it part, is it what another variant learned?"""

from collections.abc import Mapping, Sequence
from typing import Any

from twinrun.formatting import count, measure, plural
from twinrun.verdicts.rows import Row

REPEATS = "Are all learnable parameters equal, bit for bit?"
REPEATS_ENTIRELY = "Is everything equal, bit for bit: parameters, buffers, every step?"
BEGINS = "Was the operation found in which the runs part?"
SAME_LEARNED = "Are the parameters those of {against}, bit for bit?"


def summed_up(seeds: Sequence[Mapping[str, Any]]) -> Row:
    """Sum up the comparisons of one workload and variant over its seeds."""
    refused = [seed for seed in seeds if seed["answer"] == "not comparable"]
    differing = [seed for seed in seeds if seed["answer"] == "differs"]
    shown, question = seeds[0], REPEATS
    if differing:
        shown = max(differing, key=_extent)
        if not shown["parameters"]["elements_differing"]:
            question = REPEATS_ENTIRELY
        answer, figure = "differs", _difference(shown)
    elif refused:
        shown = refused[0]
        answer, figure = "not comparable", shown["reason"]
    else:
        answer, figure = "equal", _share(shown["parameters"], "parameter")
    if len(seeds) > 1:
        parts = [(len(differing), "differ"), (len(refused), "not comparable")]
        parts = [f"{number} of {len(seeds)} seeds {what}" for number, what in parts if number]
        figure = f"seed {shown['seed']}: {figure}" if parts else f"{len(seeds)} seeds: {figure}"
        figure = "; ".join([*parts, figure])
    if answer != "not comparable":
        figure += f" ({plural(shown['repeats'], 'run')}, {plural(shown['steps'], 'step')})"
    return {"question": question, "answer": answer, "figure": figure, "evidence": shown["path"]}


def contrasts_of(contrasts: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Say of each variant whether it learned what the first one did, over the seeds."""
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for contrast in contrasts:
        groups.setdefault((contrast["workload"], contrast["variant"]), []).append(contrast)
    return [
        {
            "workload": workload,
            "variant": variant,
            **summed_up(seeds),
            "question": SAME_LEARNED.format(against=seeds[0]["against"]),
        }
        for (workload, variant), seeds in groups.items()
    ]


def located(locations: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Say for each workload and variant that differs where that begins; of its seeds, the first.

    A seed in which an operation was found goes before one in which none was.
    """
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for location in locations:
        if location["answer"] != "equal":
            groups.setdefault((location["workload"], location["variant"]), []).append(location)
    shown = [
        min(group, key=lambda location: location["answer"] != "located")
        for group in groups.values()
    ]
    return [
        {
            "workload": location["workload"],
            "variant": location["variant"],
            "question": BEGINS,
            "answer": "yes" if location["answer"] == "located" else "no",
            "figure": location["sentence"],
            "evidence": location["path"],
        }
        for location in shown
    ]


def _extent(comparison: Mapping[str, Any]) -> tuple[float, int]:
    return comparison["relative_l2"], comparison["parameters"]["elements_differing"]


def _difference(comparison: Mapping[str, Any]) -> str:
    """Say how many elements differ, how far, and where that began."""
    parameters, buffers = comparison["parameters"], comparison["buffers"]
    parts = [_share(parameters, "parameter")]
    if parameters["elements_differing"]:
        ulp = comparison["max_ulp"]
        steps = count(ulp) if ulp < 1_000_000 else measure(ulp)
        parts[0] += f" by up to {measure(comparison['max_abs'])} ({steps} ULP)"
    elif buffers["elements_differing"]:
        parts.append(_share(buffers, "buffer element"))
    return ", ".join([*parts, _beginning(comparison["first_difference"])])


def _share(counts: Mapping[str, int], noun: str) -> str:
    number, whole = counts["elements_differing"], plural(counts["elements"], noun)
    return f"{count(number)} of {whole} differ{'s' if number == 1 else ''}"


def _beginning(first: Mapping[str, Any] | None) -> str:
    """Say where two runs parted.

    >>> _beginning({"step": 3, "quantity": "gradients", "tensor": "user_factors"})
    'first at step 3 in the gradients of user_factors'
    """
    if first is None:
        return "at no step, so after the last one"
    step, quantity = count(first["step"]), first["quantity"]
    if quantity == "number of steps":
        return f"first at step {step}, which not every run has"
    of_tensor = f" of {first['tensor']}" if first["tensor"] else ""
    if quantity == "initial parameters":
        return f"first before training in the {quantity}{of_tensor}"
    return f"first at step {step} in the {quantity}{of_tensor}"
