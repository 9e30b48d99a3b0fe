"""What is said of a pair: comparisons and locations, as JSON that is checked. Without torch."""

from pathlib import Path
from typing import Literal, NotRequired, TypeAlias, TypedDict

from twinrun import artifacts
from twinrun.process.compiler_cache import Sharing
from twinrun.process.found_files import FoundFiles
from twinrun.run_records import Departure
from twinrun.trace.op_rows import OpRow, Phase

PairAnswer = Literal["equal", "differs", "not comparable", "not run"]
# What differs first between two runs, in the order in which one causes the next; see `causes`.
Quantity = Literal[
    "initial parameters",
    "initial buffers",
    "parameters before the step",
    "buffers before the step",
    "RNG states",
    "order of the batch",
    "content of the batch",
    "RNG states after the step",
    "buffers",
    "loss",
    "workers' own gradients",
    "gradients",
    "optimizer settings",
    "optimizer state",
    "parameters",
    "number of steps",
    "weights outside the module",
]
# The class of its cause.
Cause = Literal[
    "initial weights",
    "between steps",
    "RNG state",
    "data order",
    "data content",
    "forward",
    "backward",
    "optimizer",
    "end of the training",
    "not held",
    "data order or content",
    "data not compared",
    "collective",
    "not traced",
]


class Counts(TypedDict):
    """Tensors of one kind and their elements; of several repeats the worst."""

    tensors: int
    """All of them."""
    elements: int
    """Elements of all of them."""
    tensors_differing: int
    """Those of which a byte differs."""
    elements_differing: int
    """Those of which a byte differs."""


class NonFiniteLoss(TypedDict):
    """The traced steps of a run whose loss is infinite or NaN."""

    step: int
    """The first of them."""
    since: int
    """From which step on it may have been so: those between were not traced."""
    number: int
    """How many they are."""
    is_lasting: bool
    """Whether no traced step behind the first had a loss that is a number."""


class FirstDifference(TypedDict):
    """What differed first between two runs, in the order of cause and effect."""

    repeat: int
    """The second run's."""
    step: int
    """From 1; 0 before the first one."""
    epoch: int
    """From 1; 0 before the first one."""
    quantity: Quantity
    """What it is, without the tensor."""
    tensor: str | None
    """Name of the tensor, generator or setting; None for a quantity that is one value."""
    cause: Cause
    """The class of its cause; `not traced` where steps between may hold it."""
    since: NotRequired[int]
    """The first step before it, not traced, in which it may have begun; 0: as it starts."""
    values: NotRequired[list[float]]
    """An optimizer's setting in both runs; absent for anything else."""


class OutputComparison(TypedDict):
    """Whether runs agree in what they give beside their weights; of several repeats the worst."""

    answer: Literal["equal", "differs", "not run"]
    """`not run` where a run's test or prediction failed, so that there is nothing to compare."""
    compared: int
    """How many values."""
    differing: int
    """How many of them differ, or are in one run alone."""
    measured: str
    """The same in words, with the first that differs; or why there is none."""


class Comparison(TypedDict):
    """Runs compared with the first of them."""

    workload: str
    """The workload of all runs."""
    variant: str
    """The variant of the last run."""
    against: str | None
    """The first run's variant if another one was compared with it; None for repeats."""
    seed: int
    """The seed of the last run."""
    answer: PairAnswer
    """`equal`: all tensors, all steps, and their number; `not run`: a training failed."""
    reason: str | None
    """Why there is nothing to compare, or runs are not comparable; None if they are."""
    repeats: int
    """How many runs."""
    steps: int
    """Steps of the first run."""
    steps_of_runs: NotRequired[list[int]]
    """Steps of each run, where not all have as many; absent where they have."""
    parameters: Counts
    """Learnable tensors."""
    buffers: Counts
    """Other tensors of the module."""
    max_abs: float | None
    """The largest |difference| of a parameter's element."""
    max_ulp: int | None
    """The largest distance of a parameter's element in units in the last place."""
    relative_l2: float | None
    """|second - first| / |first| of all parameters together; the largest of several repeats."""
    first_difference: FirstDifference | None
    """None if nothing differs at any step."""
    logged: OutputComparison | None
    """What it logged in each epoch; None for no pair, and without such values; likewise below."""
    metrics: OutputComparison | None
    """What it measured on the test data."""
    predictions: OutputComparison | None
    """What it predicts after training."""
    resumed_at: list[list[int]]
    """For each run the steps after which it was resumed."""
    found_files: NotRequired[FoundFiles]
    """Files that runs have read and that were written before; absent of an older version."""
    made_anew: NotRequired[list[str]]
    """What data of a resumed run had made and no checkpoint held; absent if nothing."""
    compiler_cache: Sharing | None
    """Whether each run compiled into an empty cache of its own; None if fewer than two compiled."""
    is_untrained: bool
    """Whether every run ends in the parameters that it began with."""
    non_finite_loss: list[NonFiniteLoss | None]
    """For each run the steps whose loss is infinite or NaN; None if all are numbers."""
    non_finite_parameters: list[int]
    """For each run how many elements of parameters are infinite or NaN after training."""
    not_fingerprinted: list[str]
    """Classes of objects in the batches that could not be looked into, and so not compared."""
    not_held: dict[str, bool | None]
    """Tensors that a run may have trained, no parameters; whether they end alike, None: unknown."""
    departures: list[Departure]
    """Where a training was not as its variant says, each once."""
    traced: NotRequired[str]
    """Which steps were traced, and what of them was compared, in a clause; absent where all was."""
    same_as_seeds: list[int]
    """Other seeds of which a run ends in the same weights: the seed decides nothing."""
    runs: list[str]
    """Folders of the runs, the first first."""


DiffersIn: TypeAlias = Literal["outputs", "inputs", "tensors", "operations", "unwritten"]


class Operation(TypedDict):
    """The operation of a step from which the difference of a pair flows."""

    position: int | None
    """In the table of the step's operations, from 1; None where the record alone has it."""
    phase: Phase
    """The phase of the training step."""
    module: str
    """Path of the module that called it; empty outside of any."""
    op: str
    """Its name, such as `aten::index_put`."""
    call: int
    """Counts the calls of this name in this phase and module, on this line, from 1."""
    parameter: str
    """Name of the parameter that it reads, or whose gradient it computes; may be empty."""
    source: str
    """The user's line, `file:line`; may be empty."""
    draws: bool
    """Whether it drew other random numbers."""
    differs_in: DiffersIn
    """`outputs` of equal inputs, `inputs` nothing made, `tensors`, `operations`, `unwritten`."""
    numbers: NotRequired[list[str]]
    """An argument that is no tensor, as it was in each process; absent where none differs."""
    elements: NotRequired[int]
    """Elements of the output farthest from the recorded one; absent where nothing was measured."""
    elements_differing: NotRequired[int]
    """Those of which a byte differs."""
    max_abs: NotRequired[float]
    """The largest |difference|."""
    max_ulp: NotRequired[int]
    """The largest distance in units in the last place."""
    relative_l2: NotRequired[float]
    """|second - first| / |first|."""


class ComparedRow(OpRow):
    """An operation of a repeat beside the recorded one: a row of the table."""

    inputs_equal: bool
    """Whether the record has it with the same inputs."""
    outputs_equal: bool
    """Likewise."""
    reaches: NotRequired[bool]
    """Whether values that differ go from it to what differed first."""
    elements: NotRequired[int]
    """This one and those below: as of an `Operation`."""
    elements_differing: NotRequired[int]
    """Elements of its outputs whose bytes differ; as of an `Operation`."""
    max_abs: NotRequired[float]
    """The largest |difference|."""
    max_ulp: NotRequired[int]
    """The largest distance in units in the last place."""
    relative_l2: NotRequired[float]
    """|second - first| / |first|."""


class Suspect(TypedDict):
    """An operation of whose values Python may have made what another one was given."""

    op: Operation
    """The operation."""
    is_read: bool
    """Whether Python was seen to read a value that came of it, as by `.item()`."""
    fired: int
    """In how many repeats it differed: in each of those that are told of, at least."""


class Location(TypedDict):
    """Where the runs of a seed diverge."""

    workload: str
    """The workload of the runs."""
    variant: str
    """The variant of the runs."""
    seed: int
    """The seed of the runs."""
    answer: Literal["equal", "located", "not located", "not compared"]
    """Whether an operation was found; `not compared` where the runs were not."""
    cause: Cause | None
    """The class of the cause; None where nothing differed at any step."""
    step: int | None
    """In which the runs diverged; it is the one that was done again."""
    op: Operation | None
    """The operation; None where none was found."""
    likely: Operation | None
    """Where none was found: one that leads to what differs, and was not seen to decide it alone."""
    others: list[Operation]
    """Further ones that made it differ, behind the first or in other repeats, each once."""
    repeats: int
    """How often the step was done again."""
    differed: int
    """In how many of these that which differed first in the pair did so again."""
    fired: int
    """In how many of these that operation, found or likely, differed."""
    suspect: Suspect | None
    """One before it of whose values it may have been given by Python; None if none is known."""
    sentence: str
    """All of it, for a reader."""


def write_comparisons(path: str | Path, found: list[Comparison]) -> None:
    """Write the comparisons of one rule: a list, of one seed or cell or of several seeds."""
    # Always a list, so that no reader needs to know which rule wrote it.
    artifacts.write_record(path, found, list[Comparison])


def read_comparisons(path: str | Path) -> list[Comparison]:
    """Read what `write_comparisons` wrote."""
    return artifacts.read_record(path, list[Comparison])


def write_locations(path: str | Path, found: list[Location]) -> None:
    """Write the locations of one variant, a seed each."""
    artifacts.write_record(path, found, list[Location])


def read_locations(path: str | Path) -> list[Location]:
    """Read what `write_locations` wrote."""
    return artifacts.read_record(path, list[Location])
