"""What is said of a study, field by field: matrix, stops and ranking, a reader and a writer each.

As for `pair_records`, they are JSON that is checked where it is written and where it is read.
"""

from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict

from twinrun import artifacts
from twinrun.comparison.begun import Begun
from twinrun.comparison.pair_records import Cause, PairAnswer, Quantity

# A condition of the cell `seed`, where it changes nothing.
IDLE_SEED = "though the seed is another one: it decides nothing of this training"


class MatrixCell(TypedDict):
    """What one change of the baseline did."""

    cell: str
    """Its name: `repeat`, `seed`, or of what is changed."""
    label: str
    """As one would write the change in the config."""
    answer: PairAnswer
    """`not comparable` too where the baseline itself does not repeat."""
    reason: str | None
    """Why there is no comparison."""
    steps: int | None
    """Steps of the baseline's run."""
    first_step: int | None
    """The first that differs; 0 before training."""
    quantity: Quantity | None
    """What differed first."""
    tensor: str | None
    """Its tensor."""
    cause: Cause | None
    """The class of its cause."""
    relative_l2: float | None
    """|changed - baseline| / |baseline| of the parameters after training."""
    buffers_relative_l2: float | None
    """The same of the buffers that differ after training; None if none does."""
    same_weights: bool
    """Whether every parameter and buffer ends in the same bytes, whatever differed on the way."""
    size: Literal["rounding", "algorithmic", "undecided"] | None
    """What the difference can come from; see `difference_size`. None where nothing shows it,
    and of the same weights if it did not begin in the loss."""
    judged_by: Literal["cause", "losses", "parameters", "updates"] | None
    """What the size was judged by."""
    apart: float | None
    """|difference of the losses| / |loss|, the relative L2 distance of the parameters after the
    first step that differs, or their distance relative to how far they moved; None where the cause
    alone decides."""
    bound: float | None
    """The most that rounding explains of it."""
    doubt: str | None
    """Why the size is undecided."""
    predictions_changed: float | None
    """Share of the predictions that change."""
    predictions: str | None
    """What is meant by a prediction."""
    conditions: list[str]
    """What the answer rests on; see `conditions`."""
    since: NotRequired[int]
    """The step from which it may differ, where those up to the first one were not traced."""
    traced: NotRequired[str]
    """Which steps were traced, in a clause; absent where all were."""
    tried: NotRequired[bool]
    """Whether a cell that is `not run` was tried: it failed, was refused or never stopped. Absent
    where it has an answer, or cannot run on the machine."""
    sentence: str
    """All of it but the label, for a reader."""


class MatrixTable(TypedDict):
    """Every change of a baseline."""

    workload: str
    """The workload of all cells."""
    baseline: str
    """The variant that is changed."""
    seed: int
    """The seed of all cells but `seed`."""
    answer: PairAnswer
    """Whether the baseline repeats."""
    reason: str | None
    """Why no cell can be compared; None if the baseline repeats."""
    steps: int | None
    """Steps of the baseline's run."""
    scale: float | None
    """How far another seed's losses are apart, relative to the baseline's; for comparison."""
    cells: list[MatrixCell]
    """In the order of the config."""


class StoppedRun(TypedDict):
    """A run that was stopped and resumed, compared with the one that was not."""

    stop: str
    """One of `resume_variants.STOPS`."""
    resume: str
    """One of `resume_variants.RESUMES`."""
    answer: PairAnswer
    """Whether it ends in the same bits, and gives the same logged values, test metrics and
    predictions."""
    resumed_at: int | None
    """Steps done when it was resumed."""
    steps: int | None
    """Steps of the resumed run, with those before the stop."""
    lost: str
    """What resuming lost, or why there is no answer."""
    failed: NotRequired[bool]
    """Whether that is a training that failed; absent where none did."""
    outputs: list[str]
    """Where the weights are the same: which of logged values, test metrics and predictions are
    not."""
    relative_l2: float | None
    """|resumed - whole| / |whole| of the parameters after training."""
    made_anew: NotRequired[list[str]]
    """What data had made anew of one of the two, and no checkpoint held; absent where nothing
    was."""


class ResumeTable(TypedDict):
    """Every stop of a variant."""

    workload: str
    """The workload of all runs."""
    variant: str
    """The variant of all runs, but for the stop."""
    seed: int
    """The seed of all runs."""
    steps: int
    """Steps of the whole run; 0 if it failed."""
    whole_resumed_at: NotRequired[list[int]]
    """The steps after which the whole run was itself resumed; absent where it never was."""
    stops: list[StoppedRun]
    """By stop and checkpoint type."""


class Trial(TypedDict):
    """One trial of a sweep with one seed."""

    rank: int | None
    """That of its choice; None where it has none."""
    choice: str
    """Name of its choice."""
    seed: int
    """Its seed."""
    point: dict[str, Any]
    """The hyperparameters, variant and seed that are not the same in all trials. A hyperparameter
    that is called `seed`, say, is `hyperparameter seed` here."""
    label: str
    """The same for a reader."""
    value: float | None
    """The metric; None where there is none that is measured as those of the others."""
    lacks: str | None
    """Why it has no number to be ranked by; None if it has one."""
    metrics: dict[str, float]
    """Everything else that was logged last; `logged lr` where `lr` is in the point."""
    fit_seconds: float | None
    """Training and validation; None for one that was resumed: its last process alone is known."""
    ended: str
    """`finished`, or why it ended otherwise."""
    run: str
    """Path of its run.json."""
    weights_sha256: str | None
    """Of all that it ended in, if it left anything."""
    predictions_sha256: str | None
    """Of what that predicts, if anything; of a trial of a sweep nobody asks."""
    predicted_on: str | None
    """Hash of the samples of which it predicts, in their order; None where nobody can tell."""
    tested: dict[str, float]
    """All that its test logged."""
    begun: Begun
    """What it began with."""
    doubts: list[str]
    """What raises a doubt whether the network computes numbers."""
    resumed_at: list[int]
    """The steps after which it was resumed."""


class Choice(TypedDict):
    """What can be chosen: one set of hyperparameters and variant, trained from several seeds."""

    name: str
    """Its workload, or trial, and its variant: `digits~lr~0.1/one-worker`. Two choices of equal
    names are one, and nothing else makes them one."""
    label: str
    """The same for a reader, without what all choices share."""
    rank: int | None
    """From 1, by the mean, and shared by those of one mean; None where a seed that gave others a
    number gave it none."""
    values: list[float]
    """The metric, in the order of the ranking's `seeds`; empty of a choice without a rank."""
    lacks: str | None
    """Why it has no rank; None if it has one."""


class Ranking(TypedDict):
    """The trials of a sweep or of a contest, those of the best choice first."""

    workload: str
    """The one that the trials vary; of a contest the first one's."""
    metric: str
    """By which they are ranked."""
    measured_in: Literal["test", "epoch"]
    """Whether the test logged it, after training, or an epoch; the same for all trials."""
    epoch: int | None
    """The last in which any trial logged it, the same for all; None for a test."""
    other_samples: bool
    """Whether trials of one seed were tested on other samples, or these were prepared otherwise. Of
    what cannot be looked into it is not known."""
    trained: str | None
    """How long, where that is not how long the workload itself is trained."""
    best: str
    """`highest` or `lowest`."""
    margin: float | None
    """Of a contest: by less than that the first may be worse and is called not worse."""
    seeds: list[int]
    """Those that gave any choice a number; by them the choices are compared."""
    without_number: list[int]
    """Seeds that gave none a number; they are left aside."""
    contestants: list[str]
    """Names of the two choices of a contest, the first one first; empty of a sweep."""
    conflict: str | None
    """What the runs do not share of data, versions and machine, so that none is the best."""
    choices: list[Choice]
    """The best first; those without a rank last."""
    finished: int
    """How many trials."""
    same: list[list[str]]
    """Labels of finished trials that end in the same weights: what they vary changes nothing."""
    trials: list[Trial]
    """Those without a rank last."""


def write_matrix(path: str | Path, found: MatrixTable) -> None:
    """Write the matrix of one workload."""
    artifacts.write_record(path, found, MatrixTable)


def read_matrix(path: str | Path) -> MatrixTable:
    """Read what `write_matrix` wrote."""
    return artifacts.read_record(path, MatrixTable)


def write_stops(path: str | Path, found: ResumeTable) -> None:
    """Write what the stops of one variant lost."""
    artifacts.write_record(path, found, ResumeTable)


def read_stops(path: str | Path) -> ResumeTable:
    """Read what `write_stops` wrote."""
    return artifacts.read_record(path, ResumeTable)


def write_ranking(path: str | Path, found: Ranking) -> None:
    """Write the ranking of one workload's trials."""
    artifacts.write_record(path, found, Ranking)


def read_ranking(path: str | Path) -> Ranking:
    """Read what `write_ranking` wrote."""
    return artifacts.read_record(path, Ranking)
