"""Verdicts on what a timed variant computes: its training step, and its predictions.

That a fast training step computes what the plain one does rests on short trainings of the workload
itself, done plain and fast before the timing (see `training.prove`). Predictions are compared
before any training; they show what compilation and layout do to `predict_step`, and nothing else.
"""

import math

from twinrun.formatting import count, measure, plural, verb
from twinrun.proof_records import ProofLeg, Share
from twinrun.timing.summary import Agreement, TimedProof
from twinrun.verdicts.rows import Answer, Verdict
from twinrun.verdicts.speed import Timing, verdict_of

SAME_COMPUTATION = (
    "Does its training step compute what the plain step computes, except for rounding?"
)
SAME_PREDICTIONS = "Before training, does it predict what {baseline} predicts, except for rounding?"


def computations(timing: Timing) -> list[Verdict]:
    """Say of each variant with fast steps whether they are the plain ones, by its worst size."""
    worst: dict[str, TimedProof] = {}
    for row in timing.found["proofs"]:
        before = worst.setdefault(row["variant"], row)
        if _strain(row) > _strain(before):
            worst[row["variant"]] = row
    return [
        verdict_of(timing, "same_computation", variant, SAME_COMPUTATION, *_computation(row))
        for variant, row in worst.items()
    ]


def _strain(row: TimedProof) -> float:
    """Return how much of its bound a proof needs; infinite where it failed."""
    legs = [] if row["proof"] is None else row["proof"]["legs"]
    return max((leg["distance"] / leg["bound"] for leg in legs), default=math.inf)


def _computation(row: TimedProof) -> tuple[Answer, str]:
    proof = row["proof"]
    if proof is None:
        return "no", row["refused"] or ""
    shapes = plural(proof["shapes"], "shape")
    legs = "; ".join(map(_leg, proof["legs"]))
    parts = [f"{plural(proof['steps'], 'step')} with {shapes} of batch: {legs}"]
    if proof["in_parts"]:
        parts.append(f"done in parts, because of {proof['in_parts']}")
    if proof["not_in_float64"]:
        parts.append(f"not tried in float64 ({proof['not_in_float64']})")
    return "yes", "; ".join(parts)


def _leg(leg: ProofLeg) -> str:
    """Say what was judged of what in one precision."""
    others = leg["judged"] - leg["losses"]["judged"] - leg["parameters"]["judged"]
    said = (
        f"in {leg['precision']} {_share(leg['losses'], 'loss', 'losses')}, "
        f"{_share(leg['parameters'], 'parameter', 'parameters')} that training moves and "
        f"{plural(others, 'other value')}, with a relative L2 distance of at most "
        f"{measure(leg['distance'])} (bound {measure(leg['bound'])})"
    )
    if leg["left_out"]:
        said += f", {plural(leg['left_out'], 'value')} left out, which rounding alone moves too far"
    if leg["unrepeated"]:
        said += f", {count(leg['unrepeated'])} left out, which plain training does not repeat"
    return said


def _share(share: Share, one: str, many: str) -> str:
    """Say how many of how many.

    >>> [_share({"judged": 3, "of": of}, "loss", "losses") for of in (5, 3)]
    ['3 of 5 losses', 'all 3 losses']
    """
    counted = f"{count(share['of'])} {one if share['of'] == 1 else many}"
    if share["judged"] == share["of"] > 1:
        return f"all {counted}"
    return f"{count(share['judged'])} of {counted}"


def agreements(timing: Timing) -> list[Verdict]:
    """Say of each variant whether it predicts what the baseline does; of the sizes, the worst."""
    worst: dict[str, Agreement] = {}
    for row in timing.found["agreement"]:
        before = worst.setdefault(row["variant"], row)
        # Of several sizes the one that is furthest, by its distance first.
        if _furthest(row) > _furthest(before):
            worst[row["variant"]] = row
    baseline = timing.found["baseline"]
    question = SAME_PREDICTIONS.format(baseline=baseline)
    rows = [
        verdict_of(timing, "same_predictions", variant, question, *_agreement(row))
        for variant, row in worst.items()
    ]
    for skipped in timing.found["skipped"]:
        name, reason = skipped["variant"], skipped["reason"]
        if skipped["phase"] == "predict" and name not in (baseline, *worst):
            rows.append(verdict_of(timing, "same_predictions", name, question, "not run", reason))
    return rows


def _furthest(row: Agreement) -> tuple[float, float]:
    distance = -1.0 if row["distance"] is None else row["distance"]
    # NaN is neither below nor above another number.
    share = row["integers_differing"] / max(row["integers"], 1)
    return math.inf if math.isnan(distance) else distance, share


def _agreement(row: Agreement) -> tuple[Answer, str]:
    differing, integers = row["integers_differing"], row["integers"]
    differ = verb("differ", differing, integers)
    counted = f"{count(differing)} of {plural(integers, 'predicted integer')} {differ}"
    if row["distance"] is None:
        if not differing:
            return "yes", f"{counted} on the first batch"
        return "undecided", (
            f"{counted} on the first batch: rounding turns over near ties, and integers do not "
            f"tell it from another computation"
        )
    # NaN is neither below nor above a tolerance.
    if math.isnan(row["distance"]):
        return "no", "a prediction of the first batch is not a number"
    distance, tolerance = measure(row["distance"]), measure(row["tolerance"])
    measured = f"relative L2 distance {distance} on the first batch, tolerance {tolerance}"
    if differing:
        measured += f"; {counted}, as rounding may turn over near ties"
    return "yes" if row["distance"] <= row["tolerance"] else "no", measured
