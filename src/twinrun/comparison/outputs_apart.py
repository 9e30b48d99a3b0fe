"""Whether two runs that end in nearly the same weights give nearly the same beside them.

What is logged, tested and predicted is computed of the weights: where these have half of their
digits in common, so has it. Else something else was computed of them. What counts samples moves by
whole ones: one of them may be a near tie, and of many as large a share as half of the digits is.
What differs between the baseline and its repeat (seconds, say) shows nothing. Nobody knows how far
two fingerprints are apart, which are all that is kept of predictions that are no numbers.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from twinrun import run_files
from twinrun.artifacts import StoredTensors
from twinrun.comparison import outputs, predicted
from twinrun.comparison.distances import relative
from twinrun.comparison.formats import FLOAT32, UNIT_OF_DTYPE
from twinrun.formatting import count, measure
from twinrun.run_files import FINGERPRINT


def outputs_apart(runs: Sequence[Path], repeat: Path | None, half: float) -> list[str]:
    """Say what two runs give beside their weights that has not half of its digits in common.

    Args:
        runs: folders of the two.
        repeat: that of the first one's repeat.
        half: the root of the relative spacing of what they compute in.
    """
    again = runs[0] if repeat is None else repeat
    first, other, same = map(_numbers, (*runs, again))
    numbers = run_files.read_run(runs[0] / "run.json")["evaluated_on"]["numbers"]
    tested = numbers.get("test", [])
    # A module computes in float64, and torchmetrics in float32.
    found = _values(first, other, same, {*tested, sum(tested)} - {0}, max(half, _half(FLOAT32)))
    predictions = [outputs.predicted(folder / "run.json") for folder in (*runs, again)]
    return [*found, *_predictions(predictions, half)]


def _half(unit: float) -> float:
    return math.sqrt(2 * unit)


def _numbers(folder: Path) -> dict[tuple[str, str], float]:
    """Return what a run measured and logged, by what it is and how it is told."""
    metrics = run_files.read_run(folder / "run.json")["metrics"]
    tested = {f"{name} in the test": float(value) for name, value in metrics.items()}
    return {(name, name): value for name, value in tested.items()} | {
        (name, f"{name} in epoch {epoch}"): float(text)
        for name, epoch, text in outputs.logged_in(folder)
    }


def _values(
    first: Mapping[tuple[str, str], float],
    other: Mapping[tuple[str, str], float],
    same: Mapping[tuple[str, str], float],
    tested: set[int],
    half: float,
) -> Iterator[str]:
    done = {
        name
        for name, at in {**first, **same}
        if _differ(first.get((name, at)), same.get((name, at)))
    }
    largest: dict[str, float] = {}
    for (name, _), value in first.items():
        # As of losses: a small one is a difference of numbers as large as earlier ones.
        if math.isfinite(value):
            largest[name] = max(abs(value), largest.get(name, 0.0))
    for name, at in {**first, **other}:
        one, two = first.get((name, at)), other.get((name, at))
        if name in done or not _differ(one, two):
            continue
        if one is not None and two is not None:
            # How many samples a validation has is not known.
            of = tested if name == at else ()
            is_near = abs(one - two) <= half * largest.get(name, 0.0)
            if is_near or any(_is_of_samples(one, two, number, half) for number in of):
                continue
        done.add(name)  # said once, of whatever many epochs
        one, two = ("none" if value is None else value for value in (one, two))
        yield f"{at} is {one} and {two}"


def _differ(one: float | None, two: float | None) -> bool:
    """Say whether two values are not the same; NaN is NaN."""
    return repr(one) != repr(two)


def _is_of_samples(one: float, two: float, number: int, half: float) -> bool:
    """Say whether values are shares, percents or counts of samples, of which one may have turned.

    >>> _is_of_samples(0.9, 0.92, 50, 1e-4), _is_of_samples(0.9, 0.94, 50, 1e-4)
    (True, False)
    >>> _is_of_samples(0.91, 0.92, 50, 1e-4)
    False
    """
    for whole in (1, 100, number):
        counts = [value * number / whole for value in (one, two)]
        is_count = all(0 <= n <= number and abs(n - round(n)) < _half(FLOAT32) for n in counts)
        if is_count and abs(counts[0] - counts[1]) <= 1 + half * number:
            return True
    return False


def _predictions(runs: Sequence[StoredTensors], half: float) -> Iterator[str]:
    first, other, same = runs
    for name in dict.fromkeys([*first.names(), *other.names()]):
        steady = first.form(name) == same.form(name) and not predicted.unequal(first, same, name)
        if name.endswith(FINGERPRINT) or not steady:
            continue
        is_floating = predicted.is_floating(first, name)
        is_whole = is_floating and all(predicted.are_whole(each, name) for each in (first, other))
        if not predicted.are_alike(first, other, name) or not (
            is_floating or first.form(name) == other.form(name)
        ):
            yield f"{name} are predicted in another shape or type, or by one run alone"
        elif is_floating and not is_whole:
            apart = float(np.sqrt(relative(*predicted.squares_of(first, other, name))))
            if not apart <= max(half, *(_half(_unit(each, name)) for each in (first, other))):
                yield f"{name} are predicted a relative L2 of {measure(apart)} apart"
        else:
            changed, rows = predicted.rows_changed(first, other, name)
            if changed > 1 + half * rows:
                yield f"{name} differ in {count(changed)} of {count(rows)} predictions"


def _unit(stored: StoredTensors, name: str) -> float:
    form = stored.form(name)
    return FLOAT32 if form is None else UNIT_OF_DTYPE.get(predicted.type_of(form[1]), FLOAT32)
