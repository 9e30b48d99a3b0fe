"""Advice on speed: what is faster, by how much, and from which size or step on.

A variant that was shown to compute or predict another thing than the baseline is no faster one, and
nothing is said of it. Numbers are given where the clock was steady.
"""

import math
from collections.abc import Iterator, Sequence

from twinrun.config.trainer_arguments import TrainerArguments
from twinrun.formatting import count, seconds
from twinrun.report.measured_sizes import (
    Measured,
    measured,
    size_of,
    times,
    timing_of,
    where,
    without,
)
from twinrun.report.results import Results
from twinrun.report.sentence import Sentence, sentence
from twinrun.timing.ratio_words import interval_of_speed
from twinrun.timing.summary import TimingSummary
from twinrun.verdicts.rows import VerdictRow

FEW_STEPS = 10  # a first call that is made up for by fewer costs nothing
UNSURE = "by how much is unsure: the clock was unstable"


def speeds(results: Results) -> list[Sentence]:
    """Say of each variant that is faster or slower than its baseline, first of the faster ones."""
    groups: dict[tuple[str, str, str], list[VerdictRow]] = {}
    for row in results.verdicts:
        if row["key"] in ("speed", "prediction_speed"):
            key = row["study"], row["workload"], row["variant"]
            groups.setdefault(key, []).append(row)
    kept = [rows for key, rows in groups.items() if key not in _other_computations(results)]
    faster = [row for rows in kept for row in _faster(results, rows)]
    return [*faster, *(row for rows in kept for row in _slower(results, rows))]


def _other_computations(results: Results) -> set[tuple[str, str, str]]:
    """Return what does not compute or predict what its baseline does."""
    return {
        (row["study"], row["workload"], row["variant"])
        for row in results.verdicts
        if row["key"] in ("same_computation", "same_predictions") and row["answer"] == "no"
    }


def _faster(results: Results, rows: Sequence[VerdictRow]) -> Iterator[Sentence]:
    trains = _answered(results, rows, "speed", "yes")
    predicts = _answered(results, rows, "prediction_speed", "yes")
    of_both = [
        f"{verb} {_how_fast(results, rows, found)}"
        for verb, found in (("trains", trains), ("predicts", predicts))
        if found
    ]
    if not of_both:
        return
    row, clauses = rows[0], [f"{rows[0]['variant']} {' and '.join(of_both)}"]
    clauses += [said for said in (_slower_at(results, rows), _pays(results, rows, trains)) if said]
    clauses += [*_without(results, row), *_bits(results, row)]
    yield sentence(row, "; ".join(clauses))


def _slower(results: Results, rows: Sequence[VerdictRow]) -> Iterator[Sentence]:
    """Say that a variant only costs time: it is slower wherever that is known."""
    if any(row["answer"] == "yes" for row in rows):
        return
    found = _slower_ones(results, rows)
    if found:
        says = f"{rows[0]['variant']} is slower: it trains {_how_fast(results, rows, found)}"
        yield sentence(rows[0], "; ".join([says, *_without(results, rows[0])]))


def _without(results: Results, row: VerdictRow) -> list[str]:
    """Say what the timing left out of a variant."""
    timing = timing_of(results, row)
    return [] if timing is None else without(timing, row["variant"])


def _slower_at(results: Results, rows: Sequence[VerdictRow]) -> str | None:
    """Say at which sizes a variant is slower that is faster at others."""
    found = _slower_ones(results, rows)
    if not found:
        return None
    return f"it trains slower{_where(results, rows, found)}"


def _slower_ones(results: Results, rows: Sequence[VerdictRow]) -> list[Measured]:
    # "no" may mean that there is no difference that matters.
    return [m for m in _answered(results, rows, "speed", "no") if m.effect == "slower"]


def _answered(
    results: Results, rows: Sequence[VerdictRow], key: str, answer: str
) -> list[Measured]:
    chosen = [row for row in rows if (row["key"], row["answer"]) == (key, answer)]
    return [found for row in chosen if (found := measured(results, row)) is not None]


def _how_fast(results: Results, rows: Sequence[VerdictRow], found: Sequence[Measured]) -> str:
    steady = [m for m in found if not m.unstable]
    at = _where(results, rows, found)
    if not steady:
        return f"{found[0].effect} than {found[0].baseline}{at} ({UNSURE})"
    text = f"{times(steady)} as {found[0].baseline}"
    if len(steady) == 1:
        text += f" ({interval_of_speed(steady[0].ratio)})"
    if len(steady) < len(found):
        text += f" (where the clock was steady, at {len(steady)} of {len(found)} sizes)"
    return f"{text}{at}"


def _where(results: Results, rows: Sequence[VerdictRow], found: Sequence[Measured]) -> str:
    """Say at which sizes something was measured; nothing of a timing without sizes."""
    sizes = [m.size for m in found if m.size is not None]
    timing = timing_of(results, rows[0])
    if not sizes or timing is None:
        return ""
    every = {size for row in rows if (size := size_of(results, row)) is not None}
    return f" {where(sizes, every, str(timing['settings']['timing'].size))}"


def _pays(results: Results, rows: Sequence[VerdictRow], found: Sequence[Measured]) -> str | None:
    """Say after how many steps the first call is made up for, where it takes longer."""
    timing = timing_of(results, rows[0])
    if timing is None or not found:
        return None
    needed = [of for m in found if (of := _steps_to_pay(timing, rows[0]["variant"], m))]
    if not needed or max(steps for steps, _ in needed) < FEW_STEPS:
        return None
    longer = sorted(first_call for _, first_call in needed)
    takes = f"{'up to ' if longer[0] < longer[-1] else ''}{seconds(longer[-1])}"
    if any(m.unstable for m in found):
        return f"its first call takes {takes} more; how many steps pay for it is unsure"
    # Two digits: the first call was measured once.
    ends = dict.fromkeys(_rounded_up(end(steps for steps, _ in needed)) for end in (min, max))
    says = (
        f"it pays only above about {' to '.join(map(count, ends))} steps, since its first call "
        f"takes {takes} more"
    )
    taken = _steps_of_training(results, timing, rows[0]["workload"])
    if taken is None:
        return says
    return f"{says}, and this training has {count(taken)}"


def _steps_to_pay(
    timing: TimingSummary, variant: str, found: Measured
) -> tuple[float, float] | None:
    """Return how many steps make up for the first call, and how much longer it takes in seconds."""
    once, step = (
        {
            median["variant"]: median["seconds_per_step"]
            for median in timing["medians"]
            if (median["phase"], median["size"]) == (phase, found.size)
        }
        for phase in ("first_call", "train")
    )
    if not {variant, found.baseline} <= once.keys() or found.baseline not in step:
        return None
    longer = once[variant] - once[found.baseline]
    # By the ratio, not by both medians: it is taken within each round.
    saved = step[found.baseline] * (1 - found.ratio["time_ratio"])
    return (longer / saved, longer) if longer > 0 and saved > 0 else None


def _rounded_up(steps: float) -> int:
    """Round up to two digits.

    >>> _rounded_up(2310.2), _rounded_up(7.2)
    (2400, 8)
    """
    unit = 10 ** max(0, math.floor(math.log10(steps)) - 1)
    return math.ceil(steps / unit) * unit


def _steps_of_training(results: Results, timing: TimingSummary, workload: str) -> int | None:
    """Return the steps of the workload's own training; None where nobody can say, or by size."""
    batches = [extent["train"] for extent in timing["extents"] if extent["size"] is None]
    settings = results.config["workloads"].get(workload)
    if not batches or batches[0] is None or settings is None or settings["epochs"] == -1:
        return None
    told = TrainerArguments(**settings["trainer"])
    return told.batches_taken(settings["epochs"], batches[0])


def _bits(results: Results, row: VerdictRow) -> Iterator[str]:
    """Say whether the faster variant ends in the baseline's bits, where they were compared."""
    for other in results.verdicts:
        names = ("study", "workload", "variant")
        if other["key"] == "same_parameters" and all(other[n] == row[n] for n in names):
            if other["answer"] == "equal":
                yield "it ends in the same bits"
            elif other["answer"] == "differs":
                yield "it ends in other bits"
