"""Advice on speed: what is faster, by how much, and from which size or step on.

A variant that was shown to compute or predict another thing than the baseline is no faster one, and
nothing is said of it. Numbers are given where the clock was steady. What makes steps faster and the
training not, since compiling takes longer than its steps save, is not advised for training.
"""

from collections.abc import Iterator, Sequence

from twinrun.report.advice_pays import break_evens, pays_of, where_of
from twinrun.report.advice_repeats import no_result
from twinrun.report.measured_sizes import (
    Measured,
    measured,
    of_other_lengths,
    times,
    timing_of,
    without,
)
from twinrun.report.results import Results
from twinrun.report.sentence import Sentence, sentence
from twinrun.timing.ratio_words import interval_of_speed
from twinrun.verdicts.rows import VerdictRow

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
    no_gain = [row for rows in kept for row in _not_worth_it(results, rows)]
    return [*faster, *no_gain, *(row for rows in kept for row in _slower(results, rows))]


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
    is_advised = bool(trains) and not _is_in_vain(results, rows, trains)
    of_both = [
        f"{verb} {_how_fast(results, rows, found)}"
        for verb, found in (("trains", trains if is_advised else []), ("predicts", predicts))
        if found
    ]
    if not of_both:
        return
    row, clauses = rows[0], [f"{rows[0]['variant']} {' and '.join(of_both)}"]
    if is_advised:
        clauses += _clauses(results, rows, trains)
    elif trains:
        clauses.append(f"for training leave it out: {_in_vain(results, rows, trains)}")
    clauses += [*_without(results, row), *_bits(results, row)]
    clauses += [f"but {doubt}" for doubt in no_result(results, row)]
    yield sentence(row, "; ".join(clauses))


def _clauses(
    results: Results, rows: Sequence[VerdictRow], trains: Sequence[Measured]
) -> Iterator[str]:
    """Say what stands beside a faster training: sizes, what must be paid first, the whole of it."""
    said = _slower_at(results, rows), pays_of(results, rows, trains)
    yield from (clause for clause in said if clause)
    whole = _whole(results, rows[0])
    if whole is not None and whole["answer"] == "yes":
        yield f"the whole training, as it ran, was {_times_of(whole)}"


def _is_in_vain(results: Results, rows: Sequence[VerdictRow], trains: Sequence[Measured]) -> bool:
    """Say whether faster steps make no faster training: compiling takes longer than they save."""
    whole = _whole(results, rows[0])
    found = [of for _, of in break_evens(results, rows, trains)]
    if whole is not None and whole["answer"] in ("yes", "no"):
        return whole["answer"] == "no"
    return bool(found) and all(of.pays_in_training is False for of in found)


def _in_vain(results: Results, rows: Sequence[VerdictRow], trains: Sequence[Measured]) -> str:
    """Say why."""
    clauses = [said] if (said := pays_of(results, rows, trains)) else []
    whole = _whole(results, rows[0])
    if whole is not None and whole["answer"] == "no":
        clauses.append(f"the whole training, as it ran, was {_times_of(whole)}")
    return "; ".join(clauses)


def _not_worth_it(results: Results, rows: Sequence[VerdictRow]) -> Iterator[Sentence]:
    """Say that a variant makes steps faster, and this training not."""
    trains = _answered(results, rows, "speed", "yes")
    predicts = _answered(results, rows, "prediction_speed", "yes")
    if trains and not predicts and _is_in_vain(results, rows, trains):
        why = _in_vain(results, rows, trains)
        is_bare = any(of.in_trainer for _, of in break_evens(results, rows, trains))
        step = f"{'its bare step' if is_bare else 'a step of it'} is"
        step += f" {_how_fast(results, rows, trains)}"
        yield sentence(rows[0], f"leave {rows[0]['variant']} out of this training: {why}; {step}")


def _whole(results: Results, row: VerdictRow) -> VerdictRow | None:
    """Return the verdict on the whole training of a variant."""
    names = ("study", "workload", "variant")
    for other in results.verdicts:
        if other["key"] == "whole_speed" and all(other[n] == row[n] for n in names):
            return other
    return None


def _times_of(whole: VerdictRow) -> str:
    """Return what the verdict says of the two times, which it says first."""
    return whole["measured"].partition("; ")[0]


def _slower(results: Results, rows: Sequence[VerdictRow]) -> Iterator[Sentence]:
    """Say that a variant only costs time: it is slower wherever that is known."""
    if any(row["answer"] == "yes" for row in rows):
        return
    found = _slower_ones(results, rows)
    if found:
        says = f"{rows[0]['variant']} is slower: it trains {_how_fast(results, rows, found)}"
        yield sentence(rows[0], "; ".join([says, *_without(results, rows[0])]))


def _without(results: Results, row: VerdictRow) -> list[str]:
    """Say what the timing left out of a variant, or that epochs are of other lengths."""
    timing = timing_of(results, row)
    return of_other_lengths(results, row) if timing is None else without(timing, row["variant"])


def _slower_at(results: Results, rows: Sequence[VerdictRow]) -> str | None:
    """Say at which sizes a variant is slower that is faster at others."""
    found = _slower_ones(results, rows)
    if not found:
        return None
    return f"it trains slower{where_of(results, rows, found)}"


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
    at = where_of(results, rows, found)
    if not steady:
        return f"{found[0].effect} than {found[0].baseline}{at} ({UNSURE})"
    text = f"{times(steady)} as {found[0].baseline}"
    if len(steady) == 1:
        text += f" ({interval_of_speed(steady[0].ratio)})"
    if len(steady) < len(found):
        text += f" (where the clock was steady, at {len(steady)} of {len(found)} sizes)"
    return f"{text}{at}"


def _bits(results: Results, row: VerdictRow) -> Iterator[str]:
    """Say whether the faster variant ends in the baseline's bits, where they were compared."""
    for other in results.verdicts:
        names = ("study", "workload", "variant")
        if other["key"] == "same_parameters" and all(other[n] == row[n] for n in names):
            if other["answer"] == "equal":
                yield "it ends in the same bits"
            elif other["answer"] == "differs":
                yield "it ends in other bits"
