"""The measurement behind a verdict on speed, and the sizes at which several say the same."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from twinrun.config.timed_variants import timed_without
from twinrun.formatting import count, measure, plural
from twinrun.report.results import Results
from twinrun.timing.epoch_times import Scaling
from twinrun.timing.ratio_words import effect_of
from twinrun.timing.steadiness import medians_behind
from twinrun.timing.summary import Interval, TimingSummary
from twinrun.verdicts.rows import VerdictRow
from twinrun.verdicts.speed import TRAINS_FASTER, TRAINS_FASTER_AT, per_unit

PHASES = {"speed": "train", "cost": "train", "prediction_speed": "predict"}


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A ratio of times, and whether its clock was steady."""

    ratio: Interval
    """The variant's seconds divided by the baseline's."""
    baseline: str
    """The variant that it is compared with."""
    unstable: bool
    """Whether the rounds or epochs of one of both were."""
    size: int | None
    """The size; None for a timing without."""

    @property
    def speed_up(self) -> float:
        """How many times as fast the variant is."""
        return 1 / self.ratio["time_ratio"]

    @property
    def effect(self) -> str:
        """What it shows in words."""
        return effect_of(self.ratio)


def timing_of(results: Results, row: VerdictRow) -> TimingSummary | None:
    """Return the timing that a verdict rests on; None if it rests on none that is there."""
    path = Path(row["evidence"])
    return results.timings.get(path.stem) if path.parts[:1] == ("timings",) else None


def measured(results: Results, row: VerdictRow) -> Measured | None:
    """Return what a verdict on speed or cost rests on; None where nothing was measured."""
    timing = timing_of(results, row)
    return _of_epochs(results, row) if timing is None else _of_steps(results, row, timing)


def _scaling_of(results: Results, row: VerdictRow) -> Scaling | None:
    path = Path(row["evidence"])
    return results.scalings.get(path.stem) if path.parts[:1] == ("scaling",) else None


def of_other_lengths(results: Results, row: VerdictRow) -> list[str]:
    """Say that the epochs which a verdict compares are of other lengths, if they are."""
    scaling = _scaling_of(results, row)
    if scaling is None:
        return []
    medians = {median["variant"]: median for median in scaling["medians"]}
    own, base = medians.get(row["variant"]), medians.get(scaling["baseline"])
    ratios = [ratio for ratio in scaling["ratios"] if ratio["variant"] == row["variant"]]
    if own is None or base is None:
        return []
    said = (per_unit(ratio, own, base).removeprefix("; ") for ratio in ratios)
    return [text for text in said if text]


def _of_epochs(results: Results, row: VerdictRow) -> Measured | None:
    scaling = _scaling_of(results, row)
    for found in scaling["ratios"] if scaling else []:
        if scaling and found["variant"] == row["variant"]:
            behind = {row["variant"], scaling["baseline"]}
            medians = [m for m in scaling["medians"] if m["variant"] in behind]
            unstable = any(m["unstable"] for m in medians)
            return Measured(ratio=found, baseline=scaling["baseline"], unstable=unstable, size=None)
    return None


def _of_steps(results: Results, row: VerdictRow, timing: TimingSummary) -> Measured | None:
    phase, size = PHASES.get(row["key"]), size_of(results, row)
    for found in timing["ratios"]:
        if (found["variant"], found["phase"], found["size"]) == (row["variant"], phase, size):
            unstable = any(m["unstable"] for m in medians_behind(timing, found))
            return Measured(ratio=found, baseline=timing["baseline"], unstable=unstable, size=size)
    return None


def size_of(results: Results, row: VerdictRow) -> int | None:
    """Return the size that a verdict speaks of, by its question; None if it names none."""
    timing = timing_of(results, row)
    if timing is None or row["key"] != "speed":
        return None
    of_rows = [*timing["medians"], *timing["skipped"]]
    for size in {found["size"] for found in of_rows if found["size"] is not None}:
        asked = {"baseline": timing["baseline"], "unit": timing["settings"]["timing"].size}
        if TRAINS_FASTER_AT.format(**asked, size=count(size)) == row["question"]:
            return size
    return None


def where(sizes: Collection[int], every: Collection[int], unit: str) -> str:
    """Say at which of all sizes something was measured.

    >>> every = [100, 1000, 10000]
    >>> where([1000, 10000], every, "points"), where([100], every, "points")
    ('from 1,000 points on', 'at 100 points')
    >>> where(every, every, "points"), where([100, 1000], every, "points")
    ('at every size, 100 to 10,000 points', 'up to 1,000 points')
    """
    ordered, found = sorted(every), sorted(sizes)
    if len(found) == 1:
        return f"at {count(found[0])} {unit}"
    if found == ordered:
        return f"at every size, {count(found[0])} to {count(found[-1])} {unit}"
    if found == ordered[-len(found) :]:
        return f"from {count(found[0])} {unit} on"
    if found == ordered[: len(found)]:
        return f"up to {count(found[-1])} {unit}"
    return f"at {', '.join(map(count, found[:-1]))} and {count(found[-1])} {unit}"


def times(found: Sequence[Measured]) -> str:
    """Say how many times as fast something is, over several sizes."""
    ends = list(dict.fromkeys(measure(f([m.speed_up for m in found])) for f in (min, max)))
    return f"{' to '.join(ends)} times as fast"


def without(timing: TimingSummary, variant: str) -> list[str]:
    """Say what a timing left out of a variant, if it left out something."""
    said = timed_without(variant, timing["baseline"], timing["settings"]["variants"])
    return [said] if said else []


def one_row_of_sizes(rows: Sequence[VerdictRow], results: Results) -> list[VerdictRow]:
    """Make one row of those that give one answer at several sizes, in the first one's place."""
    groups: dict[tuple[str, ...], list[VerdictRow]] = {}
    for position, row in enumerate(rows):
        sized = size_of(results, row) is not None
        same = (row["evidence"], row["variant"], row["answer"]) if sized else (str(position),)
        groups.setdefault(same, []).append(row)
    return [
        group[0] if len(group) == 1 else _joined(group, rows, results) for group in groups.values()
    ]


def _joined(
    group: Sequence[VerdictRow], rows: Sequence[VerdictRow], results: Results
) -> VerdictRow:
    first = group[0]
    timing = timing_of(results, first)
    assert timing is not None  # noqa: S101 a row has a size by its timing alone
    of_variant = [row for row in rows if _same(row, first)]
    sizes, every = (
        [size for row in of if (size := size_of(results, row)) is not None]
        for of in (group, of_variant)
    )
    clauses = [where(sizes, every, str(timing["settings"]["timing"].size))]
    found = [m for row in group if (m := measured(results, row)) is not None]
    if found:
        clauses.append(times(found))
        if unstable := sum(m.unstable for m in found):
            clauses.append(f"unstable at {count(unstable)} of {plural(len(found), 'size')}")
        clauses += without(timing, first["variant"])
    else:
        clauses += dict.fromkeys(row["measured"] for row in group)
    question = TRAINS_FASTER.format(baseline=timing["baseline"])
    return {**first, "question": question, "measured": "; ".join(clauses)}


def _same(row: VerdictRow, other: VerdictRow) -> bool:
    names = ("evidence", "variant", "key")
    return all(row[name] == other[name] for name in names)
