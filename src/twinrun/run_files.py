"""The files of a run, verified by checksums: one reader, one writer, typed records.

A run's folder holds weights.safetensors, steps.csv, epochs.csv, fingerprints.npz,
predictions.safetensors, run.json (its manifest) and SHA256SUMS. Does without torch.
"""

import hashlib
import math
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from twinrun import artifacts
from twinrun.config.definitions import RunFiles, Training, Variant, Workload
from twinrun.errors import JobError, TwinrunError
from twinrun.run_records import FAILED, FailedRun, FileOfRun, RunManifest, SettingsEntry

if TYPE_CHECKING:
    from typing_extensions import TypeIs

RESUMED = "resumed"  # beside checkpoints: a process was resumed from one of them
CHECKSUMS = "SHA256SUMS"  # as sha256sum writes it, so that `sha256sum --check` reads it too
# Ends the name of a prediction of which a fingerprint for each batch was kept, not its values.
FINGERPRINT = " (fingerprint)"


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


def has_tensors(manifest: RunManifest) -> bool:
    """Say whether a run left any element of a parameter or buffer."""
    return any(math.prod(tensor["shape"]) for tensor in manifest["tensors"])


def end_of(manifest: RunManifest) -> str | None:
    """Return a hash of all that a run ended in; None where it left nothing that was looked at.

    Runs without tensors all have the same `weights_sha256`, whatever they trained.
    """
    # What may be there by chance tells no two trainings apart.
    looked_at = (entry for entry in manifest["not_held"].items() if "" not in entry[1]["prints"])
    beside = [(name, found["prints"]) for name, found in looked_at]
    if not beside:
        return manifest["weights_sha256"] if has_tensors(manifest) else None
    text = repr((manifest["weights_sha256"], sorted(beside)))
    return hashlib.sha256(text.encode()).hexdigest()


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

    A reader asks for its file here, each time: whether another one has looked at the checksum
    before is nothing that it can see.

    Args:
        run: its run.json.
        name: of the file beside it.

    Raises:
        TwinrunError: if the file is missing or has other bytes.
    """
    run = Path(run)
    _check_hash(run, name)
    return run.with_name(name)


def overwritten(run: str | Path) -> list[Path]:
    """List the files of a run that are gone, or were written to since and have other bytes.

    Only what was written to behind the checksums is read: of a whole folder of runs that is little.

    Args:
        run: its run.json.

    Raises:
        OSError: if there are no checksums.
    """
    sums = Path(run).with_name(CHECKSUMS)
    since, files = sums.stat().st_mtime_ns, {sums.with_name(n): h for n, h in _recorded(sums)}
    return [
        file
        for file, recorded in files.items()
        if not file.is_file()
        or (file.stat().st_mtime_ns > since and artifacts.sha256(file) != recorded)
    ]


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


def recorded_hash(run: str | Path, name: str) -> str:
    """Return the SHA-256 that a run recorded of one of its files, which is not read.

    Raises:
        TwinrunError: if the file is missing, or nothing was recorded.
    """
    run = Path(run)
    try:
        recorded = dict(_recorded(run.with_name(CHECKSUMS)))
    except (FileNotFoundError, UnicodeDecodeError):
        recorded = {}
    file = run.with_name(name)
    if not file.is_file():
        raise corrupt(file, "it is missing")
    if name not in recorded:
        raise corrupt(file, f"{CHECKSUMS} does not name it")
    return recorded[name]


def _recorded(sums: Path) -> list[tuple[str, str]]:
    """Return the name and the hash of each file that checksums name."""
    lines = sums.read_text(encoding="utf-8").splitlines()
    return [(name, digest) for digest, _, name in (line.partition("  ") for line in lines)]


def _check_hash(run: Path, name: str) -> None:
    recorded, file = recorded_hash(run, name), run.with_name(name)
    if artifacts.sha256(file) != recorded:
        raise corrupt(file, f"its sha256 is not the one in {CHECKSUMS}")
