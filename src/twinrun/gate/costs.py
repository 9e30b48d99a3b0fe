"""The gate on what determinism costs: measured ratios beside a limit, and what has none."""

import operator
from collections.abc import Iterable, Iterator, Sequence

from twinrun.formatting import measure
from twinrun.gate.outcome import Judged
from twinrun.timing import summary
from twinrun.timing.ratio_words import interval_of_time
from twinrun.timing.steadiness import medians_behind
from twinrun.timing.summary import TimingSummary
from twinrun.verdicts.rows import VerdictRow
from twinrun.verdicts.speed import unsteadiness

LIMITS = {"<=": operator.le, "<": operator.lt, ">=": operator.ge, ">": operator.gt}


def costs(
    timings: Iterable[str], wanted: str, rows: Sequence[VerdictRow], workloads: Sequence[str]
) -> Iterator[Judged]:
    """Judge what determinism costs: by ratios, and by verdicts where there is none.

    Args:
        timings: files of the timings.
        wanted: the limit.
        rows: all verdicts.
        workloads: those of the config.
    """
    for path in timings:
        yield from _costs_of(summary.read(path), wanted)
    # Of variants that could not be timed, here or at all.
    for row in rows:
        is_open = row["answer"] in ("not run", "not comparable")
        if row["key"] == "cost" and is_open and row["workload"] in workloads:
            yield "not comparable", f"{row['workload']} {row['variant']}: {row['measured']}"


def _costs_of(timing: TimingSummary, wanted: str) -> Iterator[Judged]:
    """Compare each ratio of the training step with a limit such as `<= 1.25`.

    The ratio itself is compared, not an end of its interval: see docs/gate.md.
    """
    # The schema has one space between sign and number.
    sign, _, limit = wanted.partition(" ")
    ratios = [ratio for ratio in timing["ratios"] if ratio["phase"] == "train"]
    if not ratios:
        yield "not comparable", f"{timing['workload']}: the cost was not measured"
    for ratio in ratios:
        value = ratio["time_ratio"]
        holds = LIMITS[sign](value, float(limit))
        printed = _beside_limit(value, sign, float(limit))
        why = f"{timing['workload']} {ratio['variant']}: {printed} ({interval_of_time(ratio)})"
        why += unsteadiness(ratio, medians_behind(timing, ratio))
        if "uneven" in ratio and ratio["uneven"]["unmeasured"]:
            yield "not comparable", why
        else:
            yield "pass" if holds else "fail", why


def _beside_limit(value: float, sign: str, limit: float) -> str:
    """Write a value with three digits, or with as many as show on which side of a limit it is.

    >>> _beside_limit(1.2, "<=", 1.25), _beside_limit(1.2504, "<=", 1.25)
    ('1.20', '1.2504')
    """
    holds = LIMITS[sign](value, limit)
    digits = next(
        digits
        for digits in range(3, 18)  # 17 digits give any float64 back
        if LIMITS[sign](float(f"{value:.{digits - 1}e}"), limit) == holds
    )
    return measure(value, digits)
