"""The records of a run: what its manifest, run.json, holds, and how its other files are named.

Read and written by `run_files`.
"""

from collections.abc import Mapping
from typing import Literal, NotRequired, TypedDict

from twinrun.process.compiler_cache import CompilerCache
from twinrun.process.environment import Actual, Environment
from twinrun.process.found_files import FoundFiles
from twinrun.process.imported_code import ImportedFile
from twinrun.proof_records import Proof

FAILED = "failed: "  # prefix of `ended` where a training failed and left nothing but its reason

FileOfRun = Literal[
    "weights.safetensors",
    "steps.csv",
    "epochs.csv",
    "fingerprints.npz",
    "predictions.safetensors",
]
"""Beside its run.json; read by way of `verified`."""

# What fingerprints.npz keeps of each tensor or generator at every step, and which array
# names its columns.
PER_STEP = {
    "random": "rng_state_names",
    "random_after": "rng_state_names",
    "buffers": "buffer_names",
    "gradients": "names",
    "optimizer": "names",
    "parameters": "names",
}


class TensorEntry(TypedDict):
    """A parameter or buffer of a run."""

    name: str
    """As PyTorch names it."""
    kind: Literal["parameter", "buffer"]
    """Parameters are learned; buffers are kept beside them."""
    shape: list[int]
    """Its length along each axis; [] for a scalar."""
    dtype: str
    """torch's name of it, such as float32."""


class DataEntry(TypedDict):
    """The dataset that a run read."""

    path: str
    """The path of its file, from the working directory."""
    sha256: str
    """SHA-256 of its bytes, as they were when the run began."""
    is_changed: NotRequired[bool]
    """Whether they were others when it ended; absent if not."""


class Departure(TypedDict):
    """Where a training departs from its variant."""

    setting: str
    """The variant's setting, or the switch of torch's that the module changed under way."""
    sentence: str
    """What it is or became, and what was asked."""
    in_part: NotRequired[bool]
    """Whether the setting took effect in a part of the training; then runs are compared still."""
    of_batches: NotRequired[bool]
    """Whether it says that mini-batches may be others: not said where they are seen to be equal."""
    in_doubt: NotRequired[bool]
    """Whether the training may be the same all the same: rounding may explain a difference then."""


def is_in_part(departure: Departure) -> bool:
    """Say whether the setting took effect in a part of the training."""
    # Not by `get`, of which no type checker asks whether there is such a field.
    return "in_part" in departure and departure["in_part"]


def is_in_doubt(departure: Departure) -> bool:
    """Say whether the training may be the same all the same."""
    return "in_doubt" in departure and departure["in_doubt"]


def is_of_batches(departure: Departure) -> bool:
    """Say whether it says that mini-batches may be others."""
    return "of_batches" in departure and departure["of_batches"]


class SettingsEntry(TypedDict):
    """The settings of a run, resolved: plain values as they were written.

    Two runs are compared by these, so that a setting that only one of them knows is seen.
    """

    workload: Mapping[str, object]
    """Read by `workload_of`."""
    variant: Mapping[str, object]
    """Read by `variant_of`."""


class OfEpochs(TypedDict):
    """The training steps of each epoch, in lists as long as there were epochs."""

    epochs: list[float]
    """Their seconds."""
    communication: list[float]
    """Of these, those in which workers exchanged or waited."""
    steps: list[int]
    """How many they were, of whole mini-batches."""
    samples: list[int | None]
    """Their samples, of all workers together; None where the loader does not tell."""


class RunSeconds(OfEpochs):
    """Where the time of a run went."""

    setup: float
    """Until the Trainer was made, in seconds."""
    fit: float
    """Training and validation, in seconds; what follows until `total` is a part of it."""
    tracing: float | None
    """Of it the fingerprints; None on a GPU, where these wait for the step."""
    compiling: float
    """Of it torch's compiler, by its own clock."""
    waited: float | None
    """In which threads of the first worker could run and had no core, all threads together; None
    where the system does not count them."""
    others: float
    """No seconds: how many cores were busy with other processes meanwhile, on average."""
    total: float
    """From the first line of `train` to the manifest, in seconds; imports come before."""


class PerturbedWeight(TypedDict):
    """The weight that was changed by one unit in the last place before the first step."""

    parameter: str
    """Its parameter, as PyTorch names it."""
    index: list[int]
    """Its position in it; [] of a scalar."""
    before: float
    """Its value as it was made."""
    after: float
    """The next number away from 0."""


class NotHeld(TypedDict):
    """How what a training may have moved, and neither its module nor its optimizers hold, ended."""

    prints: list[str]
    """Fingerprints of all tensors of a name, sorted; empty of one that cannot be looked at, or may
    be there by chance."""
    is_reached: bool
    """Whether attributes of the module lead to it; else it was found in memory alone."""
    is_still: bool
    """Whether all tensors of the name were there where the training began, with the same bits: none
    of them was trained."""


class CompilationCounts(TypedDict):
    """What torch's compiler did."""

    calls: int
    """Calls of the compiled function."""
    compilations: int
    """Calls that compiled a graph."""
    reasons: list[str]
    """Why it compiled again, once for each time."""


class Origin(TypedDict):
    """What a run comes from."""

    workload: str
    """Its name in the config."""
    variant: str
    """Its name in the config."""
    seed: int
    """The seed of data, initial parameters and training."""
    repeat: int
    """Counts runs that should be identical, from 1."""
    perturbation: int
    """The number by which one weight was chosen to be changed; 0 of a run as it is."""
    settings: SettingsEntry
    """Workload and variant as they were resolved."""
    environment: Environment
    """Machine and software of the process that trained."""
    data: DataEntry | None
    """None for a workload without a dataset."""
    source_sha256: str
    """Hash of the code that the run depends on."""


class SampleHashes(TypedDict):
    """Hashes of the samples of `test` and `predict`, where they can be looked into."""

    in_order: dict[str, str]
    """In their order, however they were batched; of each loader one, with spaces between them."""
    in_any_order: dict[str, str]
    """Whatever their order: the sum of their fingerprints, modulo 2^64; likewise."""
    numbers: dict[str, list[int]]
    """How many each loader gave."""


class RunManifest(Origin):
    """The run.json of a training that left a network."""

    tensors: list[TensorEntry]
    """In the module's order."""
    weights_sha256: str
    """SHA-256 of weights.safetensors."""
    steps: int
    """Optimizer steps that were traced."""
    epochs: int
    """Epochs that were ended."""
    whole_epochs: int
    """So many of them, from the first on, took every batch that their loader had."""
    metrics: dict[str, float]
    """What the module logged on the test data."""
    not_evaluated: dict[str, str]
    """What of test and prediction could not be measured or kept, and why."""
    evaluated_on: SampleHashes
    """Of the samples that `test_step` and `predict_step` were given."""
    loaded: SampleHashes
    """The same as the loaders gave them, before Lightning cast them to the run's precision."""
    actual: Actual | None
    """None for a training that did not start."""
    perturbed: PerturbedWeight | None
    """None for a run as it is, and where no weight could be changed that no other one changes."""
    departures: list[Departure]
    """Where the training departs from its variant."""
    not_fingerprinted: list[str]
    """Classes of objects in the batches that could not be looked into."""
    not_held: dict[str, NotHeld]
    """What requires gradients and neither the module nor its optimizers hold, by name."""
    own_generators: NotRequired[dict[str, str] | None]
    """Hashes of the states in which the first step begins, of the generators of the user's own that
    it draws from, by where they are held; None where a training was resumed behind that step,
    absent of an older version."""
    no_result: str | None
    """Why what is measured of the network is no result: its weights are NaN, say. None if it
    computes numbers."""
    doubts: list[str]
    """What raises a doubt whether it does, or whether its fast steps are the proven ones."""
    code: dict[str, ImportedFile]
    """The user's modules as the process imported them, by file."""
    seconds: RunSeconds
    """Where its time went."""
    compilation: CompilationCounts | None
    """None for a run that compiled nothing."""
    compiler_cache: CompilerCache | None
    """None for a run that compiled nothing, not even in the module's own code."""
    proof: Proof | None
    """None for a run without fast steps, or whose proof failed."""
    peak_memory_mb: int
    """The most resident memory, in MiB, summed over the workers."""
    resumed_at: list[int]
    """Steps after which the training was resumed; empty of one that never was."""
    found_files: NotRequired[FoundFiles]
    """What it has read that it did not write; absent of an older version."""
    read_files: NotRequired[dict[str, str]]
    """What files held that no training writes and it has read, by path, as `read_files.held` says;
    absent of an older version."""
    made_anew: NotRequired[list[str]]
    """What data of a resumed training had made as they were read and no checkpoint held: they made
    it anew. Absent where there was nothing, and of an older version."""
    was_stopped: bool
    """Whether a first process was ended at the variant's `stop`, for this one to resume."""
    not_resumed: str | None
    """Why the training then started again from its beginning; None if it was resumed, or never
    stopped."""
    ended: str
    """`finished`, or why it ended otherwise."""


class FailedRun(TypedDict):
    """The run.json of a training that failed: nothing but the reason."""

    workload: str
    """Its name in the config."""
    variant: str
    """Its name in the config."""
    seed: int
    """The seed of data, initial parameters and training."""
    repeat: int
    """Counts runs that should be identical, from 1."""
    perturbation: int
    """The number by which one weight was chosen to be changed; 0 of a run as it is."""
    settings: SettingsEntry
    """Workload and variant as they were resolved."""
    metrics: dict[str, float]
    """Empty."""
    ended: str
    """Begins with FAILED."""
