"""The files of a run, verified by checksums: one reader, one writer, typed records.

A run's folder holds weights.safetensors, steps.csv, epochs.csv, fingerprints.npz,
predictions.safetensors, run.json (its manifest) and SHA256SUMS. Does without torch.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict

import msgspec

from twinrun import artifacts
from twinrun.config.definitions import RunFiles, Training, Variant, Workload
from twinrun.errors import JobError, TwinrunError
from twinrun.process.compiler_cache import CompilerCache
from twinrun.process.environment import Actual, Environment
from twinrun.process.imported_code import ImportedFile

if TYPE_CHECKING:
    from typing_extensions import TypeIs

CHECKSUMS = "SHA256SUMS"  # as sha256sum writes it, so that `sha256sum --check` reads it too
# Ends the name of a prediction of which a fingerprint for each batch was kept, not its values.
FINGERPRINT = " (fingerprint)"
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
    "random": "stream_names",
    "random_after": "stream_names",
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
    shape: list[int]
    dtype: str
    """torch's name of it, such as float32."""


class DataEntry(TypedDict):
    """The dataset that a run read."""

    path: str
    sha256: str
    """Of its bytes."""


class SettingsEntry(TypedDict):
    """The settings of a run, resolved: plain values as they were written.

    Two runs are compared by these, so that a setting that only one of them knows is seen.
    """

    workload: Mapping[str, object]
    """Read by `workload_of`."""
    variant: Mapping[str, object]
    """Read by `variant_of`."""


class RunSeconds(TypedDict):
    """Where the time of a run went."""

    setup: float
    """Until the Trainer was made, in seconds."""
    fit: float
    """Training and validation, in seconds."""
    total: float
    """From the first line of `train` to the manifest, in seconds; imports come before."""
    epochs: list[float]
    """Seconds of the training steps of each epoch."""
    communication: list[float]
    """Seconds of each epoch in which workers exchanged or waited."""


class CompilationCounts(TypedDict):
    """What torch's compiler did."""

    calls: int
    """Of the compiled function."""
    compilations: int
    """Calls that compiled a graph."""
    reasons: list[str]
    """Why it compiled again, once for each time."""


class ProofLeg(TypedDict):
    """Fast steps compared with plain ones in one precision: see `acceleration.proof`."""

    precision: str
    """Lightning's name of it."""
    distance: float
    """The largest relative L2 distance of a value that was compared."""
    bound: float
    """The distance that rounding explains."""
    judged: int
    """Values that were compared."""
    left_out: int
    """Values that rounding alone moves too far to tell."""


class Proof(TypedDict):
    """That a variant's fast steps compute what plain ones compute, but for rounding."""

    steps: int
    """Steps of each short training."""
    shapes: int
    """Shapes of batch in them."""
    in_parts: str | None
    """Why steps are not done in one piece, where the variant asks for that."""
    legs: list[ProofLeg]
    """In float64, and in the variant's own precision."""
    not_in_float64: str | None
    """Why the first of them is missing."""
    seed: int
    """Of the short trainings."""
    seconds: float
    """That the proof took when it was made."""
    key: str | None
    """Hash of what it rests on; None of one that is not kept for others."""
    is_remembered: bool
    """Whether it was made before, by another run or timing of the same: another seed, or repeat."""


class Origin(TypedDict):
    """What a run comes from."""

    workload: str
    """Its name in the config."""
    variant: str
    """Its name in the config."""
    seed: int
    repeat: int
    """Counts runs that should be identical, from 1."""
    settings: SettingsEntry
    environment: Environment
    data: DataEntry | None
    """None of a workload without a dataset."""
    source_sha256: str
    """Hash of the code that the run depends on."""


class RunManifest(Origin):
    """The run.json of a training that left a network."""

    tensors: list[TensorEntry]
    """In the module's order."""
    weights_sha256: str
    """Of weights.safetensors."""
    steps: int
    """Optimizer steps that were traced."""
    epochs: int
    """Epochs that were ended."""
    metrics: dict[str, float]
    """What the module logged on the test data."""
    not_evaluated: dict[str, str]
    """What of test and prediction could not be measured or kept, and why."""
    actual: Actual | None
    """None of a training that did not start."""
    departures: list[str]
    """Where the training departs from its variant."""
    not_fingerprinted: list[str]
    """Classes of objects in the batches that could not be looked into."""
    code: dict[str, ImportedFile]
    """The user's modules that the process had imported when it ended, by name."""
    seconds: RunSeconds
    compilation: CompilationCounts | None
    """None of a run that compiled nothing."""
    compiler_cache: CompilerCache | None
    """None of a run that compiled nothing, not even in the module's own code."""
    proof: Proof | None
    """None of a run without fast steps, and of one whose proof failed."""
    peak_memory_mb: int
    """The most resident memory, in MiB, summed over the workers."""
    resumed_at: list[int]
    """Steps after which the training was resumed; empty of one that never was."""
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
    variant: str
    seed: int
    repeat: int
    settings: SettingsEntry
    metrics: dict[str, float]
    """Empty."""
    ended: str
    """Begins with FAILED."""


def write_run(files: RunFiles, manifest: RunManifest | FailedRun) -> None:
    """Write the manifest of a run whose other files are written, then the hashes of all.

    `sha256sum --check SHA256SUMS` reads them there.

    Raises:
        msgspec.ValidationError: if the manifest lacks a key, or one is of another type: an error
            of ours, which shows here and not where a study reads the run.
    """
    if left_network(manifest):
        artifacts.write_record(files.manifest, manifest, RunManifest)
    else:
        artifacts.write_record(files.manifest, manifest, FailedRun)
    names = [file for name, file in asdict(files).items() if name != "checksums"]
    write_checksums(files.checksums, names)


def write_checksums(path: str | Path, files: Iterable[str | Path]) -> None:
    """Record the SHA-256 of files beside `path`."""
    lines = (f"{artifacts.sha256(file)}  {Path(file).name}\n" for file in files)
    artifacts.write_text(path, "".join(lines))


def read_run(run: str | Path) -> RunManifest:
    """Read the manifest of a run that left a network; its other files are read as `verified`.

    Args:
        run: its run.json.

    Raises:
        TwinrunError: for a manifest that is not the one that the run wrote, or lacks something,
            or is that of a training that failed.
    """
    manifest = read_ended(run)
    if not left_network(manifest):
        raise TwinrunError(f"{run}: this training left no network, it {manifest['ended']}")
    return manifest


def verified(run: str | Path, name: FileOfRun) -> Path:
    """Return the path of a file of a run whose bytes are those that the run wrote.

    Whoever reads such a file asks for it here, each time: that somebody else has looked at the
    checksum before is nothing that a reader can see.

    Args:
        run: its run.json.
        name: of the file beside it.

    Raises:
        TwinrunError: if the file is missing or has other bytes.
    """
    run = Path(run)
    _check_hash(run, name)
    return run.with_name(name)


def left_network(manifest: RunManifest | FailedRun) -> "TypeIs[RunManifest]":
    """Say whether a training left a network, however it ended."""
    return not manifest["ended"].startswith(FAILED)


def settings_of(training: Training) -> SettingsEntry:
    """Return the settings of a training as its manifest has them."""
    return {"workload": asdict(training.workload), "variant": asdict(training.variant)}


def workload_of(manifest: RunManifest | FailedRun) -> Workload:
    """Return the workload that a run trained."""
    return msgspec.convert(manifest["settings"]["workload"], Workload)


def variant_of(manifest: RunManifest | FailedRun) -> Variant:
    """Return the variant that a run trained under."""
    return msgspec.convert(manifest["settings"]["variant"], Variant)


def read_ended(run: str | Path) -> RunManifest | FailedRun:
    """Read the manifest of a run, however it ended; see `read_run`."""
    run = Path(run)
    _check_hash(run, run.name)
    content = artifacts.read_json(run)
    ended = content.get("ended") if isinstance(content, dict) else None
    try:
        if isinstance(ended, str) and ended.startswith(FAILED):
            return msgspec.convert(content, FailedRun)
        return msgspec.convert(content, RunManifest)
    except msgspec.ValidationError as error:
        raise corrupt(run, str(error)) from None


def failure_of(run: str | Path) -> str | None:
    """Return the sentence of why a training left no network; None if it left one."""
    manifest = read_ended(run)
    return None if left_network(manifest) else manifest["ended"].removeprefix(FAILED)


def corrupt(path: Path, what: str) -> JobError:
    """Make the error that says what is wrong with a file of a run, and the cure."""
    return JobError(f"{path} is corrupt ({what}): delete its folder and the run is made again")


def _check_hash(run: Path, name: str) -> None:
    try:
        lines = run.with_name(CHECKSUMS).read_text(encoding="utf-8").splitlines()
    except (FileNotFoundError, UnicodeDecodeError):
        lines = []
    recorded = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    file = run.with_name(name)
    if not file.is_file():
        raise corrupt(file, "it is missing")
    if name not in recorded:
        raise corrupt(file, f"{CHECKSUMS} does not name it")
    if artifacts.sha256(file) != recorded[name]:
        raise corrupt(file, f"its sha256 is not the one in {CHECKSUMS}")
