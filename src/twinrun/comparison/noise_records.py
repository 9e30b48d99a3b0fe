"""What the study noise measured, field by field: one reader, one writer.

JSON that is checked where it is written and where it is read, as for `study_records`.
"""

from pathlib import Path
from typing import Literal, NotRequired, TypedDict

from twinrun import artifacts
from twinrun.comparison.begun import Begun
from twinrun.config.rule_records import KindOnScale


class Measure(TypedDict):
    """By what a run is compared with the reference."""

    name: str
    """Of a metric or a prediction; `parameters` of the parameters."""
    kind: Literal["metric", "rows", "values", "numbers", "parameters"]
    """A metric has a value of each run. All others are distances to the reference: the share of
    rows (N, C) whose largest number is at another place, or of values that are others; or the
    relative L2 distance of floating-point numbers, or of the parameters."""
    floor: float
    """The smallest distance that it tells from none; 0 of a metric."""


class NoiseRun(TypedDict):
    """A run on the scale."""

    kind: KindOnScale
    """What it is to the reference."""
    label: str
    """For a reader."""
    study: str
    """The study whose change it is; `noise` of the runs of the scale itself."""
    run: str
    """Path of its run.json; empty where nothing was run."""
    answer: Literal["equal", "differs", "not run", "not comparable"]
    """Whether parameters, buffers, test metrics and predictions are the reference's, to the bit."""
    reason: str | None
    """Why it is not compared; of one that is, why it left no result, if so."""
    values: dict[str, float]
    """By the name of a measure: a metric's value, or the distance to the reference."""
    lacks: dict[str, str]
    """Measures that it has no number of, and why."""
    resumed_at: NotRequired[list[int]]
    """The steps after which it was resumed; absent of one that left no network."""
    doubts: NotRequired[list[str]]
    """What may have moved its values beside all that; absent of one that left no network."""
    not_finite: list[str]
    """Those of them that are NaN or infinite, where the reference has a number."""
    begun: NotRequired[Begun]
    """What the reference and other seeds began with; absent of all others."""


class NoiseTable(TypedDict):
    """All runs of a workload and variant, on one scale."""

    workload: str
    """Of all runs."""
    variant: str
    """Of all runs but the changes."""
    seed: int
    """The reference's."""
    steps: int | None
    """Of the reference; None where it left no network."""
    reason: str | None
    """Why nothing can be compared; None where there is a reference."""
    measures: list[Measure]
    """The metrics, the predictions, the parameters."""
    runs: list[NoiseRun]
    """The reference, the repeat, the perturbations, the seeds, the changes."""
    not_measured: dict[str, str]
    """What the reference gives that is no measure, and why: predictions that failed, or texts."""
    left_out: list[str]
    """What differs elsewhere in the config and has another baseline, in a clause each."""
    other_data: list[Literal["test", "predict"]]
    """Where another seed is given other data than the reference, or in another order: a split by
    the run's seed. Predictions are no measure then."""
    samples: list[int]
    """How many samples each loader gave to the reference's test; empty where nobody can tell."""
    half_a_seed: int | None
    """The first step after which the parameters of half of the perturbations are at least half as
    far from the reference as those of the median seed; None where there is none."""
    half_since: NotRequired[int]
    """The step since which it may be so; absent where the one before it was looked at."""


def write_noise(path: str | Path, found: NoiseTable) -> None:
    """Write what was measured of one workload and variant."""
    artifacts.write_record(path, found, NoiseTable)


def read_noise(path: str | Path) -> NoiseTable:
    """Read what `write_noise` wrote."""
    return artifacts.read_record(path, NoiseTable)
