"""Verdicts on equality: does training repeat, where do runs diverge, do variants learn the same?

Over several seeds the worst one speaks: a difference before a pair that was refused, this before a
training that failed, and of several differences the largest.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeVar

from twinrun.comparison.conditions import conditions_of_seeds, listed, same_trainings
from twinrun.comparison.difference_words import clause_of
from twinrun.comparison.outputs import WORST_FIRST
from twinrun.comparison.pair_records import Comparison, Counts, FirstDifference, Location
from twinrun.comparison.ulps import MOST_ULP
from twinrun.formatting import count, measure, plural, verb
from twinrun.verdicts.evidence import Evidence
from twinrun.verdicts.rows import Answer, Key, Verdict

Compared = Evidence[Comparison]
Located = Evidence[Location]
OfVariant = TypeVar("OfVariant", Compared, Located)

REPEATS = "Are all learnable parameters equal, bit for bit?"
REPEATS_ENTIRELY = "Is everything equal, bit for bit: parameters, buffers and every step?"
SAME = "Are the parameters equal to those of {baseline}, bit for bit?"
SAME_ENTIRELY = (
    "Is everything equal to {baseline}, bit for bit: parameters, buffers and every step?"
)
# What runs give beside their weights: the field of a comparison, the key, and the question.
OUTPUTS: Mapping[Literal["logged", "metrics", "predictions"], tuple[Key, str]] = {
    "logged": (
        "repeats_logged",
        "Are the values logged in every epoch equal, bit for bit, validation included?",
    ),
    "metrics": ("repeats_metrics", "Are the metrics on test data equal, bit for bit?"),
    "predictions": ("repeats_predictions", "Are the predictions equal, bit for bit?"),
}
SEED_MATTERS = "Does the seed change the training?"
FIRST_OPERATION = "Which operation diverged first?"
CLOSED = ("equal", "not compared")  # answers of a location that leave no operation to name


def repeats(comparisons: Iterable[Compared]) -> list[Verdict]:
    """Say of each workload and variant whether its runs repeat, over the seeds.

    The outputs are asked for apart: runs of equal weights may validate or predict differently.
    """
    rows: list[Verdict] = []
    for seeds in _by_variant(comparisons):
        rows.append(_over_seeds(seeds, "repeats", question=REPEATS, entirely=REPEATS_ENTIRELY))
        rows += [row for output in OUTPUTS for row in _outputs(seeds, output)]
        rows += _seed_matters(seeds)
    return rows


def _outputs(
    seeds: Sequence[Compared], output: Literal["logged", "metrics", "predictions"]
) -> list[Verdict]:
    """Say whether the runs agree in one kind of output; nothing where none has it.

    Over the seeds the worst one speaks.
    """
    found = [(agreement, seed) for seed in seeds if (agreement := seed.found[output]) is not None]
    if not found:
        return []
    # min keeps the first of equals: of several seeds that differ, the first one is shown.
    worst, shown = min(found, key=lambda pair: WORST_FIRST.index(pair[0]["answer"]))
    measured = worst["measured"]
    if len(seeds) > 1:
        is_of_all = worst["answer"] == "equal"
        of_seeds = _seeds(seeds) if is_of_all else f"seed {shown.found['seed']}"
        measured = f"{of_seeds}: {measured}"
    key, question = OUTPUTS[output]
    return [
        {
            "key": key,
            "workload": shown.found["workload"],
            "variant": shown.found["variant"],
            "question": question,
            "answer": worst["answer"],
            "measured": measured,
            "evidence": shown.path,
        }
    ]


def _seed_matters(seeds: Sequence[Compared]) -> list[Verdict]:
    """Say of which seeds the training is the same; nothing if all lead to different ones."""
    groups = same_trainings([seed.found for seed in seeds])
    same = [listed("seed", group) for group in groups if len(group) > 1]
    if not same:
        return []
    return [
        {
            "key": "seed_matters",
            "workload": seeds[0].found["workload"],
            "variant": seeds[0].found["variant"],
            "question": SEED_MATTERS,
            "answer": "no",
            "measured": f"{'; '.join(same)} lead to the same parameters",
            "evidence": seeds[0].path,
        }
    ]


def same_parameters(contrasts: Iterable[Compared]) -> list[Verdict]:
    """Say of each variant whether it learned what the baseline did, over the seeds."""
    return [
        _over_seeds(
            seeds,
            "same_parameters",
            question=SAME.format(baseline=seeds[0].found["against"]),
            entirely=SAME_ENTIRELY.format(baseline=seeds[0].found["against"]),
        )
        for seeds in _by_variant(contrasts)
    ]


def first_operations(locations: Iterable[Located]) -> list[Verdict]:
    """Name the operation that diverged first in each workload and variant that differs.

    One seed speaks for all: the first in which the operation was found, else the first.
    """
    diverging = [location for location in locations if location.found["answer"] not in CLOSED]
    return [
        # False sorts before True, and min keeps the first of equals.
        _first_operation(min(seeds, key=lambda location: location.found["answer"] != "located"))
        for seeds in _by_variant(diverging)
    ]


def _first_operation(location: Located) -> Verdict:
    found = location.found
    return {
        "key": "first_operation",
        "workload": found["workload"],
        "variant": found["variant"],
        "question": FIRST_OPERATION,
        # A race may stay silent in the replay: not found is no answer that it was not there.
        "answer": "differs" if found["answer"] == "located" else "undecided",
        "measured": found["sentence"],
        "evidence": location.path,
    }


def _by_variant(entries: Iterable[OfVariant]) -> Iterable[list[OfVariant]]:
    """Return the entries of each workload and variant, one for each seed."""
    groups: dict[tuple[str, str], list[OfVariant]] = {}
    for entry in entries:
        names = entry.found["workload"], entry.found["variant"]
        groups.setdefault(names, []).append(entry)
    return groups.values()


def _over_seeds(seeds: Sequence[Compared], key: Key, *, question: str, entirely: str) -> Verdict:
    """Sum up the comparisons of one workload and variant.

    Args:
        seeds: a comparison of each.
        key: of the verdict.
        question: about the parameters.
        entirely: the question instead, where all parameters are equal and something else is not.
    """
    refused = [seed for seed in seeds if seed.found["answer"] == "not comparable"]
    differing = [seed for seed in seeds if seed.found["answer"] == "differs"]
    failed = [seed for seed in seeds if seed.found["answer"] == "not run"]
    answer: Answer
    # One difference is enough to say that it does not repeat, whatever could not be compared; but
    # pairs that could not be compared may differ, so the equal ones do not speak for them.
    if differing:
        answer, shown = "differs", max(differing, key=_extent)
        measured = _difference(shown.found)
        # "Are all parameters equal? differs: 0 of 12,609 differ" would contradict itself.
        if not shown.found["parameters"]["elements_differing"]:
            question = _without_list(entirely) if _is_not_held(shown.found) else entirely
    elif refused or failed:
        # The worst one, as the module says: a refused pair before a training that failed.
        shown = [*refused, *failed][0]
        answer = "not comparable" if refused else "not run"
        measured = shown.found["reason"] or "without a reason"
    else:
        answer, shown = "equal", seeds[0]
        measured = _share(shown.found["parameters"], "parameter")
        if not shown.found["parameters"]["elements"]:  # a codebook, say
            question, measured = entirely, _share(shown.found["buffers"], "buffer element")
    if len(seeds) > 1:
        counts = [
            (len(differing), verb("differ", len(differing), len(seeds))),
            (len(refused), "not comparable"),
            (len(failed), "not run"),
        ]
        worse = [f"{number} of {len(seeds)} seeds {what}" for number, what in counts if number]
        of_seeds = f"seed {shown.found['seed']}" if worse else _seeds(seeds)
        measured = "; ".join([*worse, f"{of_seeds}: {measured}"])
    if answer in ("equal", "differs"):
        runs, steps = plural(shown.found["repeats"], "run"), plural(shown.found["steps"], "step")
        measured += f" ({runs}, {steps})"
    # Of all seeds: one that is not shown may rest on a resumed run.
    measured = "; ".join([measured, *conditions_of_seeds([seed.found for seed in seeds])])
    return {
        "key": key,
        "workload": shown.found["workload"],
        "variant": shown.found["variant"],
        "question": question,
        "answer": answer,
        "measured": measured,
        "evidence": shown.path,
    }


def _is_not_held(found: Comparison) -> bool:
    first = found["first_difference"]
    return first is not None and first["cause"] == "not held"


def _without_list(question: str) -> str:
    """Ask for everything, also for what is neither a parameter nor a buffer.

    >>> _without_list("Is everything equal, bit for bit: parameters, buffers and every step?")
    'Is everything equal, bit for bit?'
    """
    return f"{question.partition(':')[0]}?"


def _seeds(seeds: Sequence[Compared]) -> str:
    """Count the seeds, and the trainings that they lead to where these are fewer."""
    trainings = len(same_trainings([seed.found for seed in seeds]))
    if trainings == len(seeds):
        return f"{len(seeds)} seeds"
    return f"{len(seeds)} seeds, which are {plural(trainings, 'training')}"


def _extent(comparison: Compared) -> tuple[bool, float, int]:
    """Return what orders comparisons by how far their parameters differ.

    A distance that is no number counts as the largest: NaN compares with nothing, and would leave
    the choice to the order of the seeds.
    """
    differing = comparison.found["parameters"]["elements_differing"]
    distance = comparison.found["relative_l2"]
    if distance is None or math.isnan(distance):
        distance = math.inf
    return differing > 0, distance, differing


def _difference(comparison: Comparison) -> str:
    """Say how many elements differ, how far, and where that began."""
    parameters, buffers = comparison["parameters"], comparison["buffers"]
    clauses = [_share(parameters, "parameter")]
    if parameters["elements_differing"]:
        ulp = comparison["max_ulp"] or 0
        clauses[0] += f" by up to {measure(comparison['max_abs'])}"
        # Beyond a million, which a change of sign easily is, the number says nothing.
        clauses[0] += f" ({count(ulp)} ULP)" if ulp < MOST_ULP else ""
    # Buffers alone: statistics may differ where nothing that is learned does.
    elif buffers["elements_differing"]:
        clauses.append(_share(buffers, "buffer element"))
    first = comparison["first_difference"]
    if first is None and "traced" in comparison:
        return ", ".join([*clauses, "at no step that was traced"])
    return ", ".join([*clauses, _beginning(first)])


def _share(counts: Counts, noun: str) -> str:
    number, whole = counts["elements_differing"], counts["elements"]
    if not whole:
        return f"there are no {noun}s"
    return f"{count(number)} of {plural(whole, noun)} {verb('differ', number, whole)}"


def _beginning(first: FirstDifference | None) -> str:
    """Say where two runs diverged.

    >>> _beginning({"step": 3, "quantity": "gradients", "tensor": "user_factors"})
    'first at step 3 in the gradients of user_factors'
    """
    if first is None:  # as after a callback that changes weights when the last step is done
        return "at no step, so after the last one"
    # Nothing inside this step differs: one of the runs has no such step.
    if first["quantity"] == "number of steps" and "since" not in first:
        return f"first at step {count(first['step'])}, which not every run has"
    # Nothing comes before that.
    return f"first {clause_of(first)}" if first["step"] else clause_of(first)
